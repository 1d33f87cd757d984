"""Laws of another driver than the policy: a fallback or a person acts within the same limits, and hands back gently."""

import numpy as np
import pytest

from sami_runtime import ManualClock, Outcome, Session, read_recording
from sami_runtime.errors import SafetyStop, SamiError
from sami_runtime.recording.replay import replay
from sami_runtime.run import Run
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from tests.making.gates import PERIOD, action, drive, frame


class Retreat:
    """Wants the same at every tick, and remembers what it was asked."""

    def __init__(self, target=(-0.5, 0.5)):
        self.target, self.questions, self.resets = target, [], 0

    def reset(self):
        self.resets += 1

    def act(self, observation, now):
        self.questions.append((observation.time, now))
        if isinstance(self.target, Exception):
            raise self.target
        return np.float32(self.target) if self.target is not None else None


@pytest.fixture
def guarded(gate, make):
    """Makes a gate with a fallback, in an episode in which the policy has acted once."""

    def new_gate(fallback, **limits):
        armed = SafetyGate(gate().adapter, make.contract_of(make.recurrent()), Limits(**limits), fallback)
        armed.begin(PERIOD)
        armed.fault(frame([0, 0], 0.0), 0.0)
        drive(armed, [(0.2, 0.2)], [0.0])
        return armed

    return new_gate


def executed_in_hold(armed, ticks, first=1):
    """What is executed at so many ticks without a new action, each with an old observation."""
    executed = []
    for tick in range(first, first + ticks):
        armed.fault(frame([0, 0], 0.0), tick * PERIOD)
        result = armed.write(armed.hold("age: too old", tick * PERIOD))
        executed.append(None if result is None else result.action.tolist())
    return executed


def test_a_fallback_takes_over_when_the_policy_was_held_too_long_and_is_stopped_in_its_turn(guarded):
    retreat = Retreat()
    armed = guarded(retreat, hold_ticks=2, stop_after=6, rest=0.0)
    result = executed_in_hold(armed, 5)
    assert result[:2] == [pytest.approx([0.2, 0.2])] * 2
    assert result[2:] == [[-0.5, 0.5]] * 3
    assert retreat.questions == [(0.0, tick * PERIOD) for tick in (3, 4, 5)]
    with pytest.raises(SafetyStop, match=r"no new action at 6 ticks in a row \(stop_after\)"):
        executed_in_hold(armed, 1, 6)
    assert retreat.resets == 1


def test_a_fallback_acts_within_the_limits_and_the_policy_blends_in_from_what_it_did(guarded):
    limits = {"rest": 0.0, "rate": 5.0, "acceleration": 100.0, "blend_in_s": 5 * PERIOD, "low": -0.4}
    armed = guarded(Retreat((-9.0, 9.0)), hold_ticks=0, stop_after=20, **limits)
    start = armed.adapter.written[-1]
    path = np.array([start, *executed_in_hold(armed, 12)])
    steps = np.diff(path, axis=0)
    assert np.abs(steps).max() <= 5.0 * PERIOD + 1e-6
    assert np.abs(np.diff(steps[:5, 1])).max() <= 100.0 * PERIOD**2 + 1e-6
    np.testing.assert_allclose(path[-1], [-0.4, 1.0], atol=1e-6)
    # The policy is back: a fifth of the way from there, not from rest.
    ruling = armed.propose(action(-0.4, 0.5), 13 * PERIOD)
    np.testing.assert_allclose(ruling.action, [-0.4, 0.9], atol=1e-6)
    assert ruling.limited_by == ("blend-in",)
    armed.write(ruling)
    executed, _ = drive(armed, [(-0.4, 0.5)] * 4, PERIOD * np.arange(14, 18))
    np.testing.assert_allclose(executed[:, 1], [0.8, 0.7, 0.6, 0.5], atol=1e-6)


def test_between_two_ticks_of_the_policy_the_fallbacks_action_stands(guarded):
    armed = guarded(Retreat(), hold_ticks=0, stop_after=9, rest=0.0, rate=5.0)
    executed_in_hold(armed, 1)
    assert armed.write(armed.stand(1.5 * PERIOD)).action[0] == pytest.approx(-0.1, abs=1e-6)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ((np.nan, 0.0), r"what the fallback Retreat wants is \[nan  0\.\], expected 2 finite numbers \[N\] \(fx, fy\)"),
        ((0.0, 0.0, 0.0), r"what the fallback Retreat wants is \[0\. 0\. 0\.\], expected 2 finite numbers .*"),
        (None, r"what the fallback Retreat wants is None, expected 2 finite numbers .*"),
        (OSError("no bus"), "the fallback Retreat failed: OSError: no bus"),
    ],
)
def test_a_fallback_that_fails_stops_the_robot(guarded, target, message):
    armed = guarded(Retreat(target), hold_ticks=0, stop_after=9)
    writes = armed.adapter.writes
    with pytest.raises(SafetyStop, match=f"^fallback: {message}; it had taken over because of age: too old\\. Nothing"):
        executed_in_hold(armed, 1)
    assert armed.adapter.writes == writes


