"""Laws of the loop: it stops on every way out, keeps absolute deadlines, and tells what was executed."""

import numpy as np
import pytest

from sami_runtime.adapters import Executed, FakeAdapter
from sami_runtime.clock import ManualClock
from sami_runtime.errors import AdapterError, SamiError, SignalError
from sami_runtime.loop import run_episode
from sami_runtime.session import Session


class Arm(FakeAdapter):
    """The fake with the tiny policies' signals: a position of two axes, and a goal."""

    def __init__(self, **script):
        super().__init__(axes=2, **script)
        goal = self.observation[0].model_copy(
            update={"name": "goal", "size": 1, "elements": ("x",), "low": (None,), "high": (None,)}
        )
        self.observation = (*self.observation, goal)

    def read(self):
        observation = super().read()
        return type(observation)({**observation.values, "goal": np.float32([0.5])}, observation.time)


@pytest.fixture
def session(make):
    return Session.load(make.write(make.recurrent()))


def test_an_episode_lasts_as_long_as_the_contract_says(session):
    adapter, records = Arm(), []
    report = run_episode(session, adapter, seed=0, on_step=records.append)
    assert report.steps == len(records) == adapter.reads == adapter.writes == 10
    assert not report.done
    assert report.contexts.shape == (10, 2)
    assert report.times.shape == (10, 3)
    assert (report.times >= 0).all()
    assert [record.step for record in records] == list(range(10))
    np.testing.assert_array_equal(report.contexts, [record.context for record in records])
    np.testing.assert_array_equal(adapter.written, [record.action for record in records])
    assert (adapter.resets, adapter.stops) == (1, 1)


def test_the_world_may_end_the_episode_earlier(session):
    report = run_episode(session, Arm(episode_steps=4), seed=0)
    assert report.done
    assert report.steps == 4


def test_fewer_steps_may_be_asked_for(session):
    assert run_episode(session, Arm(), max_steps=3).steps == 3
    with pytest.raises(SamiError, match="max_steps 0"):
        run_episode(session, Arm(), max_steps=0)


def test_the_encoder_reads_what_was_executed(make, session):
    policy, records = make.recurrent(), []
    adapter = Arm(limit=0.1)
    report = run_episode(session, adapter, seed=0, on_step=records.append)
    names = ("position", "goal")
    seen = {name: np.array([record.observation.values[name] for record in records]) for name in names}
    executed = np.array([record.executed for record in records])
    assert np.abs(executed).max() == np.float32(0.1)
    np.testing.assert_allclose(report.contexts, policy.reference(seen, executed)[1], atol=1e-6)


def test_each_episode_begins_anew(session):
    first = run_episode(session, Arm(), seed=4)
    run_episode(session, Arm(), seed=5)
    np.testing.assert_array_equal(run_episode(session, Arm(), seed=4).contexts, first.contexts)


def test_info_is_that_of_the_last_step(session):
    class Counting(Arm):
        def write(self, action):
            return Executed(super().write(action).action, info={"write": self.writes})

    assert run_episode(session, Counting()).info == {"write": 10}


def test_a_memoryless_policy_runs_too(make):
    report = run_episode(Session.load(make.write(make.memoryless())), Arm())
    assert report.contexts.shape == (10, 0)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ({"raise_at_reads": [2]}, AdapterError),
        ({"nan_at_reads": [2]}, SignalError),
        ({"raise_at_writes": [2]}, AdapterError),
    ],
)
def test_a_fault_stops_the_adapter(session, script, error):
    adapter, records = Arm(**script), []
    with pytest.raises(error):
        run_episode(session, adapter, on_step=records.append)
    assert adapter.stops == 1
    assert len(records) == len(adapter.written) == 2


@pytest.mark.parametrize("where", ["reset", "read", "write", "step", "executed", "on_step"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_the_adapter_is_stopped_wherever_the_loop_is_left(session, monkeypatch, where, error):
    def leave(*_):
        raise error

    adapter = Arm()
    if where in ("step", "executed"):
        monkeypatch.setattr(session, where, leave)
    elif where != "on_step":
        monkeypatch.setattr(adapter, where, leave)
    with pytest.raises(error):
        run_episode(session, adapter, on_step=leave)
    assert adapter.stops == 1


def test_an_incompatible_adapter_is_refused_before_anything_moves(session):
    adapter = FakeAdapter(axes=1)
    with pytest.raises(AdapterError, match="model 'tiny' does not fit FakeAdapter"):
        run_episode(session, adapter)
    assert (adapter.resets, adapter.writes) == (0, 0)


def test_a_signal_that_the_adapter_forgot_is_named(session, monkeypatch):
    adapter = Arm()
    read = adapter.read
    monkeypatch.setattr(adapter, "read", lambda: forget(read(), "goal"))
    with pytest.raises(SignalError, match="tick 0: observation 'goal' is missing"):
        run_episode(session, adapter)
    assert adapter.stops == 1


def forget(observation, name):
    return type(observation)({k: v for k, v in observation.values.items() if k != name}, observation.time)


def test_a_batch_cannot_drive_one_adapter(make):
    with pytest.raises(SamiError, match="session of batch 2"):
        run_episode(Session.load(make.write(make.recurrent()), batch=2), Arm())


class SlowArm(Arm):
    """Each write takes as long as the script says [s]."""

    def __init__(self, clock, durations):
        super().__init__()
        self.clock, self.durations, self.at = clock, iter(durations), []

    def write(self, action):
        self.at.append(self.clock.now())
        self.clock.advance(next(self.durations))
        return super().write(action)


def test_steps_keep_absolute_deadlines(session):
    clock = ManualClock(start=100.0)
    adapter = SlowArm(clock, [0.01, 0.03, 0.002] * 4)
    report = run_episode(session, adapter, clock=clock)
    np.testing.assert_allclose(adapter.at, 100.0 + 0.04 * np.arange(10))
    assert (report.overruns, report.skipped) == (0, 0)


def test_a_late_step_skips_ticks_and_never_bursts(session):
    clock = ManualClock()
    adapter = SlowArm(clock, [0.01, 0.09, 0.01, 0.05, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01])
    report = run_episode(session, adapter, clock=clock)
    ticks = [0, 1, 4, 5, 7, 8, 9, 10, 11, 12]
    np.testing.assert_allclose(adapter.at, 0.04 * np.array(ticks))
    assert (report.overruns, report.skipped) == (2, 3)


def test_a_step_that_takes_exactly_one_period_is_not_late(session):
    clock = ManualClock()
    report = run_episode(session, SlowArm(clock, [1 / 25] * 10), clock=clock)
    assert (report.overruns, report.skipped) == (0, 0)
