"""The law of writes: none is further from the one before it than rate x elapsed, whatever the adapter reports."""

from types import SimpleNamespace

import numpy as np
import pytest

from sami_runtime.adapters import Executed, FakeAdapter, Observation
from sami_runtime.errors import SamiError
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limiter import Limiter, Rate
from sami_runtime.safety.limits import Limits
from tests.making.allowed_writes import AllowedWrites, combinations, drive_all, drive_at_random
from tests.making.gates import PERIOD, action, drive


@pytest.fixture
def arm(make):
    """Makes a gate for an arm under position control, in rad, that is parked somewhere; its contract allows 1e6."""
    signal = make.action_signal.model_copy(update={"name": "joints", "low": (-1e6, -1e6), "high": (1e6, 1e6)})
    contract = make.contract_of(make.memoryless(), observation=(signal,), action=signal)

    def parked(*at, **limits):
        gate = SafetyGate(FakeAdapter(axes=2, limit=1e6), contract, Limits(rest="joints", **limits))
        gate.adapter.reset()
        gate.begin(PERIOD)
        assert gate.fault(Observation({"joints": action(*at)}, 0.0), 0.0) is None
        return gate

    return parked


def test_a_pause_after_the_fallback_does_not_lead_back_to_the_pose_before_it(arm):
    """The neutral action was the last position that the policy could act on: a jump of 0.9 rad, without a rate."""
    gate, fallback = arm(0.0, 0.0, hold_ticks=0, stop_after=99), SimpleNamespace(act=lambda *_: action(0.9, -0.9))
    drive(gate, [(0.1, 0.1)], [0.0])
    gate.fallback = fallback
    for tick in range(1, 5):
        assert gate.fault(Observation({"joints": action(0.9, -0.9)}, 0.0), tick) is not None
        gate.write(gate.hold("age: ...", tick * PERIOD))
    np.testing.assert_array_equal(gate.write(gate.rest(5 * PERIOD)).action, action(0.9, -0.9))
    assert gate.fault(Observation({"joints": action(0.7, 0.7)}, 6 * PERIOD), 6 * PERIOD) is None
    np.testing.assert_array_equal(gate.write(gate.rest(6 * PERIOD)).action, action(0.7, 0.7))


def test_no_write_is_beyond_the_rate_or_the_bounds_whatever_happens():
    counts, violations = drive_all(writes=200, seed=0)
    assert violations == []
    assert len(counts) == 36
    for limit in ("rate", "acceleration", "bounds", "blend-in"):
        assert sum(count.get(limit, 0) for count in counts.values()) > 100


def test_no_write_is_beyond_the_rate_where_float32_is_coarse():
    assert drive_all(writes=100, seed=1, scale=1e6)[1] == []


@pytest.mark.parametrize(
    ("owner", "method", "broken"),
    [
        (Rate, "limit", lambda _, step, move: step * 1.001),
        (Limiter, "_elapsed", lambda *_: PERIOD),
        (Limiter, "record_write", lambda *_: PERIOD),
    ],
)
def test_the_model_of_allowed_writes_finds_a_gate_that_is_broken(monkeypatch, owner, method, broken):
    """A guard of the guard: it would also pass if it saw nothing."""
    monkeypatch.setattr(owner, method, broken)
    _, limits, deviation = next(combinations())
    counts, violations = drive_at_random(limits, deviation, 400, seed=0)
    assert counts["beyond: rate"] == len(violations) > 0


def test_a_late_tick_and_a_robot_that_deviates_once_do_not_make_the_gate_run_away(gate):
    """A speed from what the robot reported, over 1e-9 s, overrode the rate: 8 times as fast, to the bound."""

    class Deviates(FakeAdapter):
        def write(self, action):
            super().write(action)
            return Executed(action + np.float32(0.02 if len(self.written) == 3 else 0.0))

    adapter = Deviates(axes=2)
    adapter.reset()
    armed = gate(adapter, rest=0.0, rate=0.5, acceleration=2.0, max_pause_s=9.0)
    times = [0.0, 0.04, 0.119, 0.12, *(0.12 + PERIOD * np.arange(1, 30))]
    drive(armed, [(0.0, 0.0)] * len(times), times)
    np.testing.assert_array_equal(adapter.written, np.zeros((len(times), 2), np.float32))


