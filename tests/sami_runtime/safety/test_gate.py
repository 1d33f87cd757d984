"""Laws of the safety gate: it alone writes; without a new action it holds, falls back, stops, and stays latched."""

import ast
from pathlib import Path

import numpy as np
import pytest

import sami_runtime
from sami_runtime.adapters import Executed, FakeAdapter
from sami_runtime.errors import NonFiniteError, SafetyStop, SamiError, SignalError
from sami_runtime.safety.gate import SafetyGate
from tests.making.gates import PERIOD, action, drive, frame


@pytest.fixture
def contract(make):
    return make.contract_of(make.recurrent())


def test_nothing_but_the_gate_and_wrappers_of_adapters_writes_to_an_adapter():
    """Calls of `.write(` in the runtime on something that is called an adapter."""
    writers = set()
    folder = Path(sami_runtime.__file__).parent
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "write":
                owner = ast.unparse(node.func.value)
                if "adapter" in owner:
                    writers.add(path.relative_to(folder).as_posix())
    assert "safety/gate.py" in writers
    assert {path for path in writers if not path.startswith(("adapters/", "hooks"))} == {"safety/gate.py"}


# --- numbers that are not finite


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_and_never_clamped(gate, bad):
    armed = gate()
    drive(armed, [(0.5, 0.5)], [0.0])
    with pytest.raises(NonFiniteError, match=r"'force' contains \w+ at fy\. It is never clamped\."):
        armed.propose(action(0.1, bad), PERIOD)
    np.testing.assert_array_equal(armed.write(armed.hold("refused", PERIOD)).action, action(0.5, 0.5))


def test_an_adapter_that_says_it_executed_nonsense_is_not_believed(contract):
    class Liar(FakeAdapter):
        def write(self, action):
            super().write(action)
            return Executed(self.answer)

    for message, error in ((np.float32([np.nan, 0]), SignalError), (np.zeros(3, np.float32), SamiError)):
        adapter = Liar(axes=2)
        adapter.reset()
        adapter.answer = message
        gate = SafetyGate(adapter, contract)
        with pytest.raises(error, match="executed"):
            gate.write(gate.propose(action(0, 0), 0.0))


# --- no new action


def test_what_is_held_too_long_falls_back_to_rest_and_then_stops(gate):
    armed = gate(rest=0.0, rate=6.0, hold_ticks=2, stop_after=6)
    drive(armed, [(0.2, 0.2)], [0.0])
    results = []
    for tick in range(1, 6):
        ruling = armed.hold("age: too old", tick * PERIOD)
        results.append((round(float(armed.write(ruling).action[0]), 6), ruling.limited_by))
    assert results[:2] == [(0.2, ()), (0.2, ())]
    assert [value for value, _ in results[2:]] == [0.0, 0.0, 0.0]
    assert results[2][1] == ("rest",)
    ruling = armed.hold("age: too old", 6 * PERIOD)
    assert (ruling.action, ruling.limited_by) == (None, ("stop",))
    with pytest.raises(SafetyStop, match=r"no new action at 6 ticks in a row \(stop_after\), lastly: age: too old\. "):
        armed.write(ruling)


def test_falling_back_keeps_the_rate(gate):
    armed = gate(rest=0.0, rate=1.0, hold_ticks=0)
    drive(armed, [(0.04, 0.04), (0.08, 0.08)], [0.0, PERIOD])
    ruling = armed.hold("late: ...", 2 * PERIOD)
    np.testing.assert_allclose(ruling.action, 0.04, rtol=1e-6)
    assert ruling.limited_by == ("rest", "rate fx", "rate fy")
    armed.write(ruling)
    np.testing.assert_allclose(armed.stand(3 * PERIOD).action, 0.0, atol=1e-8)


def test_an_action_that_was_on_its_way_stops_where_it_is_held(gate):
    armed = gate(rest=0.0, rate=1.0)
    drive(armed, [(1.0, 1.0)], [0.0])
    armed.write(armed.hold("age: too old", PERIOD))
    np.testing.assert_allclose(armed.stand(2 * PERIOD).action, 0.04, rtol=1e-6)


