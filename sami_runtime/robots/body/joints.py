"""The arithmetic of the joints' limits, and nothing else: `examples/cpp/sami_joints.hpp` computes the same.

Both are held by the cases in `tests/cases/joint_limits.json`. Joints do not know of one another here. All is float64.

A limit is an interval of joint speeds or torques; a `Drive` says which commands lead to them. Towards the end of a
joint's range, the speed u is one from which it can still come to rest there after this period h, braking by a:
u h + u^2 / (2 a) <= room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[Array, Array]
"""(J,) lowest and (J,) highest command."""
Then = Literal["scale", "hold", "stop"]
"""What happens to a command beyond a limit: as much of it as is allowed is executed, the robot stands, or it stops."""
FAR = 1e9
"""Where the range of a joint ends that has no end [rad, m]."""

SIDES = np.array([[1.0], [-1.0]])
"""Of the ends of a range: a joint's room is its position - low, and high - its position."""


class BodyState(NamedTuple):
    """Where the joints are when a command is judged."""

    positions: Array
    """q (J,), measured [rad, m]."""
    velocities: Array
    """v (J,), measured [rad/s, m/s]."""
    reference: Array
    """(J,): the command that is executed now; before the first one what moves nothing."""
    period: float
    """h, how long the command holds [s]."""


