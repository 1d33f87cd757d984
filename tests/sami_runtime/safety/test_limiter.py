"""Laws of what shapes an action: blend-in, bounds, rate, acceleration; an action within all of them is not touched."""

import numpy as np
import pytest

from sami_runtime.adapters import FakeAdapter, Observation
from sami_runtime.errors import SamiError
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limiter import Acceleration, Move, Rate
from sami_runtime.safety.limits import Limits
from tests.making.gates import PERIOD, action, drive


def test_an_action_within_all_limits_is_passed_on_to_the_last_bit(gate):
    armed = gate(rest=0.0, rate=400.0, acceleration=2e4, low=-0.9, high=0.9)
    proposed = np.random.default_rng(0).uniform(-0.9, 0.9, (50, 2)).astype(np.float32)
    executed, limited = drive(armed, proposed, PERIOD * np.arange(50))
    assert executed.tobytes() == proposed.tobytes()
    assert set(limited) == {()}


def test_an_action_beyond_the_bounds_is_cut_and_the_element_named(gate):
    executed, limited = drive(gate(high={"fx": 0.25}), [(0.5, -7.0), (0.25, -1.0)], [0.0, PERIOD])
    np.testing.assert_array_equal(executed, np.float32([(0.25, -1.0), (0.25, -1.0)]))
    assert limited == [("bounds fx", "bounds fy"), ()]


def test_the_rate_holds_for_the_time_that_really_passed(gate):
    times = np.cumsum([0.0, 0.04, 0.01, 0.03, 0.05, 0.04])
    executed, limited = drive(gate(rest=0.0, rate={"fx": 2.0}), [(1.0, 1.0)] * 6, times)
    np.testing.assert_allclose(executed[:, 0], [0.08, 0.16, 0.18, 0.24, 0.34, 0.42], rtol=1e-6)
    np.testing.assert_array_equal(executed[:, 1], np.ones(6, np.float32))
    assert set(limited) == {("rate fx",)}


def test_a_pause_does_not_allow_a_jump(gate):
    armed = gate(rest=0.0, rate=2.0, max_pause_s=float("inf"))
    executed, _ = drive(armed, [(1.0, 1.0)] * 2, [0.0, 60.0])
    np.testing.assert_allclose(executed[1], 0.08 + 2 * PERIOD * 2.0, rtol=1e-6)


def test_a_clock_that_stands_still_allows_no_move(gate):
    executed, _ = drive(gate(rest=0.0, rate=2.0, acceleration=50.0), [(1.0, 1.0)] * 2, [0.0, 0.0])
    np.testing.assert_allclose(executed[1], executed[0], atol=1e-6)


@pytest.mark.parametrize(("uneven", "acceleration"), [(0.5, 200.0), (0.0, 40.0)])
@pytest.mark.parametrize("seed", range(4))
def test_random_proposals_at_random_times_never_break_a_limit(gate, seed, uneven, acceleration):
    """Even ticks exceeded the acceleration by an eighth at a bound, which stopped what still braked."""
    random = np.random.default_rng(seed)
    rate = 5.0
    armed = gate(rest=0.0, rate=rate, acceleration=acceleration)
    times = np.cumsum(random.uniform((1 - uneven) * PERIOD, (1 + uneven) * PERIOD, 300))
    targets = random.uniform(-2, 2, (300, 2)).astype(np.float32)
    targets[random.random(300) < 0.7] = 1.0  # often the same one, so that it is reached
    executed, _ = drive(armed, targets, times)
    path = np.vstack([np.zeros(2), executed.astype(np.float64)])
    elapsed = np.diff(times, prepend=times[0] - PERIOD)[:, None]
    speed = np.diff(path, axis=0) / elapsed
    assert (np.abs(path) <= 1.0).all()
    assert (np.abs(speed) <= rate * 1.001).all()
    jerks = np.abs(np.diff(np.vstack([np.zeros(2), speed]), axis=0)) / elapsed
    at_a_bound = (np.abs(path[1:]) == 1.0) & (uneven > 0.0)  # bounds come last: they may stop what still brakes
    assert (jerks[~at_a_bound] <= acceleration * 1.01).all()


@pytest.mark.parametrize("distance", [0.001, 0.1, 0.93, 5.0])
def test_acceleration_brakes_before_the_target_instead_of_swinging_around_it(distance):
    rate, acceleration = Rate(np.array([3.0])), Acceleration(np.array([2.0]))
    at, speed, trail = np.zeros(1), np.zeros(1), []
    for _ in range(400):
        move = Move(distance - at, speed, PERIOD)
        step = acceleration.limit(rate.limit(move.way, move), move)
        at, speed = at + step, step / PERIOD
        trail.append(at[0])
    assert np.max(trail) <= distance + 1e-9, "it overshot by an eighth of a step's change"
    assert trail[-1] == pytest.approx(distance, abs=1e-9)
    assert (np.diff(trail) >= -2.0 * PERIOD**2).all()