def test_the_next_step_begins_at_what_was_written_whatever_the_adapter_executed_of_it(gate):
    adapter = FakeAdapter(axes=2, limit=0.25)
    adapter.reset()
    armed = gate(adapter, rest=0.0, rate=25.0)
    _, limited = drive(armed, [(1.0, 0.1)], [0.0])
    assert limited == [("adapter fx",)]
    np.testing.assert_array_equal(armed.propose(action(-1, 0.1), PERIOD).action, action(0, 0.1))


def test_a_held_action_stays_what_was_written_whatever_the_adapter_says_it_executed(gate):
    """An adapter that tells what it measured, with an offset, must not be driven away by its own answer."""

    class Offset(FakeAdapter):
        def write(self, action):
            super().write(action)
            return Executed(action + np.float32(0.3))

    adapter = Offset(axes=2)
    adapter.reset()
    armed = gate(adapter, low=-0.5, high=0.5)
    drive(armed, [(0.4, -0.4)], [0.0])
    for tick in range(1, 5):
        armed.write(armed.hold("age: ...", tick * PERIOD))
        armed.write(armed.stand((tick + 0.5) * PERIOD))
    np.testing.assert_array_equal(adapter.written, [action(0.4, -0.4)] * 9)


def test_a_hold_brakes_within_the_acceleration_and_then_stands(gate):
    armed = gate(rest=0.0, rate=5.0, acceleration=10.0, hold_ticks=99, stop_after=99)
    moving, _ = drive(armed, [(1.0, 1.0)] * 6, PERIOD * np.arange(6))
    holds = []
    for tick in range(6, 16):
        ruling = armed.hold("age: ...", tick * PERIOD)
        holds.append((armed.write(ruling).action[0], ruling.limited_by))
    path = np.array([0.0, *moving[:, 0], *(value for value, _ in holds)], np.float64)
    speed = np.diff(path) / PERIOD
    assert np.abs(np.diff(speed)).max() <= 10.0 * PERIOD * 1.001
    assert holds[0][1] == ("acceleration fx", "acceleration fy")
    assert (holds[-1][1], speed[-1]) == ((), 0.0)


def test_after_a_pause_an_action_begins_from_standing_still(gate):
    armed = gate(rest=0.0, rate=5.0, acceleration=10.0, max_pause_s=float("inf"))
    path, _ = drive(armed, [(1.0, 1.0)] * 6, PERIOD * np.arange(6))
    ruling = armed.propose(action(0, 0), 60.0)
    # Before the pause it was on its way up; nothing drives it on up now.
    assert (ruling.action < path[-1]).all()


def test_without_a_rest_the_last_action_is_held_until_the_stop(gate):
    armed = gate(hold_ticks=1, stop_after=5)
    drive(armed, [(0.2, 0.2)], [0.0])
    for tick in range(1, 5):
        np.testing.assert_array_equal(armed.write(armed.hold("...", tick * PERIOD)).action, action(0.2, 0.2))


def test_ticks_that_passed_without_a_turn_count_as_held(gate):
    armed = gate(stop_after=10)
    drive(armed, [(0.2, 0.2)], [0.0])
    armed.write(armed.hold("age: ...", 9 * PERIOD, ticks=9))
    assert armed.tripped is None
    armed.hold("age: ...", 10 * PERIOD)
    assert armed.tripped.startswith("no new action at 10 ticks in a row")


def test_ticks_that_passed_without_a_turn_count_also_before_a_new_action(gate):
    armed = gate(stop_after=10)
    drive(armed, [(0.2, 0.2)], [0.0])
    for tick in range(1, 5):
        armed.write(armed.hold("age: ...", tick * PERIOD))
    ruling = armed.propose(action(0.1, 0.1), 11 * PERIOD, ticks=7)
    assert (ruling.action, ruling.limited_by) == (None, ("stop",))
    assert ruling.reason == "missed: 6 ticks of the policy passed without a turn"
    assert armed.tripped == f"no new action at 10 ticks in a row (stop_after), lastly: {ruling.reason}"


