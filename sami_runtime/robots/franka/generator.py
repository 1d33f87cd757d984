"""Joint trajectories that a Franka accepts: limited in speed, acceleration and jerk, for commands at any time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

CYCLE_S = 1e-3
"""Period of the robot's control [s]."""
HIGHEST_ACCELERATION, HIGHEST_JERK = 10.0, 5000.0
"""Limits of the robot for each joint [rad/s2, rad/s3], beyond which it stops by a reflex."""
LOW = (-2.7501, -1.7918, -2.9065, -3.0481, -2.8101, 0.54092, -3.0196)
HIGH = (2.7501, 1.7918, 2.9065, -0.1458, 2.8101, 4.5205, 3.0196)
"""Range of each joint [rad]."""
FASTEST = (2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26)
"""Highest speeds [rad/s], far from a joint's ends."""
OFFSET = (0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35)
BRAKING = (6.0, 2.585, 3.5, 4.0, 17.0, 5.5, 17.0)
"""At a distance d [rad] from a joint's end, the robot allows sqrt(2 BRAKING d) - OFFSET [rad/s]."""
SLOPE = 8.0
"""Speed per remaining distance, close to a target [1/s]."""

LEASH_RAD, TRACKING_DELAY_S = 0.015, 0.02
"""Lead of a joint's reference at which it slows down [rad], in addition to the normal tracking delay [s]."""
MOST_MISSED = 20
"""Missing commands in a row after which a robot stops by itself."""
SAME_RAD = 5e-7
"""Difference up to which positions count as equal [rad]: robots report them in 32 bits."""


@dataclass(frozen=True)
class JointLimits:
    """Limits of a motion, the same for all seven joints."""

    speed: float = 0.5
    """Share of the highest speeds, up to 1."""
    acceleration: float = 5.0
    """[rad/s2]."""
    jerk: float = 1500.0
    """[rad/s3], lower than the robot's limit, so that one or two lost packets do not violate it."""
    margin: float = 0.1
    """Distance to keep from the joints' ends [rad]."""