def test_an_episode_goes_over_from_rest_to_the_policy(gate):
    armed = gate(rest={"fx": 0.5, "fy": -0.5}, blend_in_s=4 * PERIOD)
    executed, limited = drive(armed, [(1.0, 1.0)] * 6, 7.0 + PERIOD * np.arange(6))
    np.testing.assert_allclose(executed[:, 0], [0.5, 0.625, 0.75, 0.875, 1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(executed[:, 1], [-0.5, -0.125, 0.25, 0.625, 1.0, 1.0], rtol=1e-6)
    assert limited == [("blend-in",)] * 4 + [()] * 2


def test_a_blend_begins_anew_after_a_fall_back_and_stands_still_while_held(gate):
    armed = gate(rest=0.0, blend_in_s=4 * PERIOD, hold_ticks=1, stop_after=99)
    drive(armed, [(1.0, 1.0)] * 2, [0.0, PERIOD])
    armed.write(armed.hold("age: ...", 2 * PERIOD))
    np.testing.assert_allclose(drive(armed, [(1.0, 1.0)], [3 * PERIOD])[0], 0.5, rtol=1e-6)
    for tick in range(4, 9):
        armed.write(armed.hold("age: ...", tick * PERIOD))
    executed, _ = drive(armed, [(1.0, 1.0)] * 5, PERIOD * np.arange(9, 14))
    np.testing.assert_allclose(executed[:, 0], [0.25, 0.5, 0.75, 1.0, 1.0], rtol=1e-6)


def test_a_blend_goes_out_from_where_the_robot_was_when_it_began(make):
    """An arm that gives way under its command must not be followed down."""
    signal = make.action_signal.model_copy(update={"name": "joints"})
    contract = make.contract_of(make.memoryless(), observation=(signal,))
    adapter = FakeAdapter(axes=2)
    adapter.reset()
    gate = SafetyGate(adapter, contract, Limits(rest="joints", blend_in_s=10 * PERIOD))
    gate.begin(PERIOD)
    with pytest.raises(SamiError, match="no valid value of the signal 'joints' was seen"):
        gate.propose(action(1, 1), 0.0)
    ruled_action = action(0.5, 0.5)
    for tick in range(20):
        now = tick * PERIOD
        measured = np.array([ruled_action - np.float32(0.02)])  # a row, as sessions take it too
        assert gate.fault(Observation({"joints": measured}, now), now) is None
        ruled_action = gate.write(gate.propose(action(0.48, 0.48), now)).action
        np.testing.assert_allclose(ruled_action, 0.48, atol=1e-6)


def test_limits_that_meet_are_named_in_their_order(gate):
    armed = gate(rest=0.0, blend_in_s=4 * PERIOD, high=0.25, rate={"fx": 0.05}, acceleration=2.0)
    _, limited = drive(armed, [(1.0, 1.0)] * 3, PERIOD * np.arange(3))
    assert limited[2] == ("blend-in", "bounds fx", "bounds fy", "acceleration fx", "acceleration fy", "rate fx")


def test_a_step_that_is_allowed_is_given_back_to_the_last_bit():
    """So that no limit is named that changed nothing."""
    way = np.random.default_rng(0).uniform(-1, 1, 50)
    move = Move(way, np.zeros(50), PERIOD)
    np.testing.assert_array_equal(Rate(np.full(50, 1 / PERIOD)).limit(way, move), way)
    np.testing.assert_array_equal(Acceleration(np.full(50, np.inf)).limit(way, move), way)
    np.testing.assert_array_equal(Acceleration(np.full(50, 1e9)).limit(way, move), way)


@pytest.mark.parametrize("acceleration", [1e154, 1e308, np.inf])
@pytest.mark.parametrize("with_holds", [False, True])
def test_an_acceleration_beyond_all_numbers_limits_nothing_and_makes_none_of_nothing(make, acceleration, with_holds):
    """Infinity times 0 is no number; `clip` kept it, and it was written on ticks that were held."""
    free = make.action_signal.model_copy(update={"low": (None, None), "high": (None, None)})
    contract = make.contract_of(make.recurrent(), action=free)
    armed = SafetyGate(FakeAdapter(axes=2), contract, Limits(rest=0.0, acceleration=acceleration))
    armed.adapter.reset()
    armed.begin(PERIOD)
    for tick in range(6):
        hold = with_holds and tick % 2
        ruling = armed.hold("late", PERIOD * tick) if hold else armed.propose(action(0.5, -0.5), PERIOD * tick)
        np.testing.assert_array_equal(armed.write(ruling).action, action(0.5, -0.5))