def test_fewer_missed_ticks_than_stop_after_are_forgotten_with_the_next_action(gate):
    armed = gate(stop_after=10)
    for tick in range(0, 90, 9):
        assert armed.write(armed.propose(action(0.1, 0.1), tick * PERIOD, ticks=9)) is not None
    assert armed.tripped is None


@pytest.mark.parametrize("way", ["propose", "stand", "hold"])
def test_a_pause_between_two_ticks_trips_the_gate_whatever_comes_next(gate, way):
    def rule(now):
        if way == "stand":
            return armed.stand(now)
        return armed.propose(action(0.1, 0.1), now) if way == "propose" else armed.hold("late: ...", now)

    armed = gate(max_pause_s=0.1)
    drive(armed, [(0.2, 0.2)], [9.0])  # however late the first one was
    assert armed.write(rule(9.1)) is not None
    ruling = rule(9.2011)
    assert (ruling.action, ruling.limited_by) == (None, ("stop",))
    with pytest.raises(SafetyStop, match=r"^pause: 0\.101 s passed"):  # a loop that reads no ruling ends here
        armed.write(ruling)
    assert ruling.reason == "pause: 0.101 s passed between two ticks, allowed are 0.1 s (max_pause_s)"
    assert armed.tripped == ruling.reason
    armed.rearm()
    armed.begin(PERIOD)
    drive(armed, [(0.2, 0.2)], [60.0])
    assert armed.tripped is None


def test_a_pause_may_be_as_long_as_the_stop_waits_for_where_the_limits_do_not_say(gate):
    for pause, trips in ((10 * PERIOD, False), (10 * PERIOD + 0.001, True)):
        armed = gate(stop_after=10)
        drive(armed, [(0.2, 0.2)], [0.0])
        armed.stand(pause)
        assert (armed.tripped is not None) == trips


def test_where_the_first_missing_action_stops_a_jitter_does_not_and_a_missed_tick_does(gate):
    armed = gate(stop_after=1)
    drive(armed, [(0.2, 0.2)] * 2, [0.0, 1.2 * PERIOD])
    assert armed.tripped is None
    armed.propose(action(0.1, 0.1), 3 * PERIOD, ticks=2)
    assert armed.tripped.startswith("no new action at 1 ticks in a row")


def test_where_any_pause_is_allowed_missed_ticks_do_not_stop_what_acts_on(gate):
    armed = gate(max_pause_s=float("inf"))
    drive(armed, [(0.2, 0.2)], [0.0])
    assert armed.write(armed.propose(action(0.1, 0.1), 900 * PERIOD, ticks=900)) is not None


def test_one_new_action_begins_the_count_again(gate):
    armed = gate(stop_after=3)
    for tick in range(12):
        if tick % 3 == 0:
            drive(armed, [(0.2, 0.2)], [tick * PERIOD])
        else:
            armed.write(armed.hold("...", tick * PERIOD))
    assert armed.tripped is None


def test_before_the_first_action_there_is_nothing_to_hold_and_nothing_is_written(gate):
    armed = gate(rest=0.0, hold_ticks=0)
    assert armed.write(armed.hold("...", 0.0)) is None
    assert armed.write(armed.stand(0.01)) is None
    assert armed.adapter.writes == 0


def test_a_gate_that_tripped_is_latched_until_somebody_rearms_it(gate):
    armed = gate()
    ruling = armed.propose(action(0, 0), 0.0)
    armed.trip("somebody pressed the button")
    for blocked in (lambda: armed.write(ruling), lambda: armed.begin(PERIOD), armed.require_armed):
        with pytest.raises(SafetyStop, match=r"somebody pressed the button\. Nothing more is written"):
            blocked()
    assert armed.adapter.writes == 0
    armed.rearm()
    armed.begin(PERIOD)
    assert armed.write(armed.propose(action(0, 0), 0.0)) is not None