def test_before_the_policy_ever_acted_there_is_nothing_to_fall_back_from(gate, make):
    retreat = Retreat()
    armed = SafetyGate(gate().adapter, make.contract_of(make.recurrent()), Limits(hold_ticks=0), retreat)
    armed.begin(PERIOD)
    assert executed_in_hold(armed, 3) == [None] * 3
    assert retreat.questions == []


def test_limits_that_leave_a_fallback_no_time_are_refused(gate, make):
    with pytest.raises(
        SamiError, match=r"never act: it takes over after 3 ticks \(hold_ticks\), and at 4 the robot is"
    ):
        SafetyGate(gate().adapter, make.contract_of(make.recurrent()), Limits(stop_after=4), Retreat())


def test_a_person_drives_within_the_limits_and_the_policy_blends_in_from_there(gate):
    armed = gate(rest=0.0, rate=5.0, blend_in_s=2 * PERIOD)
    drive(armed, [(0.2, 0.2)], [0.0])
    path = [armed.write(armed.command(action(5.0, -5.0), tick * PERIOD)).action for tick in range(1, 9)]
    assert np.abs(np.diff(path, axis=0)).max() <= 5.0 * PERIOD + 1e-6
    np.testing.assert_array_equal(path[-1], [1.0, -1.0])
    executed, limited = drive(armed, [(1.0, -0.9)] * 2, [9 * PERIOD, 10 * PERIOD])
    np.testing.assert_allclose(executed[:, 1], [-0.95, -0.9], atol=1e-6)
    assert limited == [("blend-in",), ()]
    with pytest.raises(SamiError, match=r"a person's command is \[nan  0\.\], expected 2 finite numbers"):
        armed.command(action(np.nan, 0.0), 11 * PERIOD)


def test_a_pause_rests_for_as_long_as_it_takes(gate):
    armed = gate(rest=0.0, rate=5.0, stop_after=3)
    assert armed.rest(0.0).action is None, "nothing was executed yet"
    drive(armed, [(0.2, 0.2)], [0.0])
    for tick in range(1, 20):
        result = armed.write(armed.rest(tick * PERIOD))
    np.testing.assert_array_equal(result.action, [0.0, 0.0])
    assert armed.tripped is None
    armed = gate()
    drive(armed, [(0.2, 0.2)], [0.0])
    with pytest.raises(SamiError, match=r"cannot rest: the limits set no neutral action\. Set rest"):
        armed.rest(PERIOD)


def test_what_a_fallback_did_is_told_to_the_policy_recorded_and_replayed(make, policy, arm, tmp_path):
    """Observations 3 to 8 are those of tick 2: held, held, and the fallback until they are good again."""
    clock, records = ManualClock(), []
    robot = arm(clock, stale_at_reads=range(3, 9))
    session = Session.load(make.write(policy))
    limits = Limits(rest=0.0, hold_ticks=1, max_age_s=2.5 * PERIOD, stop_after=8)
    with Run(session, robot, clock, limits=limits, record=tmp_path / "r.mcap", fallback=Retreat()) as run:
        report = run.episode(seed=0, on_step=records.append)
    outcomes = [record.outcome.value for record in records]
    assert outcomes == ["acted"] * 4 + ["held"] + ["fallback"] * 4 + ["acted"]
    assert {record.reason.partition(":")[0] for record in records[4:9]} == {"age"}
    assert "4 fallback" in str(report.loop)
    answers, good = policy_fed_by_hand(policy, records)
    for record, (proposed, context) in zip(good, answers, strict=True):
        np.testing.assert_allclose(record.action, proposed, atol=1e-6)
        np.testing.assert_allclose(record.context, context, atol=1e-6)
    recording = read_recording(tmp_path / "r.mcap")
    assert recording.about["fallback"] == "Retreat"
    assert [step.record.outcome for step in recording.steps][5] is Outcome.FALLBACK
    assert replay(recording, Session.load(session.artifact.path)).same


def policy_fed_by_hand(policy, records):
    """What the policy answers when it steps where it acted, and was told what was executed before."""
    good = [record for record in records if record.stepped]
    before = [records[record.step - 1].executed for record in good]
    names = ("position", "goal")
    table = {name: np.array([record.observation.values[name] for record in good]) for name in names}
    executed = np.array([*before[1:], np.zeros(2)], np.float32)
    return list(zip(*policy.reference(table, executed), strict=True)), good
