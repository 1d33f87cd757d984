"""Laws of what judges observations, and of what learns from them where rest is."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sami_runtime.adapters import FakeAdapter, Observation
from sami_runtime.errors import SamiError
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.safety.watch import Watch
from tests.making import looking
from tests.making.gates import PERIOD, action, frame


def test_an_observation_may_be_three_periods_old_where_the_limits_do_not_say(gate):
    armed = gate()
    assert armed.fault(frame([0, 0], 0.0), 3 * PERIOD) is None
    assert armed.fault(frame([0, 0], 0.0), 3 * PERIOD + 0.001).startswith("age: the observation was measured 0.121 s")


def test_a_fault_hides_the_observation_from_the_rules_after_it(gate):
    """What is too old does not count as one more equal value, nor as the newest stamp."""
    armed = gate(frozen={"position": 2})
    faults = [armed.fault(frame([0, 0], stamp), now) for stamp, now in ((0.0, 0.0), (9.0, 0.01), (0.01, 0.02))]
    assert [fault and fault.split(":")[0] for fault in faults] == [None, "age", "frozen"]
    assert "the same value 2 times" in faults[2]


@pytest.mark.parametrize("time", [0.0, 100.0, -1e9, float("nan"), float("inf")])
def test_a_time_that_is_far_off_in_either_direction_or_no_time_at_all_is_a_fault(gate, time):
    assert gate(max_age_s=1.0).fault(frame([0, 0], time), 10.0).startswith("age: ")
    assert gate(max_age_s=1.0).fault(frame([0, 0], time), None) is None


def test_what_a_robot_moves_by_is_held_where_it_is_too_old_though_the_policy_does_not_read_it(gate):
    armed = gate()
    armed.adapter.basis = ("joints",)
    armed = SafetyGate(armed.adapter, armed._contract)
    armed.begin(PERIOD)
    faults = []
    for age in (0.0, 3 * PERIOD, 3 * PERIOD + 0.001):
        now = 1.0 + age
        faults.append(armed.fault(replace(frame([0, 0], now), times={"joints": 1.0}), now))
    assert faults[:2] == [None, None]
    assert faults[2].startswith("age: joints was measured 0.121 s before now by the loop's clock, allowed are 0.12 s")


def test_what_no_file_predicts_stays_at_three_periods_where_the_file_looks_farther_ahead():
    contract = looking.contract_of(5)
    watch = Watch(Limits(), contract, needed=("joints",))
    values = {signal.name: np.zeros(1, np.float32) for signal in contract.observation}
    for late, reason in (({"position": 5}, ""), ({"position": 5.1}, "age: position"), ({"joints": 3.1}, "age: joints")):
        times = {name: 1.0 - periods / contract.rate_hz for name, periods in late.items()}
        objection = watch.judge(Observation(values, 1.0, times), 1.0)
        assert (objection.reason if objection else "").startswith(reason)
        assert bool(objection) == bool(reason)


def test_an_observation_that_was_measured_before_one_that_came_earlier_is_a_fault(gate):
    armed = gate()
    assert armed.fault(frame([0, 0], 1.0), 1.0) is None
    assert armed.fault(frame([0, 0], 1.0), 1.04) is None
    assert armed.fault(frame([0, 0], 0.99), 1.04) == (
        "order: the observation was measured 0.01 s before its predecessor"
    )
    assert armed.fault(frame([0, 0], 1.01), 1.04) is None
    armed.begin(PERIOD)
    assert armed.fault(frame([0, 0], 0.5), 0.5) is None


# --- a time for each signal


def stamped(position, goal=None, time=0.0):
    """An observation whose position, and goal if given, were measured at times of their own."""
    times = {"position": position} if goal is None else {"position": position, "goal": goal}
    return replace(frame([0, 0], time), times=times)


def test_a_camera_that_died_beside_a_live_arm_is_noticed_and_named(gate):
    armed = gate(max_age_s={"goal": 0.5})
    faults = [armed.fault(stamped(now, goal=min(now, 0.2), time=now), now) for now in PERIOD * np.arange(20)]
    assert [at for at, fault in enumerate(faults) if fault] == [18, 19]
    assert faults[18] == (
        "age: goal was measured 0.52 s before now by the loop's clock, allowed are 0.5 s (max_age_s.goal)"
    )


def test_one_age_holds_for_each_signal(gate):
    armed = gate(max_age_s=0.1)
    assert armed.fault(stamped(1.0, goal=0.9), 1.0) is None
    assert armed.fault(stamped(1.0, goal=0.89), 1.0) == (
        "age: goal was measured 0.11 s before now by the loop's clock, allowed are 0.1 s (max_age_s)"
    )
    assert armed.fault(stamped(1.2, goal=1.0), 1.0).startswith("age: position was measured 0.2 s after now")
    assert armed.fault(stamped(math.nan, goal=1.0), 1.0).startswith("age: position")


def test_a_signal_without_a_time_of_its_own_has_that_of_the_observation(gate):
    armed = gate()
    assert armed.fault(stamped(1.0, time=1.0), 1.0) is None
    assert armed.fault(stamped(1.04, time=0.5), 1.04).startswith("age: goal was measured 0.54 s before now")


def test_an_observation_with_one_time_is_as_young_as_the_strictest_of_its_signals_wants(gate):
    armed = gate(max_age_s={"goal": 0.03, "position": 0.5})
    assert armed.fault(frame([0, 0], 1.0), 1.03) is None
    assert armed.fault(frame([0, 0], 1.0), 1.04) == (
        "age: the observation was measured 0.04 s before now by the loop's clock, allowed are 0.03 s (max_age_s.goal)"
    )


def test_no_signal_goes_back_in_time(gate):
    armed = gate(max_age_s=9.0)
    assert armed.fault(stamped(1.0, goal=0.9), 1.0) is None
    assert armed.fault(stamped(1.04, goal=0.9), 1.04) is None
    assert armed.fault(stamped(1.08, goal=0.88), 1.08) == "order: goal was measured 0.02 s before its predecessor"
    assert armed.fault(stamped(1.08, goal=0.95), 1.08) is None


def test_a_sensor_that_repeats_itself_is_a_fault_until_it_moves_again(gate):
    armed = gate(frozen={"position": 3})
    values = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 1e-7], [0, 1e-7]]
    faults = [armed.fault(frame(value, now), now) for now, value in enumerate(values)]
    assert [fault is None for fault in faults] == [True, True, False, False, True, True]
    assert faults[2] == "frozen: position had the same value 3 times, allowed are 2 (frozen.position)"


NO_NUMBERS = ([0.5, [1.0]], "0.5 0.5", ["0.5", "0.5"], {"x": 1}, [10**400, 0], np.array([None, 1]), None)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: type(value).__name__)
def test_a_value_that_is_no_array_of_numbers_is_left_to_the_policy_which_names_it(gate, value):
    """No rule of the gate raises an error of numpy's: the session says which signal it is, and what is expected."""
    limits = {"frozen": {"position": 2}, "inside": {"position.x": (-1, 1)}, "jump": {"position.x": {"most": 1.0}}}
    armed = gate(**limits, workspace={"position.x": (-1, 1)}, moves={"fx": {"element": "position.x", "scale": 1.0}})
    for now in (0.0, PERIOD, 2 * PERIOD):
        assert armed.fault(Observation({"position": value, "goal": np.float32([0.5])}, now), now) is None


