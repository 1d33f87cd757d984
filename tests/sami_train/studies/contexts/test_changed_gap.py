"""A delay that changes in the middle of an episode: the world stays, and what is seen of it comes late."""

from pathlib import Path

import numpy as np
import pytest

from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.studies.contexts.changed_episodes import ChangedEpisodes, DynamicsChange, Variant

MODEL = Path(__file__).parents[4] / "models" / "panda-satesac.onnx"
PANDA = environment("panda")
TEXT = "mass=1,friction=0.1,latency_s=0:0.08@2"


def test_a_change_of_a_gap_is_read_beside_the_dynamics_and_told_as_it_was_read():
    change = DynamicsChange.parse(TEXT, PANDA.tasks, 50)
    assert change.before == change.after == {"mass": 1.0, "friction": 0.1}
    assert [gap.latency_s for gap in change.gaps] == [0.0, 0.08]
    assert str(change) == TEXT
    assert [gap.latency_s for gap in change.along.gaps] == [0.08, 0.08]
    assert DynamicsChange.parse("mass=1:10,friction=0.1@4", PANDA.tasks, 50).gaps is None
    with pytest.raises(SamiError, match=r"latency_s is -1.0; it must be a number of at least 0"):
        DynamicsChange.parse("mass=1,friction=0.1,latency_s=0:-1@4", PANDA.tasks, 50)


def test_the_episode_is_the_same_until_the_delay_begins_and_what_it_costs_shows_afterwards():
    runner = ChangedEpisodes(MODEL, PANDA, 2)
    change = DynamicsChange.parse(TEXT, PANDA.tasks, 50)
    without, live = (runner.round((3, 6), change, item) for item in (Variant.UNCHANGED, Variant.LIVE))
    along = runner.round((3, 6), change.along, Variant.LIVE)
    bare = runner.round((3, 6), DynamicsChange(change.before, change.after, 2), Variant.LIVE)
    runner.close()
    for row in range(2):
        for name in ("actions", "contexts"):
            np.testing.assert_array_equal(getattr(without[row], name), getattr(bare[row], name))
            assert getattr(live[row], name)[:3].tobytes() == getattr(bare[row], name)[:3].tobytes()
        assert live[row].actions[3].tobytes() != bare[row].actions[3].tobytes()
        assert along[row].actions[1].tobytes() != bare[row].actions[1].tobytes()


def test_a_model_that_looks_ahead_is_refused_where_a_delay_changes_because_no_age_reaches_it():
    runner = ChangedEpisodes(MODEL.with_name("panda-satesac-ahead.onnx"), PANDA, 2)
    runner.round((3, 6), DynamicsChange.parse("mass=1:10,friction=0.1@4", PANDA.tasks, 50), Variant.LIVE)
    with pytest.raises(SamiError, match="'panda-satesac-ahead' looks ahead, but gets no ages here"):
        runner.round((3, 6), DynamicsChange.parse(TEXT, PANDA.tasks, 50), Variant.LIVE)
    noise = GapProfile.of({"noise": 0.001})
    change = DynamicsChange({"mass": 1.0, "friction": 1.0}, {"mass": 10.0, "friction": 0.1}, 4, (noise, noise))
    assert len(runner.round((3, 6), change, Variant.LIVE)) == 2, "noise makes nothing late"
    runner.close()
