"""Every row of docs/reference/loop.md's "What happens when", by a whole loop against a session that is fed by hand.

All comparisons are to the last bit.
"""

import numpy as np
import pytest

from sami_runtime.clock import ManualClock
from sami_runtime.errors import SafetyStop, SamiError
from sami_runtime.loop.episode import run_episode
from sami_runtime.recording.replay import Shadow
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session

NAMES = ("position", "goal")


@pytest.fixture
def path(make):
    return make.write(make.recurrent())


class Run:
    """A loop's records, and the session's state after each of them."""

    def __init__(self, session, adapter, **options):
        self.records, self.states = [], []

        def watch(record):
            self.records.append(record)
            self.states.append(session.state)

        options.setdefault("seed", 0)
        self.report = run_episode(session, adapter, on_step=watch, **options)

    def outcomes(self):
        return [record.outcome.value for record in self.records]


def observed(record):
    return {name: record.observation.values[name] for name in NAMES}


def require_as_by_hand(run, path, stepped, same):
    """The run's states and answers are those of a fresh session that steps at `stepped` only."""
    session = Session.load(path)
    context = np.zeros(session.contract.context_size, np.float32)
    for record, state in zip(run.records, run.states, strict=True):
        if record.step in stepped:
            answer = session.step(observed(record))
            context = answer.context
            assert answer.action.tobytes() == record.action.tobytes()
        if record.executed is not None:
            session.executed(record.executed)
        assert record.context.tobytes() == context.tobytes()
        assert same(session.state, state), record.step


def test_the_previous_action_is_the_one_that_was_executed_after_every_limit(path, arm, same):
    session, adapter = Session.load(path), arm(limit=0.3)
    limits = Limits(rest=0.0, rate=4.0, low={"fx": -0.2}, high={"fx": 0.2})
    run = Run(session, adapter, gate=SafetyGate(adapter, session.contract, limits))
    require_as_by_hand(run, path, range(10), same)
    names = {word.split()[0] for record in run.records for word in record.limited_by}
    assert names == {"rate", "adapter", "bounds"}
    unlimited = Session.load(path)
    assert any(unlimited.step(observed(r)).context.tobytes() != r.context.tobytes() for r in run.records)


def test_warm_up_leaves_no_trace_in_the_first_live_step(path, arm, same):
    session = Session.load(path)
    run_episode(session, arm(), seed=9)
    runs = [Run(Session.load(path), arm()), Run(session, arm())]
    for run in runs:
        require_as_by_hand(run, path, range(10), same)
    assert runs[0].records[0].action.tobytes() == runs[1].records[0].action.tobytes()


def test_a_step_that_fails_does_not_advance_the_state(path, arm, same, monkeypatch):
    session = Session.load(path)
    step, calls = session.step, iter(range(99))

    def fail_at_3(observation, age):
        if next(calls) == 3:
            raise SamiError("inference failed: out of memory")
        return step(observation, age)

    monkeypatch.setattr(session, "step", fail_at_3)
    run = Run(session, arm())
    assert run.outcomes() == ["acted"] * 3 + ["refused"] + ["acted"] * 6
    assert "out of memory" in run.records[3].reason
    require_as_by_hand(run, path, {0, 1, 2, 4, 5, 6, 7, 8, 9}, same)
    assert same(run.states[3], run.states[2])


def test_at_a_held_tick_the_executed_action_stands_and_the_state_does_not_advance(path, arm, same):
    clock = ManualClock()
    adapter = arm(clock, limit=0.3, stale_at_reads=[3, 4])
    session = Session.load(path)
    gate = SafetyGate(adapter, session.contract, Limits(max_age_s=0.05))
    run = Run(session, adapter, clock=clock, gate=gate)
    assert run.outcomes() == ["acted"] * 3 + ["held"] * 2 + ["acted"] * 5
    assert [record.action is None for record in run.records[3:5]] == [True, True]
    for tick in (3, 4):
        assert run.records[tick].executed.tobytes() == run.records[2].executed.tobytes()
        assert same(run.states[tick], run.states[2])
    assert run.records[3].reason == (
        "age: the observation was measured 0.08 s before now by the loop's clock, allowed are 0.05 s (max_age_s)"
    )
    require_as_by_hand(run, path, {0, 1, 2, 5, 6, 7, 8, 9}, same)