def test_only_the_signals_that_are_named_may_not_repeat_themselves(gate):
    armed = gate(frozen={"position": 2})
    assert all(armed.fault(frame([0, now / 9], now), now) is None for now in range(9))


def test_rest_may_be_what_a_signal_measures(make):
    """For position control: the first command is where the robot is."""
    signal = make.action_signal.model_copy(update={"name": "joints"})
    contract = make.contract_of(make.memoryless(), observation=(signal,))
    adapter = FakeAdapter(axes=2)
    adapter.reset()
    gate = SafetyGate(adapter, contract, Limits(rest="joints", rate=1.0))
    gate.begin(PERIOD)
    with pytest.raises(SamiError, match="no valid value of the signal 'joints' was seen"):
        gate.propose(action(1, 1), 0.0)
    for values in (np.float32([0.5, -0.5]), np.float32([np.nan, 0.0]), *NO_NUMBERS):
        assert gate.fault(Observation({"joints": values}, 0.0), 0.0) is None
    np.testing.assert_allclose(gate.propose(action(1, 1), 0.0).action, [0.54, -0.46], rtol=1e-5)


def test_what_must_not_be_acted_on_is_not_learned_from(make):
    signal = make.action_signal.model_copy(update={"name": "joints"})
    contract = make.contract_of(make.memoryless(), observation=(signal,))
    gate = SafetyGate(FakeAdapter(axes=2), contract, Limits(rest="joints", rate=1.0))
    assert gate.fault(Observation({"joints": action(0.5, -0.5)}, 1.0), 1.0) is None
    assert gate.fault(Observation({"joints": action(0.9, 0.9)}, 0.0), 1.0).startswith("age: ")
    np.testing.assert_allclose(gate.propose(action(1, 1), 1.0).action, [0.54, -0.46], rtol=1e-5)