def test_an_arm_that_is_parked_beyond_the_bounds_walks_in_at_the_rate(arm):
    armed = arm(2.0, 0.0, rate=0.1, high=1.0)
    executed, limited = drive(armed, [(5.0, 0.0)] * 300, PERIOD * np.arange(300))
    np.testing.assert_allclose(executed[:3, 0], [1.996, 1.992, 1.988], atol=1e-6)
    assert (np.diff(executed[:, 0]) < 0)[:240].all()
    assert executed[-1, 0] == 1.0
    assert limited[0] == ("bounds fx", "rate fx")


def test_an_arm_that_is_held_while_it_walks_in_stands_and_does_not_go_further_out(arm):
    armed = arm(2.0, 0.0, rate=0.1, high=1.0, hold_ticks=5)
    drive(armed, [(5.0, 0.0)], [0.0])
    repeated = [armed.write(armed.hold("age: ...", PERIOD * tick)).action[0] for tick in (1, 2, 3)]
    assert repeated == [np.float32(1.996)] * 3


def test_acceleration_alone_walks_in_as_well(arm):
    armed = arm(2.0, 0.0, acceleration=2.0, high=1.0)
    executed, _ = drive(armed, [(5.0, 0.0)] * 60, PERIOD * np.arange(60))
    assert np.abs(np.diff(executed[:, 0], n=2)).max() <= 2.0 * PERIOD**2 * 1.01
    assert executed[-1, 0] == 1.0


def test_an_arm_that_is_parked_beyond_the_bounds_is_not_moved_where_no_rate_leads_it_back(arm):
    armed = arm(0.5, 2.0, rate={"fx": 0.1}, low=-1.0, high=1.0)
    with pytest.raises(SamiError) as caught:
        armed.propose(action(0.5, 0.5), 0.0)
    assert str(caught.value) == (
        "the robot starts beyond the bounds: fy is 2 at rest, allowed are -1 to 1, and without a rate the first "
        "action would jump there. Set rate, move the robot to within the bounds, or correct low and high."
    )
    assert armed.adapter.written == []


def test_noise_of_a_sensor_at_its_bound_is_no_start_beyond_it(arm):
    armed = arm(1.015, -1.0, low=-1.0, high=1.0)
    np.testing.assert_array_equal(drive(armed, [(1.0, 0.0)], [0.0])[0], [[1.0, 0.0]])


@pytest.mark.parametrize("direction", [-1.0, 1.0])
def test_where_float32_is_coarse_a_rate_is_neither_exceeded_nor_frozen(arm, direction):
    """At 1e5, float32 has a number every 0.0078."""
    armed, allowed = arm(1e5, -1e5, rate=0.25), AllowedWrites(-1e6, 1e6, 0.25, PERIOD)
    allowed.begin(np.array([1e5, -1e5]))
    times = PERIOD * np.arange(50)
    executed, _ = drive(armed, [(1e5 + 9 * direction, -1e5 - 9 * direction)] * 50, times)
    assert [allowed.judge(item, now) for item, now in zip(executed, times, strict=True)] == [""] * 50
    np.testing.assert_allclose(np.abs(np.diff(executed, axis=0)), 0.0078125)


def test_a_step_smaller_than_the_next_float32_stands_still_and_is_named(arm):
    executed, limited = drive(arm(1e5, 0.0, rate=0.1), [(1e5 + 9, 0.0)] * 3, [0.0, PERIOD, 2 * PERIOD])
    np.testing.assert_array_equal(executed[:, 0], np.float32([1e5] * 3))
    assert limited == [("rate fx",)] * 3


def test_a_write_that_fails_counts_as_one(gate):
    """Whether the robot got it, nobody knows; the next step goes from there."""

    class Fails(FakeAdapter):
        def write(self, action):
            super().write(action)
            raise OSError("the cable")

    adapter = Fails(axes=2)
    adapter.reset()
    armed = gate(adapter, rest=0.0, rate=2.0)
    with pytest.raises(OSError, match="the cable"):
        armed.write(armed.propose(action(1, 1), 0.0))
    np.testing.assert_allclose(armed.propose(action(1, 1), PERIOD).action, 0.16, rtol=1e-6)