def test_the_first_reason_of_a_trip_is_kept(gate):
    armed = gate()
    armed.trip("somebody pressed the button")
    armed.trip("it is late, too")
    assert armed.tripped == "somebody pressed the button"


@pytest.mark.parametrize("refused_begin", [False, True])
def test_a_gate_that_was_rearmed_waits_for_the_next_episode(gate, refused_begin):
    armed = gate()
    ruling = armed.propose(action(0, 0), 0.0)
    armed.trip("somebody pressed the button")
    if refused_begin:  # in vain: the gate is latched
        with pytest.raises(SafetyStop):
            armed.begin(PERIOD)
    armed.rearm()
    with pytest.raises(SafetyStop, match="somebody pressed the button"):
        armed.write(ruling)
    armed.begin(PERIOD)
    assert armed.write(armed.propose(action(0, 0), 0.0)) is not None


def test_an_episode_in_whose_beginning_the_gate_tripped_stays_over_after_rearm(gate, monkeypatch):
    """Another thread tripped it, and the robot's reset took long enough for a person to re-arm it."""
    armed = gate()
    fresh = armed._fresh
    monkeypatch.setattr(armed, "_fresh", lambda period: (armed.trip("somebody pressed the button"), fresh(period))[1])
    with pytest.raises(SafetyStop, match="somebody pressed the button"):
        armed.begin(PERIOD)
    armed.rearm()
    with pytest.raises(SafetyStop, match="somebody pressed the button"):
        armed.write(armed.propose(action(0, 0), 0.0))


@pytest.mark.parametrize("episode", ["earlier", "earlier, by a clock that begins at 0 in each", "same"])
def test_a_ruling_that_is_not_the_latest_of_this_episode_is_not_written(gate, episode):
    """A loop of one's own that held a ruling over `begin` drove the robot by limits of another start."""
    armed = gate()
    ruling = armed.propose(action(0.5, 0), 0.0)
    if episode != "same":
        armed.begin(PERIOD)
    if episode.endswith("in each"):
        armed.propose(action(0.1, 0), 0.0)
    if episode == "same":
        armed.propose(action(0.1, 0), PERIOD)
    with pytest.raises(SamiError, match=r"the ruling of 0 s is not the latest of this episode"):
        armed.write(ruling)
    assert armed.adapter.writes == 0
    assert armed.write(armed.propose(action(0.1, 0), 2 * PERIOD)) is not None


def test_a_new_episode_forgets_the_last_one(gate):
    armed = gate(rest=0.0, rate=1.0, frozen={"position": 2}, stop_after=2)
    armed.fault(frame([0, 0], 0.0), 0.0)
    drive(armed, [(0.04, 0.04)], [0.0])
    armed.hold("...", PERIOD)
    armed.begin(PERIOD)
    assert armed.fault(frame([0, 0], 0.0), 0.0) is None
    assert armed.hold("...", 0.0).action is None
    executed, _ = drive(armed, [(1.0, 1.0)], [PERIOD])
    np.testing.assert_allclose(executed[0], 0.04, rtol=1e-6)


def test_what_is_not_finite_is_never_written_wherever_it_came_from(gate, monkeypatch):
    adapter = FakeAdapter(axes=2, limit=100.0)
    adapter.reset()
    armed, writes = gate(adapter), []
    monkeypatch.setattr(adapter, "write", writes.append)
    ruling = armed.propose(action(0.1, 0.1), 0.0)._replace(action=action(np.nan, 0.1))
    with pytest.raises(SafetyStop, match=r"the limits made \[nan, 0\.1.*which is not finite"):
        armed.write(ruling)
    assert writes == []
    with pytest.raises(SafetyStop):
        armed.begin(PERIOD)
