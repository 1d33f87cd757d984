"""Laws of time_to_adapt: from a detected change, a policy has so long to be back, and moves gently until then."""

import numpy as np
import pytest

from sami_runtime import Reading, Session, run_episode
from sami_runtime.errors import SamiError
from sami_runtime.model.recovery import Recovery
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.session.telemetry import Countdown, Phase
from tests.making.gates import PERIOD, drive, frame
from tests.sami_runtime.safety.test_alarm import atlas

RECOVERY = Recovery(
    steps=3, level=0.9, changes=50, undetected=2, unchanged=100, false_fallbacks=0, highest_false_rate=0.03,
    measured="100 changes",
)  # fmt: skip
SETTLED, LEFT = Reading(9, 0.0, Phase.SETTLED), Reading(9, 0.0, Phase.READAPTING)


@pytest.fixture
def session(make):
    """Of a policy whose contexts are known nowhere, so that a change is detected at step 2 and never over."""
    return Session.load(make.write(make.recurrent(), atlas=atlas((50.0, 50.0)), recovery=RECOVERY))


def test_a_countdown_begins_when_a_settled_context_leaves_and_ends_when_it_settles_again():
    countdown, counts = Countdown(), []
    for reading in (Reading(0, 0.0, Phase.IDENTIFYING), SETTLED, LEFT, LEFT, LEFT, SETTLED, LEFT):
        countdown.update(reading)
        counts.append(countdown.steps)
    assert counts == [None, None, 0, 1, 2, None, 0]


def test_an_unknown_world_starts_it_too_though_nothing_had_settled():
    countdown = Countdown()
    countdown.update(Reading(5, 0.0, Phase.IDENTIFYING, score=2.0, alarm=True))
    assert countdown.steps == 0


def test_the_policy_acts_until_the_contracts_bound_and_not_one_step_longer(session, arm):
    gate = SafetyGate(arm(), session.contract, Limits(time_to_adapt={"then": "hold"}))
    faults = []
    for step in range(6):
        gate.record_telemetry(LEFT)
        faults.append(gate.fault(frame([0, 0], step), step))
    assert [fault is None for fault in faults] == [True] * 4 + [False] * 2
    assert faults[4] == (
        "deadline: the context has not settled for 4 steps since a change was detected, allowed are 3 (a bound of "
        "90%; time_to_adapt)"
    )


@pytest.mark.parametrize("strict", ["stop", "rest"])
@pytest.mark.parametrize("limit", [{"time_to_adapt": {"steps": 1}}, {"stop_on_alarm": {"steps": 1, "then": "hold"}}])
def test_a_context_that_holds_hides_no_rule_that_is_stricter(session, arm, limit, strict):
    inside = {"position.x": {"range": [-1.0, 1.0], "then": strict}, "position.y": [-1.0, 1.0]}
    gate = SafetyGate(arm(), session.contract, Limits.of({"rest": 0.0, "inside": inside, **limit}, "here"))
    for _ in range(3):
        gate.record_telemetry(Reading(9, 0.0, Phase.READAPTING, score=9.0, alarm=True))
    assert gate.fault(frame([0, 2], 0.0), 0.0).startswith(("deadline", "alarm")), "of two that hold, the first"
    fault = gate.fault(frame([2, 2], 1.0), 1.0)
    assert fault.startswith("inside: position.x")
    gate.hold(fault, 1.0)
    assert bool(gate.tripped) is (strict == "stop")


def test_an_observation_that_is_too_old_hides_no_alarm_that_stops(session, arm):
    gate = SafetyGate(arm(), session.contract, Limits(stop_on_alarm={"steps": 1, "then": "stop"}))
    gate.record_telemetry(Reading(9, 0.0, Phase.READAPTING, score=9.0, alarm=True))
    gate.hold(gate.fault(frame([0, 0], 0.0), 5.0), 5.0)
    assert gate.tripped.startswith("alarm")


def test_a_policy_that_settles_in_time_is_never_disturbed(session, arm):
    gate = SafetyGate(arm(), session.contract, Limits(time_to_adapt=3))
    for step in range(60):
        gate.record_telemetry(SETTLED if step % 4 == 0 else LEFT)
        assert gate.fault(frame([0, 0], step), step) is None