def test_an_answer_that_misses_its_deadline_is_dropped_as_if_it_had_not_been_asked_for(path, arm, same):
    clock = ManualClock()
    adapter = arm(clock, reading=[0, 0, 0, 0.05])  # all that makes an answer late
    run = Run(Session.load(path), adapter, clock=clock)
    assert run.outcomes() == ["acted"] * 3 + ["late"] + ["acted"] * 6
    assert run.records[3].reason == "late: read and inference took 0.05 s, allowed are 0.04 s (deadline_s)"
    assert run.records[3].action is not None
    assert run.records[3].executed.tobytes() == run.records[2].executed.tobytes()
    assert same(run.states[3], run.states[2])
    require_as_by_hand(run, path, {0, 1, 2, 4, 5, 6, 7, 8, 9}, same)


def test_a_faster_loop_advances_the_state_at_the_policys_rate_only(path, arm, same):
    clock = ManualClock()
    run = Run(Session.load(path), arm(clock), clock=clock, loop_hz=100.0)
    require_as_by_hand(run, path, range(0, 40, 4), same)
    assert same(run.states[3], run.states[0])


def test_a_faster_loop_tells_what_was_executed_last_before_the_next_step(path, arm, same):
    """A rate limit lets the action get to its target in steps of the loop; the encoder reads how far it came."""
    clock, session = ManualClock(), Session.load(path)
    adapter = arm(clock)
    gate = SafetyGate(adapter, session.contract, Limits(rest=0.0, rate=5.0))
    run = Run(session, adapter, clock=clock, loop_hz=100.0, gate=gate)
    first = [record.executed for record in run.records[:4]]
    assert len({value.tobytes() for value in first}) > 1
    assert run.states[3].previous_action[0].tobytes() == first[3].tobytes()
    require_as_by_hand(run, path, range(0, 40, 4), same)


def test_a_new_episode_begins_with_the_initial_state_and_previous_action(path, arm, same):
    session = Session.load(path)
    Run(session, arm(), seed=1)
    again = Run(session, arm(), seed=2)
    require_as_by_hand(again, path, range(10), same)


@pytest.mark.parametrize("script", [{"nan_at_reads": [2, 3]}, {"goals": {2: 0.0, 3: 0.0}}], ids=["seen", "answered"])
def test_numbers_that_are_not_finite_are_refused_and_the_last_action_is_held(make, arm, same, script):
    path = make.write(make.inverse())  # position / goal: a goal of 0 has no finite answer
    adapter = arm(**script)
    run = Run(Session.load(path), adapter)
    assert run.outcomes() == ["acted"] * 2 + ["refused"] * 2 + ["acted"] * 6
    for refused in (2, 3):
        assert run.records[refused].reason.startswith(f"refused: tick 2: {'output' if 'goals' in script else 'obs'}")
        assert run.records[refused].executed.tobytes() == run.records[1].executed.tobytes()
        assert same(run.states[refused], run.states[1])
    assert np.isfinite(adapter.written).all()
    require_as_by_hand(run, path, {0, 1, 4, 5, 6, 7, 8, 9}, same)


def test_nothing_is_written_before_the_first_action_that_could_stand(path, arm, same):
    adapter = arm(nan_at_reads=[0, 1])
    run = Run(Session.load(path), adapter)
    assert [record.executed is None for record in run.records] == [True] * 2 + [False] * 8
    assert adapter.writes == 8
    require_as_by_hand(run, path, range(2, 10), same)


def test_a_robot_whose_observations_stay_bad_is_stopped(path, arm):
    adapter = arm(nan_at_reads=range(4, 99))
    with pytest.raises(SafetyStop, match=r"no new action at 3 ticks in a row \(stop_after\), lastly: refused: tick 4"):
        Run(
            Session.load(path),
            adapter,
            gate=SafetyGate(adapter, make_contract(path), Limits(stop_after=3)),
        )
    assert (adapter.writes, adapter.stops) == (6, 1)


def make_contract(path):
    return Session.load(path).contract


def test_a_state_moves_to_a_second_session_of_the_same_weights_and_to_no_other(make, path, arm, same):
    """Swapping the model: a shadow knows at every tick what the model that drives knows."""
    driving, follower = Session.load(path), Session.load(path)
    shadow = Shadow(follower, driving.contract)
    run_episode(driving, arm(limit=0.2), seed=0, on_step=shadow)
    assert same(driving.state, follower.state)
    follower.reset()
    follower.restore(driving.state)
    assert same(driving.state, follower.state)
    with pytest.raises(SamiError, match="A state moves only between files of the same weights"):
        Session.load(make.write(make.recurrent(seed=1))).restore(driving.state)
