"""Laws of a policy that is asked more slowly than it learned to act."""

import numpy as np
import pytest

from sami_runtime import ManualClock, Run, SamiError, Session, read_recording, replay, run_episode
from sami_runtime.adapters.fake import FakeAdapter
from sami_runtime.adapters.slowed import Slowed


@pytest.fixture
def session(path):
    return Session.load(path)


def test_speeds_are_told_as_at_the_policys_own_pace_and_nothing_else_is_changed():
    clock = ManualClock()
    plain, slowed = FakeAdapter(axes=2, clock=clock), Slowed(FakeAdapter(axes=2, clock=clock), 3)
    for adapter in (plain, slowed):
        adapter.reset(0)
        adapter.write(np.float32([0.5, -0.5]))
    truth, seen = plain.read(), slowed.read()
    units = {signal.name: signal.unit for signal in plain.observation}
    assert {"m", "m/s"} <= set(units.values())
    for name, unit in units.items():
        share = 3.0 if unit.endswith("/s") else 1.0
        np.testing.assert_allclose(seen.values[name], share * truth.values[name], rtol=1e-6)
    assert seen.time == truth.time
    assert any(truth.values[name].any() for name, unit in units.items() if unit == "m/s")


@pytest.mark.parametrize("slower", [1, 3])
def test_the_policy_is_asked_at_every_nth_of_its_periods_and_its_action_written_at_each(session, arm, slower):
    clock, asked = ManualClock(), []
    robot = arm(clock)
    written, write = [], robot.write

    def counted(action):
        written.append((clock.now(), action.copy()))
        return write(action)

    robot.write = counted
    with Run(session, robot, clock, slower=slower) as run:
        run.episode(seed=0, max_steps=4, on_step=lambda record: asked.append(record.outcome.value))
    assert asked.count("acted") == 4
    period = 1.0 / session.contract.rate_hz
    times = [at for at, _ in written]
    np.testing.assert_allclose(np.diff(times), period, rtol=1e-6)
    for first in range(0, len(written) - slower + 1, slower):
        for at in range(first, first + slower):
            np.testing.assert_array_equal(written[at][1], written[first][1])


def test_without_it_a_run_is_the_same_to_the_last_bit(session, arm):
    contexts = []
    for how in ({}, {"slower": 1}):
        clock = ManualClock()
        with Run(session, arm(clock), clock, **how) as run:
            contexts.append(run.episode(seed=0).contexts)
    assert contexts[0].tobytes() == contexts[1].tobytes()


def test_a_recording_of_it_replays_to_the_last_bit(session, arm, tmp_path):
    pytest.importorskip("mcap")
    clock = ManualClock()
    with Run(session, arm(clock), clock, slower=3, record=tmp_path / "run.mcap") as run:
        run.episode(seed=0)
    again = replay(read_recording(tmp_path / "run.mcap"), Session.load(session.artifact.path))
    assert again.same
    assert again.steps == 10


def test_less_than_one_period_is_refused(session, arm):
    with pytest.raises(SamiError, match="slower is 0; a step takes at least 1"):
        run_episode(session, arm(), slower=0)
    with pytest.raises(SamiError, match="slower is 0; a step takes at least 1"):
        Slowed(FakeAdapter(axes=1), 0)
