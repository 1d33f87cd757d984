"""Laws of stop_on_alarm: dynamics that are unknown for too long are a reason to hold, rest or stop."""

import pytest

pytest.importorskip("mcap")

from sami_runtime import LoopReport, Reading, Recorder, Session, Telemetry, read_recording, run_episode
from sami_runtime.errors import SafetyStop, SamiError
from sami_runtime.model.atlas import Atlas
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from tests.making.gates import frame

UNIT = ((1e-6, 0.0), (0.0, 1e-6))


def atlas(mean):
    return Atlas(
        tasks=({"mass": 1.0},), mean=(mean,), covariance=(UNIT,), step=2, threshold=2.0, slow=0.1, fast=0.5,
        false_alarm_rate=0.05, episodes=50, held_out=50,
    )  # fmt: skip


@pytest.fixture
def session(make):
    """Of a policy whose contexts are known nowhere."""
    return Session.load(make.write(make.recurrent(), atlas=atlas((50.0, 50.0))))


def gate_of(session, adapter, alarm, **limits):
    return SafetyGate(adapter, session.contract, Limits(stop_on_alarm=alarm, **limits))


def test_only_so_many_steps_in_a_row_are_too_many(session, arm):
    armed = gate_of(session, arm(), {"steps": 3})
    results = []
    for step, alarm in enumerate([1, 1, 0, 1, 1, 1, 0]):
        armed.record_telemetry(Reading(step, 0.0, score=0.5 + alarm, alarm=bool(alarm)))
        results.append(armed.fault(frame([0, 0], step), step))
    assert [fault is None for fault in results] == [True] * 5 + [False, True]
    assert results[5] == (
        "alarm: the dynamics were unknown at 3 steps in a row, with an out-of-distribution score of 1.5 at the last "
        "step; allowed are 2 steps above 1 (stop_on_alarm)"
    )


@pytest.mark.parametrize(("then", "outcomes"), [("stop", {"acted": 4, "held": 1}), ("hold", {"acted": 4, "held": 10})])
def test_a_loop_stops_by_itself_and_says_why_in_record_recording_and_report(session, arm, tmp_path, then, outcomes):
    """The atlas counts from step 2 on; the alarm of steps 2 and 3 is heeded at the tick after them."""
    adapter, report = arm(), LoopReport()
    gate = gate_of(session, adapter, {"steps": 2, "then": then})
    with Recorder(tmp_path / "a.mcap", session, gate.limits) as recorder:

        def watch(record):
            report.add(record)
            recorder(record)

        with pytest.raises(SafetyStop, match="alarm: the dynamics were unknown at 2 steps in a row"):
            run_episode(session, adapter, gate=gate, on_step=watch, max_steps=50)
    assert report.outcomes == outcomes
    assert report.reasons == {"alarm": outcomes["held"]}
    assert report.limited == {"stop": 1}
    last = read_recording(tmp_path / "a.mcap").steps[-1].record
    assert (last.reason.partition(":")[0], last.limited_by, last.executed) == ("alarm", ("stop",), None)


def test_a_telemetry_that_is_given_is_fed_by_the_loop(session, arm):
    adapter, telemetry = arm(), Telemetry(session.contract)
    run_episode(session, adapter, telemetry=telemetry, max_steps=7)
    assert telemetry.now.step == 6
    assert telemetry.alarm_at == 2


def test_known_dynamics_stop_nothing(make, arm):
    session = Session.load(make.write(make.recurrent(), atlas=atlas((0.0, 0.0)).model_copy(update={"threshold": 1e9})))
    adapter = arm()
    report = run_episode(session, adapter, gate=gate_of(session, adapter, 1))
    assert report.loop.outcomes == {"acted": 10}


def test_without_an_atlas_there_is_no_alarm_to_stop_on(make, arm):
    session = Session.load(make.write(make.recurrent()))
    with pytest.raises(SamiError, match=r"the limits set stop_on_alarm, but 'tiny' has no atlas.*sami atlas"):
        gate_of(session, arm(), 3)


@pytest.mark.parametrize("limits", [{"stop_on_alarm": 3}, {"time_to_adapt": {}}, {"time_to_adapt": 5}])
def test_a_policy_without_a_context_is_told_of_limits_that_need_none(make, arm, limits):
    session = Session.load(make.write(make.memoryless()))
    with pytest.raises(SamiError, match=r"has no atlas .* It infers no context; use inside or jump, or") as refused:
        SafetyGate(arm(), session.contract, Limits(**limits))
    assert "sami atlas" not in str(refused.value)