class Prediction(NamedTuple):
    """What joints are going to do."""

    velocities: Array
    """(J,) when the period ends [rad/s, m/s]."""
    positions: Array
    """(J,) then [rad, m]."""

    def towards(self, other: Prediction, share: float) -> Prediction:
        """Return what lies between."""
        return Prediction(*(a + share * (b - a) for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Velocities:
    """The command is joint velocities, which the robot takes on within its acceleration."""

    acceleration: Array
    """(J,) [rad/s^2, m/s^2]; infinite where it is there at once."""

    targets = False

    def start(self, state: BodyState) -> Array:
        """Return from where a joint goes on, (J,)."""
        return state.positions

    def commands(self, state: BodyState, slowest: Array, fastest: Array) -> Interval:
        """Return the commands that ask for speeds between two, (J,) each."""
        return slowest, fastest

    def standing(self, state: BodyState) -> Array:
        """Return the command that brings the joints to rest."""
        return np.zeros_like(state.positions)

    def predicted(self, state: BodyState, command: Array) -> Prediction:
        """Return what the joints do by a command."""
        change = self.acceleration * state.period
        velocities = bounded(command, state.velocities - change, state.velocities + change)
        return Prediction(velocities, state.positions + state.period * velocities)


class StiffTargets:
    """The command is joint positions, which the robot follows within a period: speed is the step between two."""

    targets = True

    def start(self, state: BodyState) -> Array:
        """Return from where a joint goes on, (J,)."""
        return state.reference

    def commands(self, state: BodyState, slowest: Array, fastest: Array) -> Interval:
        """Return the commands that ask for speeds between two, (J,) each."""
        return state.reference + state.period * slowest, state.reference + state.period * fastest

    def standing(self, state: BodyState) -> Array:
        """Return the command that brings the joints to rest."""
        return state.reference

    def predicted(self, state: BodyState, command: Array) -> Prediction:
        """Return what the joints do by a command."""
        return Prediction((command - state.reference) / state.period, command)


@dataclass(frozen=True)
class SoftTargets:
    """The command is joint positions, towards which motors pull: torque = kp (target - q) - kd v.

    A motor pulls no faster than to where both terms are equal: a command that asks for a speed u is at most kd / kp u
    away. A joint that is faster than it may be is braked so that it is not, when the period ends, by an implicit step,
    which is stable for any period: u (m + h kd + h^2 kp) = m v + h kp (target - q).
    """

    kp: Array
    """(J,) [N m/rad]."""
    kd: Array
    """(J,) [N m s/rad]."""
    inertia: Array
    """m (J,) that a motor moves [kg m^2]."""

    targets = True

    def start(self, state: BodyState) -> Array:
        """Return from where a joint goes on, (J,)."""
        return state.positions

    def commands(self, state: BodyState, slowest: Array, fastest: Array) -> Interval:
        """Return the commands that lead to speeds between two, (J,) each."""
        softness = self.kd / self.kp
        low = softness * slowest + np.maximum(self._braking(slowest, state), 0.0)
        high = softness * fastest + np.minimum(self._braking(fastest, state), 0.0)
        return state.positions + low, state.positions + high

    def _braking(self, speeds: Array, state: BodyState) -> Array:
        return state.period * speeds + self.inertia * (speeds - state.velocities) / (state.period * self.kp)

    def standing(self, state: BodyState) -> Array:
        """Return the command that brings the joints to rest."""
        return state.positions - self.inertia * state.velocities / (state.period * self.kp)

    def predicted(self, state: BodyState, command: Array) -> Prediction:
        """Return what the joints do by a command."""
        pull = state.period * self.kp
        whole = self.inertia + state.period * (self.kd + pull)
        velocities = (self.inertia * state.velocities + pull * (command - state.positions)) / whole
        return Prediction(velocities, state.positions + state.period * velocities)

    def by_torque(self, state: BodyState, most: Array) -> Interval:
        """Return the commands whose torque now is at most `most`, (J,) [N m]."""
        damped = self.kd * state.velocities
        return state.positions + (damped - most) / self.kp, state.positions + (damped + most) / self.kp


Drive = Velocities | StiffTargets | SoftTargets


@dataclass(frozen=True)
class PositionLimit:
    """Joints stay in their range, and are slow enough before its ends to come to rest there."""

    low: Array
    """(J,) [rad, m]."""
    high: Array
    ends: Array
    """(2, J): -low and high."""
    acceleration: Array
    """(J,) [rad/s^2, m/s^2] by which a joint brakes at least; infinite where it stops at once."""
    then: Then = "scale"
    name = "position"

    @classmethod
    def of(cls, low: Array, high: Array, acceleration: Array, then: Then) -> PositionLimit:
        """Return the limit of joints, some of which may have no end: these have one far away."""
        low, high = np.maximum(low, -FAR), np.minimum(high, FAR)
        return cls(low, high, np.stack([-low, high]), acceleration, then)

    def interval(self, state: BodyState, drive: Drive) -> Interval:
        """Return what is allowed now. Beyond its range a joint may stand, or come back."""
        start = drive.start(state)
        room = np.maximum(SIDES * start + self.ends, 0.0)
        slowest, fastest = SIDES * -braking_speed(room, self.acceleration, state.period)
        low, high = drive.commands(state, slowest, fastest)
        if drive.targets:
            low, high = bounded(low, self.low, self.high), bounded(high, self.low, self.high)
        return low, high


@dataclass(frozen=True)
class VelocityLimit:
    """No joint is asked to be faster."""

    most: Array
    """(J,) [rad/s, m/s]."""
    then: Then = "scale"
    name = "velocity"

    def interval(self, state: BodyState, drive: Drive) -> Interval:
        """Return what is allowed now."""
        return drive.commands(state, -self.most, self.most)


@dataclass(frozen=True)
class TorqueLimit:
    """No motor is asked for more torque than it has, when the command arrives."""

    most: Array
    """(J,) [N m, N]."""
    then: Then = "scale"
    name = "torque"

    def interval(self, state: BodyState, drive: SoftTargets) -> Interval:
        """Return what is allowed now."""
        return drive.by_torque(state, self.most)


JointRule = PositionLimit | VelocityLimit | TorqueLimit


def bounded(values: Array, low: Array, high: Array) -> Array:
    """Return values (J,) cut to between two; a third of the time of `clip` on short arrays."""
    return np.asarray(np.minimum(np.maximum(values, low), high))


def braking_speed(room: Array, acceleration: Array, period: float) -> Array:
    """Return the speed (..., J) from which a joint comes to rest within its room (..., J) after a period [s].

    u = a h (sqrt(1 + 2 room / (a h^2)) - 1), written so that an infinite a gives room / h.
    """
    return 2.0 * room / (period * (1.0 + np.sqrt(1.0 + 2.0 * room / (acceleration * period * period))))