def test_a_loop_hands_over_to_the_fallback_when_the_time_is_over(session, arm):
    class Retreat:
        def reset(self):
            pass

        def act(self, observation, now):
            return np.float32([0.1, 0.1])

    gate = SafetyGate(arm(), session.contract, Limits(time_to_adapt={}, hold_ticks=0, stop_after=30), Retreat())
    report = run_episode(session, gate.adapter, gate=gate, max_steps=12)
    # Detected at step 2 (0 steps); the tick after the one that counted 4 is the first that is held.
    assert report.loop.outcomes == {"acted": 7, "fallback": 5}


def test_until_the_context_has_settled_actions_change_at_a_share_of_the_rate(session, arm):
    limits = Limits(time_to_adapt={"gentle": 0.25}, rate=2.0, rest=0.0)
    gate = SafetyGate(arm(), session.contract, limits)
    gate.adapter.reset()
    gate.begin(PERIOD)
    steps = []
    for number, reading in enumerate((SETTLED, LEFT, LEFT, SETTLED)):
        gate.record_telemetry(reading)
        executed, limited = drive(gate, [[1.0, 1.0]], [number * PERIOD])
        steps.append(executed[0, 0])
        assert ("gentle" in str(limited)) is (reading is LEFT)
    assert np.diff([0.0, *steps]) == pytest.approx(np.array([1, 0.25, 0.25, 1]) * 2.0 * PERIOD, rel=1e-5)


def test_slowing_down_to_the_gentle_rate_keeps_within_the_acceleration(session, arm):
    limits = Limits(time_to_adapt={"gentle": 0.1}, rate=0.5, acceleration=2.5, rest=0.0)
    gate = SafetyGate(arm(), session.contract, limits)
    gate.adapter.reset()
    gate.begin(PERIOD)
    executed = []
    for number in range(40):
        gate.record_telemetry(SETTLED if number < 20 else LEFT)
        executed.append(drive(gate, [[1.0, 1.0]], [number * PERIOD])[0][0, 0])
    speeds = np.diff([0.0, *executed]) / PERIOD
    assert speeds[19] == pytest.approx(0.5, rel=1e-4)
    assert speeds[-1] == pytest.approx(0.05, rel=1e-3)
    assert np.abs(np.diff(speeds)).max() <= 2.5 * PERIOD * (1 + 1e-3)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"time_to_adapt": {}}, "has no bound on the time it takes. Make one with sami atlas MODEL --set changes=400"),
        (
            {"time_to_adapt": {"steps": 5, "gentle": 0.5}},
            "gentle is 0.5, a share of the rate, but the limits set no rate",
        ),
    ],
)
def test_limits_that_mean_nothing_are_refused_before_anything_moves(make, arm, limits, message):
    session = Session.load(make.write(make.recurrent(), atlas=atlas((0.0, 0.0))))
    with pytest.raises(SamiError, match=message):
        SafetyGate(arm(), session.contract, Limits(**limits))


def test_without_an_atlas_there_is_nothing_to_detect_changes_by(make, arm):
    session = Session.load(make.write(make.recurrent()))
    with pytest.raises(SamiError, match="has no atlas to detect changes by"):
        SafetyGate(arm(), session.contract, Limits(time_to_adapt=5))
    with pytest.raises(ValueError, match="no atlas to detect changes by"):
        make.write(make.recurrent(), recovery=RECOVERY)


def test_it_takes_the_place_of_the_guard_that_stops_at_the_transient(session, arm):
    """The guard counts alarms in a row, which the change itself raises."""
    alarming = Reading(9, 0.0, Phase.READAPTING, score=5.0, alarm=True)
    guarded = SafetyGate(arm(), session.contract, guards=("ood",))
    given_time = SafetyGate(arm(), session.contract, Limits(time_to_adapt=50), guards=("ood",))
    for _ in range(40):
        guarded.record_telemetry(alarming)
        given_time.record_telemetry(alarming)
    assert guarded.fault(frame([0, 0], 40), 40).startswith("alarm")
    assert given_time.fault(frame([0, 0], 40), 40) is None
