"""Laws of what judges the world: where elements stay, how far they jump, and what happens where they do not."""

from dataclasses import replace

import numpy as np
import pytest

from sami_runtime.adapters import FakeAdapter, Observation
from sami_runtime.errors import SafetyStop
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from tests.making.gates import PERIOD, action, drive, frame

BOX = {"position.x": {"range": [-0.5, 0.5]}}


def kinds(gate, positions, times=None):
    """The kind of what the gate says to each position, a period after the other; None where it says nothing."""
    times = PERIOD * np.arange(len(positions)) if times is None else times
    faults = [gate.fault(frame(position, now), now) for position, now in zip(positions, times, strict=True)]
    return [fault and fault.partition(":")[0] for fault in faults]


# --- inside


def test_an_element_that_is_not_inside_its_range_is_named_with_value_and_range(gate):
    armed = gate(inside=BOX)
    assert armed.fault(frame([0.5, 0.9], 0.0), 0.0) is None
    assert armed.fault(frame([0.6, 0.0], 0.0), 0.0) == (
        "inside: position.x is 0.6 m, allowed are -0.5 to 0.5 (inside.position.x)"
    )
    assert kinds(gate(inside=BOX), [(-0.5, 0), (-0.51, 0), (0, 0.9)]) == [None, "inside", None]


def test_an_element_without_bounds_can_be_kept_inside_too(gate):
    armed = gate(inside={"goal.x": [0.0, 0.4]})
    assert armed.fault(frame([0, 0], 0.0), 0.0).startswith("inside: goal.x is 0.5 m")


def test_a_range_may_be_open_to_one_side(gate):
    assert kinds(gate(inside={"position.y": [-np.inf, 0.0]}), [(0, -0.9), (0, 0.1)]) == [None, "inside"]


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("hold", [(0.2, ()), (0.2, ()), (0.0, ("rest",))]),
        ("rest", [(0.0, ("rest",)), (0.0, ("rest",)), (0.0, ("rest",))]),
        ("stop", [(None, ("stop",))]),
    ],
)
def test_what_happens_beyond_is_the_limits_choice(gate, then, expected):
    armed = gate(inside={"position.x": {"range": [-0.5, 0.5], "then": then}}, rest=0.0, hold_ticks=2)
    assert armed.fault(frame([0, 0], 0.0), 0.0) is None
    drive(armed, [(0.2, 0.2)], [0.0])
    results = []
    for tick in range(1, 1 + len(expected)):
        reason = armed.fault(frame([0.6, 0], tick * PERIOD), tick * PERIOD)
        ruling = armed.hold(reason, tick * PERIOD)
        written = None if ruling.action is None else round(float(armed.write(ruling).action[0]), 6)
        results.append((written, ruling.limited_by))
    assert results == expected
    assert armed.tripped == (reason if then == "stop" else None)


def test_what_was_to_happen_is_forgotten_with_the_next_good_observation(gate):
    armed = gate(inside={"position.x": {"range": [-0.5, 0.5], "then": "stop"}})
    drive(armed, [(0.2, 0.2)], [0.0])
    assert armed.fault(frame([0.6, 0], PERIOD), PERIOD) is not None
    assert armed.fault(frame([0.4, 0], 2 * PERIOD), 2 * PERIOD) is None
    assert armed.write(armed.hold("late: ...", 2 * PERIOD)) is not None


def test_what_is_held_does_not_hide_what_stops(gate):
    limits = {
        "position.x": {"range": [-0.5, 0.5], "then": "hold"},
        "position.y": {"range": [-0.5, 0.5], "then": "stop"},
    }
    armed = gate(inside=limits, jump={"position.x": 0.1})
    assert armed.fault(frame([0, 0], 0.0), 0.0) is None
    drive(armed, [(0.2, 0.2)], [0.0])
    reason = armed.fault(frame([0.9, 0.9], PERIOD), PERIOD)
    assert reason.startswith("inside: position.y is 0.9 m")
    armed.hold(reason, PERIOD)
    with pytest.raises(SafetyStop, match=r"inside: position\.y is 0\.9 m, .*Nothing more is written"):
        armed.require_armed()


# --- the contract's bounds


def test_a_world_beyond_the_contracts_bounds_is_not_acted_on(gate):
    assert gate().fault(frame([400.0, 0], 0.0), 0.0) == (
        "bounds: position.x is 400 m, beyond the bounds -1 to 1 (out_of_bounds)"
    )
    assert kinds(gate(), [(1, -1), (1.001, 0), (0, -1.001)]) == [None, "bounds", "bounds"]


def test_bounds_that_are_no_float32_are_kept_by_the_nearest(make):
    signal = make.observation_signals[0].model_copy(update={"high": (0.1, 0.1)})
    contract = make.contract_of(make.recurrent(), observation=(signal, make.observation_signals[1]))
    armed = SafetyGate(FakeAdapter(axes=2), contract)
    assert kinds(armed, [(0.1, 0.1)]) == [None]
    assert armed.fault(Observation({"position": np.array([0.1, 0.1]), "goal": [0]}, 0.0), 0.0) is None


@pytest.mark.parametrize("limits", [{"out_of_bounds": "act"}, {"out_of_bounds": {"position": "act"}}])
def test_bounds_may_be_left_to_the_policy(gate, limits):
    assert kinds(gate(**limits), [(400.0, 0)]) == [None]


def test_bounds_may_stop_by_signal(gate):
    armed = gate(out_of_bounds={"position": "stop"})
    drive(armed, [(0.2, 0.2)], [0.0])
    reason = armed.fault(frame([400.0, 0], PERIOD), PERIOD)
    assert armed.hold(reason, PERIOD).limited_by == ("stop",)