class JointGenerator:
    """Generates positions, cycle by cycle, towards target velocities or positions that may change at any cycle.

    Speed, acceleration and jerk, as differences between cycles, never exceed the limits. A joint that begins outside
    its margin never comes nearer to its end than half of the margin.

    Args:
        limits: Of the motion.
        positions: (7,) at which the arm rests now [rad].
    """

    def __init__(self, limits: JointLimits, positions: ArrayLike) -> None:
        self.limits = limits
        self.positions: Array = np.array(positions, np.float64)
        self.velocities: Array = np.zeros(7)
        self.accelerations: Array = np.zeros(7)
        self.fastest: Array = limits.speed * np.array(FASTEST)
        self.low, self.high = np.array(LOW) + limits.margin, np.array(HIGH) - limits.margin
        self._low, self._high = np.array(LOW), np.array(HIGH)
        self._offset, self._braking = np.array(OFFSET), 2.0 * np.array(BRAKING)
        self._leap = limits.jerk * CYCLE_S
        self._command: Array = np.zeros(7)
        self._goal: Array | None = None
        self._share = 1.0
        self._slack, self._taut = np.ones(7), np.zeros(7)

    def follow(self, velocities: ArrayLike) -> None:
        """Set target velocities (7,) [rad/s], which are limited to the allowed speeds."""
        self._command, self._goal = np.array(velocities, np.float64), None

    def go(self, positions: ArrayLike, share: float = 1.0) -> None:
        """Set target positions (7,) [rad], to reach at a share of the limits' speeds and rest there."""
        self._goal, self._share = np.clip(positions, self.low, self.high), share

    def halt(self) -> None:
        """Set the target to rest, as soon as the limits allow."""
        self.follow(np.zeros(7))

    @property
    def at_rest(self) -> bool:
        """Whether all velocities and accelerations are 0."""
        return not (self.velocities.any() or self.accelerations.any())

    @property
    def arrived(self) -> bool:
        """Whether it is within 2 mrad of its target positions, and slower than 2 mrad/s."""
        slow = float(abs(self.velocities).max()) < 2e-3
        return self._goal is not None and slow and float(abs(self._goal - self.positions).max()) < 2e-3

    def step(self) -> Array:
        """Return the positions (7,) [rad] of the next cycle."""
        gaps = (self._target() - self.velocities) / CYCLE_S
        # This acceleration closes the gap exactly if it then shrinks by one leap (jerk limit) per cycle.
        size = abs(gaps)
        cycles = np.floor((np.sqrt(1.0 + 8.0 * size / self._leap) - 1.0) / 2.0)
        best = np.sign(gaps) * (size + self._leap * cycles * (cycles + 1.0) / 2.0) / (cycles + 1.0)
        best = np.clip(best, self.accelerations - self._leap, self.accelerations + self._leap)
        self.accelerations = np.clip(best, -self.limits.acceleration, self.limits.acceleration)
        velocities = self.velocities + self.accelerations * CYCLE_S
        velocities[abs(velocities) < 1e-12] = 0.0  # a rounding error counts as rest
        self.accelerations[abs(self.accelerations) < 1e-9] = 0.0
        self.velocities = velocities
        self.positions = self.positions + velocities * CYCLE_S
        return self.positions

    def is_at(self, positions: ArrayLike) -> bool:
        """Return whether the robot's commanded positions (7,) [rad] equal this generator's."""
        return float(abs(self.positions - np.asarray(positions)).max()) < SAME_RAD

    def synchronise(self, positions: ArrayLike, velocities: ArrayLike, accelerations: ArrayLike) -> int:
        """Continue from the commanded state that the robot reports; return how many commands did not reach it.

        For each missing command, the robot extrapolates with its last acceleration, and this method does the same.

        Args:
            positions: (7,) of the robot's reference [rad].
            velocities: (7,) [rad/s].
            accelerations: (7,) [rad/s2].
        """
        reference, at, speed = np.array(positions, np.float64), self.positions, self.velocities
        for missed in range(MOST_MISSED):
            if float(abs(at - reference).max()) < SAME_RAD:
                self.positions, self.velocities = at, speed
                return missed
            speed = speed + self.accelerations * CYCLE_S
            at = at + speed * CYCLE_S
        self.positions, self.velocities = reference, np.array(velocities, np.float64)
        self.accelerations = np.clip(accelerations, -self.limits.acceleration, self.limits.acceleration)
        return MOST_MISSED

    def leash(self, measured: ArrayLike) -> None:
        """Slow down the reference if the arm does not follow, so that the arm does not push an obstacle ever harder.

        Args:
            measured: (7,) positions of the joints [rad].
        """
        ahead = self.positions - np.asarray(measured) - TRACKING_DELAY_S * self.velocities
        self._slack = np.clip(2.0 - abs(ahead) / LEASH_RAD, 0.0, 1.0)
        self._taut = np.sign(ahead)

    def _target(self) -> Array:
        """Return the target velocities (7,) [rad/s], limited by what is allowed at the present positions."""
        if self._goal is None:
            target = self._command
        else:
            distance = self._goal - self.positions
            target = np.sign(distance) * np.minimum(self._braked(abs(distance)), self._share * self.fastest)
        target = np.where(target * self._taut > 0.0, target * self._slack, target)
        up = np.minimum(self._braked(self.high - self.positions), self._robots(self._high - self.positions))
        down = np.minimum(self._braked(self.positions - self.low), self._robots(self.positions - self._low))
        allowed: Array = np.clip(target, -np.minimum(self.fastest, down), np.minimum(self.fastest, up))
        return allowed

    def _braked(self, distance: Array) -> Array:
        """Return the speeds (7,) from which half of the acceleration limit stops a joint within `distance` [rad]."""
        half = 0.5 * self.limits.acceleration
        straight = half / SLOPE**2
        distance = np.maximum(distance, 0.0)
        curve = np.sqrt(2.0 * half * np.maximum(distance - 0.5 * straight, 0.0))
        return np.where(distance < straight, SLOPE * distance, curve)

    def _robots(self, distance: Array) -> Array:
        """Return 0.9 times the speeds (7,) that the robot allows at `distance` (7,) [rad] from a joint's end."""
        allowed = np.sqrt(self._braking * np.maximum(distance, 0.0)) - self._offset
        return np.maximum(0.9 * allowed, 0.0)
