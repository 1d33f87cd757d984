"""Whatever is asked of an arm and whenever, what it is told stays within what a Franka accepts."""

import numpy as np
import pytest

from sami_runtime.robots.franka.generator import (
    BRAKING,
    CYCLE_S,
    FASTEST,
    HIGH,
    LOW,
    OFFSET,
    JointGenerator,
    JointLimits,
)

LOW, HIGH = np.array(LOW), np.array(HIGH)
CYCLES = 3000
ROUNDING = 1e-3
"""Of differences of three times a thousandth [rad/s3], relative."""


def wild(seed, limits, loss_rate=0.0, blocked=False):
    """Positions (T, 7) of an arm that is told velocities, positions and rest at random, of any size."""
    rng = np.random.default_rng(seed)
    arm = JointGenerator(limits, rng.uniform(LOW + limits.margin, HIGH - limits.margin))
    path = [arm.positions] * 3
    for _ in range(CYCLES):
        if rng.random() < 0.03:
            size = rng.choice([0.01, 1.0, 100.0])
            case = rng.integers(4)
            if case == 0:
                arm.halt()
            elif case == 1:
                arm.go(rng.uniform(-4.0, 4.0, 7), share=rng.uniform(0.1, 1.0))
            else:
                arm.follow(size * rng.normal(size=7))
        if blocked:
            arm.leash(arm.positions + rng.normal(0.0, 0.02, 7))
        if rng.random() < loss_rate:  # the robot goes on by itself for some cycles
            speed, at = arm.velocities, arm.positions
            for _ in range(rng.integers(1, 10)):
                speed = speed + arm.accelerations * CYCLE_S
                at = at + speed * CYCLE_S
                path.append(at)
            arm.synchronise(at.astype(np.float32), speed, arm.accelerations)
        path.append(arm.step())
    return np.array(path)


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_speed_acceleration_and_jerk_never_exceed_the_limits(seed, blocked):
    rng = np.random.default_rng(seed)
    limits = JointLimits(rng.uniform(0.1, 1.0), rng.uniform(1.0, 10.0), rng.uniform(500.0, 5000.0))
    speeds = np.diff(wild(seed, limits, blocked=blocked), axis=0) / CYCLE_S
    accelerations = np.diff(speeds, axis=0) / CYCLE_S
    jerks = np.diff(accelerations, axis=0) / CYCLE_S
    assert (abs(speeds) / FASTEST).max() <= limits.speed * (1 + ROUNDING)
    assert abs(accelerations).max() <= limits.acceleration * (1 + ROUNDING)
    assert abs(jerks).max() <= limits.jerk * (1 + ROUNDING)
    assert abs(jerks).max() > 0.9 * limits.jerk, "it moves as briskly as it may"


@pytest.mark.parametrize("seed", range(6))
def test_no_joint_comes_near_its_end_or_faster_towards_it_than_the_robot_allows(seed):
    limits = JointLimits(1.0, 10.0, 5000.0)
    path = wild(seed, limits)
    assert ((path > LOW + 0.5 * limits.margin) & (path < HIGH - 0.5 * limits.margin)).all()
    speeds = np.diff(path, axis=0) / CYCLE_S
    for room, towards in ((HIGH - path[1:], speeds), (path[1:] - LOW, -speeds)):
        allowed = np.sqrt(2.0 * np.array(BRAKING) * room) - OFFSET
        assert (towards <= np.maximum(allowed, 0.05)).all()


@pytest.mark.parametrize("seed", range(3))
def test_lost_packets_break_no_limit_of_the_robot(seed):
    """The robot goes on at the acceleration that it had; from there the next command goes on, by a jerk or two."""
    limits = JointLimits(0.6, 6.0, 1500.0)
    path = wild(seed, limits, loss_rate=0.05)
    jerks = np.diff(path, n=3, axis=0) / CYCLE_S**3
    assert abs(np.diff(path, n=2, axis=0)).max() / CYCLE_S**2 < 10.0
    assert abs(jerks).max() < 5000.0


def test_it_comes_to_rest_exactly_and_where_it_was_to_go():
    arm, goal = JointGenerator(JointLimits(), np.zeros(7) + [0, 0, 0, -1.5, 0, 1.5, 0]), [0.3, 0.2, -0.1, -2, 0.1, 2, 1]
    arm.go(goal)
    for _ in range(6000):
        arm.step()
    assert arm.arrived
    assert arm.positions == pytest.approx(goal, abs=2e-3)
    arm.follow([0.5] * 7)
    for _ in range(500):
        arm.step()
    assert arm.velocities == pytest.approx([0.5] * 7)
    arm.halt()
    cycles = 0
    while not arm.at_rest:
        arm.step()
        cycles += 1
        assert cycles < 300
    still = arm.positions
    assert (arm.step() == still).all()


def test_it_stops_pushing_against_what_stands_in_its_way():
    arm = JointGenerator(JointLimits(), np.zeros(7) + [0, 0, 0, -1.5, 0, 1.5, 0])
    wall = arm.positions
    arm.follow([0.3] * 7)
    for _ in range(5000):
        arm.leash(wall)
        arm.step()
    assert abs(arm.positions - wall).max() < 0.04
    arm.follow([-0.3] * 7)
    for _ in range(300):
        arm.leash(wall)
        arm.step()
    assert (arm.positions < wall).all(), "the way back is free"
