"""A time to adapt promises what fresh changes keep, and refuses where nothing can be promised."""

import math

import numpy as np
import pytest

from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_train.export.training_ranges import MeasuredGap
from sami_train.studies.contexts import recovery
from sami_train.studies.contexts.changed_episodes import ChangedEpisodes, DynamicsChange, Variant
from sami_train.studies.contexts.recovery import Recoveries, certify, measure_recoveries
from tests.sami_train.studies.contexts.test_adaptation import HEAVY, LIGHT, MODEL, PANDA


def recoveries(steps, unchanged=(None,) * 100):
    return Recoveries(tuple(steps), 0, tuple(unchanged))


def test_nine_of_ten_bounds_hold_for_nine_of_ten_fresh_changes():
    rng = np.random.default_rng(0)
    over = []
    for _ in range(400):
        bound = certify(recoveries(rng.exponential(20.0, 60).tolist()), "drawn").steps
        over.append(1.0 - math.exp(-bound / 20.0))
    assert 0.05 < np.mean(np.array(over) < 0.9) <= 0.12
    assert np.mean(over) < 0.97, "the bound promises no more than it must"


def test_changes_that_are_never_over_count_as_longer_than_any_bound():
    assert certify(recoveries([*range(1, 96), *[math.inf] * 5]), "drawn").steps == 95
    with pytest.raises(SamiError, match=r"in 100 episodes, and in 94 of them .* needs 95\. Measure more"):
        certify(recoveries([*range(1, 95), *[math.inf] * 6]), "drawn")


def test_the_bound_rises_until_few_episodes_without_a_change_end_by_it():
    promise = certify(recoveries(range(1, 101), [*[None] * 180, *range(100, 120)]), "drawn")
    assert promise.false_fallbacks == sum(longest > promise.steps for longest in range(100, 120)) == 4
    assert promise.highest_false_rate <= 0.05
    assert promise.steps == 115


def test_too_few_episodes_promise_nothing():
    with pytest.raises(SamiError, match="a bound that holds with a probability of 90% needs 22"):
        certify(recoveries(range(21)), "drawn")
    with pytest.raises(SamiError, match="58 episodes without a change are too few"):
        certify(recoveries(range(50), [None] * 58), "drawn")


def test_each_row_of_a_round_has_a_change_of_its_own():
    """And goes through the very episode that it has where all rows change alike."""
    runner = ChangedEpisodes(MODEL, PANDA, 2)
    try:
        changes = [DynamicsChange(LIGHT, HEAVY, 3), DynamicsChange(HEAVY, LIGHT, 5)]
        single = [runner.round((3, 6), change, Variant.FROZEN)[row] for row, change in enumerate(changes)]
        batch = runner.round((3, 6), changes, Variant.FROZEN)
    finally:
        runner.close()
    for run, other in zip(single, batch, strict=True):
        assert run.actions.tobytes() == other.actions.tobytes()
        assert run.given_context.tobytes() == other.given_context.tobytes()


def test_changes_are_measured_by_the_telemetry_of_the_file_itself():
    tasks = PANDA.tasks.sets["training"]
    measured = measure_recoveries(MODEL, PANDA, tasks, 4, seed=7)
    assert len(measured.unchanged) == 4
    assert measured.undetected + len(measured.changed) <= 4  # an episode may be over before its change
    with pytest.raises(SamiError, match="learned from one task"):
        measure_recoveries(MODEL, PANDA, tasks[:1], 4, seed=7)


@pytest.mark.parametrize("clean_share", [0.0, 0.4, 1.0])
def test_changes_are_measured_with_the_profile_of_the_training_in_its_share_of_episodes(clean_share):
    gap, tasks, rng = GapProfile(latency_s=0.04), [{"mass": 1.0}, {"mass": 2.0}], np.random.default_rng(0)
    changes = [recovery._draw(tasks, MeasuredGap(gap, clean_share), True, 3, 9, rng) for _ in range(400)]
    assert all(change.gaps in (None, (gap, gap)) for change in changes)
    assert np.mean([change.gaps is None for change in changes]) == pytest.approx(clean_share, abs=0.08)
