"""The arithmetic of the joints' limits; `examples/cpp/sami_joints.hpp` computes the same in C++.

The cases in `tests/cases/joint_limits.json` test both. Each joint is independent of the others, and all is float64.

A limit is an interval of joint speeds or torques, and a `Drive` converts it to an interval of commands. Towards the end
of a joint's range, the limit of the speed u ensures that the joint can brake with deceleration a, after this period h,
and come to rest before the end: u h + u^2 / (2 a) <= room. `slowed_speed` has the limit for a joint that is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[Array, Array]
"""(J,) lowest and (J,) highest command."""
Then = Literal["scale", "hold", "stop"]
"""What happens to a command beyond a limit: it is scaled to the limit, the robot stands still, or the run stops."""
FAR = 1e9
"""End of the range of a joint without an end [rad, m]."""

SIDES = np.array([[1.0], [-1.0]])
"""Signs for the two ends of a range: the room of a joint is position - low, and high - position."""


class BodyState(NamedTuple):
    """The state of the joints when a command is judged."""

    positions: Array
    """q (J,), measured [rad, m]."""
    velocities: Array
    """v (J,), measured [rad/s, m/s]."""
    reference: Array
    """The command that is executed now, (J,), or (3,) for a hand; before the first command, one that moves nothing."""
    period: float
    """h, how long the command is in force [s]."""


class Prediction(NamedTuple):
    """The predicted motion of the joints."""

    velocities: Array
    """(J,) at the end of the period [rad/s, m/s]."""
    positions: Array
    """(J,) at the end of the period [rad, m]."""
    speeds: Interval
    """Lowest and highest velocities within the period, (J,) each: a joint may reach its own before another does."""


@dataclass(frozen=True)
class Velocities:
    """The command is joint velocities, which the robot reaches with limited acceleration."""

    acceleration: Array
    """(J,) [rad/s^2, m/s^2]; infinite if the joint reaches its speed at once."""

    targets = False

    def commands(self, state: BodyState, slowest: Array, fastest: Array) -> Interval:
        """Return the interval of commands that ask for speeds between two, (J,) each."""
        return slowest, fastest

    def standing(self, state: BodyState) -> Array:
        """Return the command (J,) that brings the joints to rest."""
        return np.zeros_like(state.positions)

    def predicted(self, state: BodyState, command: Array) -> Prediction:
        """Return the predicted motion of the joints under a command (J,)."""
        change = self.acceleration * state.period
        velocities = bounded(command, state.velocities - change, state.velocities + change)
        speeds = np.minimum(state.velocities, command), np.maximum(state.velocities, command)
        return Prediction(velocities, state.positions + state.period * velocities, speeds)


class StiffTargets:
    """The command is joint positions, which the robot reaches within a period: speed is the step between commands."""

    targets = True

    def commands(self, state: BodyState, slowest: Array, fastest: Array) -> Interval:
        """Return the interval of commands that ask for speeds between two, (J,) each."""
        return state.reference + state.period * slowest, state.reference + state.period * fastest

    def standing(self, state: BodyState) -> Array:
        """Return the command (J,) that brings the joints to rest."""
        return state.reference

    def predicted(self, state: BodyState, command: Array) -> Prediction:
        """Return the predicted motion of the joints under a command (J,)."""
        velocities = (command - state.reference) / state.period
        return Prediction(velocities, command, (velocities, velocities))


@dataclass(frozen=True)
class SoftTargets:
    """The command is joint positions, towards which motors pull: torque = kp (target - q) - kd v.

    At a constant speed u both terms are equal, so that a command that asks for u is at most kd / kp u away from q. A
    joint that is too fast is braked to its limit by the end of the period. This is computed by an implicit step, which
    is stable for any period: u (m + h kd + h^2 kp) = m v + h kp (target - q).
    """

    kp: Array
    """(J,) [N m/rad]."""
    kd: Array
    """(J,) [N m s/rad]."""
    inertia: Array
    """m (J,), the inertia that each motor moves [kg m^2]."""

    targets = True

    def commands(self, state: BodyState, slowest: Array, fastest: Array) -> Interval:
        """Return the interval of commands that lead to speeds between two, (J,) each [rad/s]."""
        softness = self.kd / self.kp
        low = softness * slowest + np.maximum(self._braking(slowest, state), 0.0)
        high = softness * fastest + np.minimum(self._braking(fastest, state), 0.0)
        return state.positions + low, state.positions + high

    def _braking(self, speeds: Array, state: BodyState) -> Array:
        return state.period * speeds + self.inertia * (speeds - state.velocities) / (state.period * self.kp)

    def standing(self, state: BodyState) -> Array:
        """Return the command (J,) that brings the joints to rest."""
        return state.positions - self.inertia * state.velocities / (state.period * self.kp)

    def predicted(self, state: BodyState, command: Array) -> Prediction:
        """Return the predicted motion of the joints under a command (J,)."""
        pull = state.period * self.kp
        whole = self.inertia + state.period * (self.kd + pull)
        velocities = (self.inertia * state.velocities + pull * (command - state.positions)) / whole
        return Prediction(velocities, state.positions + state.period * velocities, (velocities, velocities))


Drive = Velocities | StiffTargets | SoftTargets


@dataclass(frozen=True)
class PositionLimit:
    """Keeps joints in their range, and slow enough near its ends to come to rest there."""

    ends: Array
    """(2, J): -low and high [rad, m]; at most `FAR`."""
    acceleration: Array
    """(J,) least deceleration of a braking joint [rad/s^2, m/s^2]; infinite if it stops at once."""
    then: Then = "scale"
    name = "position"

    def interval(self, state: BodyState, drive: Drive) -> Interval:
        """Return the allowed commands. A joint beyond its range may stay, but for soft targets, or return."""
        start = state.reference if isinstance(drive, StiffTargets) else state.positions
        room = np.maximum(SIDES * start + self.ends, 0.0)
        speed = braking_speed(room, self.acceleration, state.period)
        if not drive.targets:
            speed = slowed_speed(speed, -SIDES * state.velocities, room, self.acceleration, state.period)
        low, high = drive.commands(state, *(SIDES * -speed))
        if isinstance(drive, SoftTargets):
            low, high = (bounded(end, -self.ends[0], self.ends[1]) for end in (low, high))
        return low, high


@dataclass(frozen=True)
class VelocityLimit:
    """Limits the speed that a command asks of a joint."""

    most: Array
    """(J,) [rad/s, m/s]."""
    then: Then = "scale"
    name = "velocity"

    def interval(self, state: BodyState, drive: Drive) -> Interval:
        """Return the interval of allowed commands."""
        return drive.commands(state, -self.most, self.most)


@dataclass(frozen=True)
class TorqueLimit:
    """Limits the torque that a command asks of a motor when the command arrives."""

    most: Array
    """(J,) [N m, N]."""
    then: Then = "scale"
    name = "torque"

    def interval(self, state: BodyState, drive: SoftTargets) -> Interval:
        """Return the interval of allowed commands."""
        damped = drive.kd * state.velocities
        return state.positions + (damped - self.most) / drive.kp, state.positions + (damped + self.most) / drive.kp


JointRule = PositionLimit | VelocityLimit | TorqueLimit


def bounded(values: Array, low: Array, high: Array) -> Array:
    """Return values (J,) clipped to [low, high], in a third of the time of `np.clip` for short arrays."""
    return np.asarray(np.minimum(np.maximum(values, low), high))


def extremes(
    positions: Array, velocities: Array, commands: Sequence[tuple[float, Array]], since: float, now: float, least: Array
) -> tuple[Array, Array]:
    """Return positions and velocities (2, J) of joints at `now` [s], closest to their low and to their high ends.

    At `since` [s] they had positions and velocities, (J,) or (2, J). Then they reached each commanded speed, lowest and
    highest (2, J), at the time [s] from which it was in force, or braked to it, if faster, by at least `least` (J,).
    """
    times = np.minimum([*[max(start, since) for start, _ in commands], now], now)[:, None, None] - now
    speeds, least = -SIDES * np.array([command for _, command in commands]), np.minimum(least, FAR)
    peaks = np.concatenate([(-SIDES * velocities)[None] + least * (since - now), speeds + least * times[1:]])
    fastest = np.maximum.accumulate(peaks) - least * times  # at those times
    excess, durations = np.maximum(fastest[:-1] - speeds, 0.0), np.diff(times, axis=0)
    braking = np.minimum(durations, excess / least)
    way = (speeds * durations + braking * (excess - 0.5 * least * braking)).sum(0)
    return positions - SIDES * way, -SIDES * fastest[-1]


def braking_speed(room: Array, acceleration: Array, period: float) -> Array:
    """Return the highest speed (..., J) that allows a joint, after a period [s], to brake within its room (..., J).

    u = a h (sqrt(1 + 2 room / (a h^2)) - 1), written so that an infinite a gives room / h.
    """
    return 2.0 * room / (period * (1.0 + np.sqrt(1.0 + 2.0 * room / (acceleration * period * period))))


def slowed_speed(most: Array, speed: Array, room: Array, acceleration: Array, period: float) -> Array:
    """Return `most`, less where the measured speed v is above it: u h + (u^2 + (v - u)^2) / (2 a) <= room; else 0."""
    above = (speed > most) & np.isfinite(acceleration)
    if not above.any():
        return most
    excess = speed - np.where(above, acceleration * period, 0.0)
    square = excess * excess - 2.0 * speed * speed + 4.0 * np.where(above, acceleration * room, 0.0)
    slowed = np.maximum(0.5 * (excess + np.sqrt(np.maximum(square, 0.0))), 0.0)
    return np.where(above, np.where(square < 0.0, 0.0, slowed), most)