def test_an_adapter_that_declares_wider_bounds_in_numbers_is_believed(gate):
    for low, high, expected in (
        ((-5.0,) * 2, (5.0,) * 2, [None, "bounds"]),
        ((None,) * 2, (None,) * 2, ["bounds", "bounds"]),
        ((-0.1,) * 2, (0.1,) * 2, ["bounds", "bounds"]),
    ):
        adapter = FakeAdapter(axes=2)
        position = adapter.observation[0].model_copy(update={"low": low, "high": high})
        adapter.observation = (position, *adapter.observation[1:])
        assert kinds(gate(adapter), [(1.5, 0), (5.1, 0)]) == expected


def test_numbers_that_are_not_finite_missing_or_misshapen_are_the_policys_to_refuse(gate):
    armed = gate(inside={"position.x": {"range": [-0.5, 0.5], "then": "stop"}}, jump={"position.x": 0.1})
    for values in ([np.nan, 0], [np.inf, 0], [-np.inf, 0], [0, 0, 9], ["a", "b"], 0, None):
        observation = Observation({"position": np.array(values), "goal": np.float32([0.5])}, 0.0)
        assert armed.fault(observation, 0.0) is None
    assert armed.fault(Observation({"goal": np.float32([0.5])}, 0.0), 0.0) is None


@pytest.mark.parametrize("kind", [np.float64, np.int32, np.uint32, np.int64, ">f4", list, "strided", "row"])
def test_numbers_are_judged_whatever_they_come_as(gate, kind):
    def value(x):
        if kind == "strided":
            return np.float32([x, 7, 0, 7])[::2]
        if kind == "row":
            return np.float32([[x, 0]])
        return [x, 0] if kind is list else np.array([x, 0]).astype(kind)

    armed = gate()
    for x, expected in ((1, None), (400, "bounds")):
        fault = armed.fault(Observation({"position": value(x), "goal": np.float32([0.5])}, 0.0), 0.0)
        assert (fault and fault.partition(":")[0]) == expected


# --- jumps


def test_an_element_that_jumps_is_named_and_a_single_wild_value_is_skipped(gate):
    armed = gate(jump={"position.x": 0.1})
    faults = [armed.fault(frame([x, 0.9], PERIOD * at), PERIOD * at) for at, x in enumerate((0.0, 0.1, 0.9, 0.2, 0.25))]
    assert [fault is None for fault in faults] == [True, True, False, True, True]
    assert faults[2] == "jump: position.x moved by 0.8 m between two observations, allowed are 0.1 (jump.position.x)"


def test_what_stays_elsewhere_is_believed_when_it_can_have_got_there(gate):
    armed = gate(jump={"position.x": 0.1})
    assert kinds(armed, [(0.0, 0)] + [(0.35, 0)] * 5) == [None, "jump", "jump", "jump", None, None]


def test_an_element_may_move_as_much_farther_as_more_periods_passed(gate):
    assert kinds(gate(jump={"position.x": 0.1}), [(0, 0), (0.3, 0)], [0.0, 3 * PERIOD]) == [None, None]
    assert kinds(gate(jump={"position.x": 0.1}), [(0, 0), (0.3, 0)], [0.0, 2 * PERIOD]) == [None, "jump"]
    # Two stamps that lie close together are one observation after the other all the same.
    assert kinds(gate(jump={"position.x": 0.1}), [(0, 0), (0.1, 0)], [0.0, PERIOD / 9]) == [None, None]


def test_a_slow_camera_may_move_farther_between_its_own_stamps(gate):
    def watch(times):
        armed = gate(jump={"position.x": 0.1}, max_age_s=9.0)
        results = []
        for tick, x in enumerate((0.0, 0.0, 0.0, 0.3)):
            now = PERIOD * tick
            observation = replace(frame([x, 0], now), times={"position": 3 * PERIOD * (tick // 3)} if times else None)
            results.append(armed.fault(observation, now))
        return results

    assert watch(times=True) == [None] * 4
    assert watch(times=False)[3].startswith("jump: position.x moved by 0.3 m")


def test_without_a_common_clock_each_observation_counts_as_one_period(gate):
    armed = gate(jump={"position.x": 0.1})
    faults = [armed.fault(frame([x, 0], stamp), None) for x, stamp in ((0.0, 0.0), (0.3, 99.0), (0.3, 0.0), (0.3, 0.0))]
    assert [fault is None for fault in faults] == [True, False, False, True]


def test_a_new_episode_may_begin_anywhere(gate):
    armed = gate(jump={"position.x": 0.1})
    assert kinds(armed, [(0, 0)]) == [None]
    armed.begin(PERIOD)
    assert kinds(armed, [(0.9, 0)]) == [None]


def test_a_number_that_is_not_finite_is_no_beginning_of_a_jump(gate):
    armed = gate(jump={"position.x": 0.1})
    assert kinds(armed, [(np.nan, 0), (0.5, 0), (np.nan, 0), (0.55, 0), (0.9, 0)]) == [None] * 4 + ["jump"]


def test_each_limit_may_choose_and_rest_needs_one(make):
    contract = make.contract_of(make.recurrent())
    gate = SafetyGate(
        FakeAdapter(axes=2), contract, Limits(jump={"position.x": {"most": 0.1, "then": "rest"}}, rest=0.0)
    )
    gate.begin(PERIOD)
    gate.adapter.reset()
    assert kinds(gate, [(0, 0)]) == [None]
    drive(gate, [(0.2, 0.2)], [0.0])
    reason = gate.fault(frame([0.5, 0], PERIOD), PERIOD)
    np.testing.assert_array_equal(gate.write(gate.hold(reason, PERIOD)).action, action(0, 0))
