"""Shapes actions: one class a limit, one method each, and `Limiter`, which applies them in their order."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sami_runtime.safety.limits import Limits, by_element
from sami_runtime.safety.watch import ROUNDING, Rest
from sami_runtime.safety.workspace import Workspace
from sami_runtime.signals import Signal

Array = NDArray[np.float32]
Float64 = NDArray[np.float64]

PAUSE_PERIODS = 2
"""Periods after which a tick counts as one after a pause: it allows no more than these."""

UNLIMITED = 1e100
"""An acceleration [unit/s^2] from which on nothing is limited: its square, in which a step is eased, has no number."""


class Shaped(NamedTuple):
    """An action, and what made it one."""

    action: Array
    """(A,)"""
    limited_by: tuple[str, ...]
    """Every limit that changed it, as `"rate dx"`; `"blend-in"` concerns all elements."""


class Move(NamedTuple):
    """What a step is a part of."""

    way: Float64
    """(A,): from the last action to the target, in the action's unit."""
    speed: Float64
    """(A,): of the last step [unit/s]."""
    elapsed: float
    """dt, the time that the step takes [s]."""


class ActionLimit(Protocol):
    """What an action may be."""

    def limit(self, action: Array, elapsed: float) -> Shaped:
        """Limit an action (A,).

        Args:
            action: What is wanted, (A,).
            elapsed: Time since the last write [s]; 0 where nothing was written yet.
        """
        ...


class StepLimit(Protocol):
    """How fast an action may change."""

    name: str
    """What it is called in `limited_by`."""

    def limit(self, step: Float64, move: Move) -> Float64:
        """Return as much of a step (A,) as it allows; equal to it, to the last bit, where it allows all."""
        ...


class BlendIn:
    """The policy's actions are gone over to: from rest, as it was when that began, or from what another one did.

    Args:
        duration: In what time [s].
        rest: The action that moves nothing.
    """

    def __init__(self, duration: float, rest: Rest) -> None:
        self._duration, self._rest = duration, rest
        self._blended = 0.0
        self._origin: Array | None = None

    def begin(self, origin: Array | None = None) -> None:
        """Go out from an action (A,), or from rest, unless it has begun.

        Raises:
            SamiError: Rest is needed, and not known yet.
        """
        if self._origin is None and self._blended < self._duration:
            self._origin = self._rest.require() if origin is None else origin

    def reset(self) -> None:
        """Limit nothing until it begins anew."""
        self._origin, self._blended = None, 0.0

    def limit(self, action: Array, elapsed: float) -> Shaped:
        """Mix an action with the one that it went out from, by the time that has passed."""
        if self._origin is None or self._blended >= self._duration:
            return Shaped(action, ())
        self._blended += elapsed
        share = self._blended / self._duration
        if share >= 1.0 - ROUNDING:
            return Shaped(action, ())
        mixed = (self._origin + share * (action - self._origin)).astype(np.float32)
        return Shaped(mixed, ("blend-in",))


class Bounds:
    """No element is below its lowest or above its highest value.

    Args:
        low: (A,) lowest.
        high: (A,) highest.
        elements: Names of the elements.
    """

    def __init__(self, low: Array, high: Array, elements: tuple[str, ...]) -> None:
        self._low, self._high, self._elements = low, high, elements

    def limit(self, action: Array, elapsed: float) -> Shaped:
        """Cut an action at the bounds, and name where."""
        bounded = self.cut(action)
        if bounded.tobytes() == action.tobytes():  # half the time of comparing short arrays
            return Shaped(bounded, ())
        return Shaped(bounded, named("bounds", bounded != action, self._elements))

    def cut(self, action: Array) -> Array:
        """Cut an action at the bounds."""
        return action.clip(self._low, self._high)


class Rate:
    """An action changes at most so fast.

    Args:
        rate: (A,) [unit/s]; infinite where there is no limit.
    """

    name = "rate"

    def __init__(self, rate: Float64) -> None:
        self._rate = rate

    def limit(self, step: Float64, move: Move) -> Float64:
        """Cut a step at the rate."""
        longest = self._rate * move.elapsed
        return step.clip(-longest, longest)


class Acceleration:
    """An action's rate changes at most so fast, and the action can still come to rest at its target.

    Args:
        acceleration: (A,) [unit/s^2]; infinite where there is no limit.
    """

    name = "acceleration"

    def __init__(self, acceleration: Float64) -> None:
        self._limited = acceleration < UNLIMITED
        self._acceleration = np.where(self._limited, acceleration, 0.0)

    def limit(self, step: Float64, move: Move) -> Float64:
        """Ease a step."""
        return np.where(self._limited, ease(step, move, self._acceleration), step)


def ease(step: Float64, move: Move, acceleration: Float64) -> Float64:
    """Limit a step by acceleration, so that it can still come to rest at its target.

    The speed from which the rest of the way allows braking, v^2 / (2 a) + v dt / 2 = |way|, keeps the action from
    overshooting a target that stands still, where dt stays the same; where it varies, it overshoots by little.

    Args:
        step: (A,) what else is allowed of the way, in the action's unit.
        move: What it is a part of.
        acceleration: (A,) largest change of speed [unit/s^2], finite.

    Returns:
        (A,) the step within the acceleration.
    """
    change = acceleration * move.elapsed
    brake = np.sqrt((change / 2) ** 2 + 2 * acceleration * np.abs(move.way)) - change / 2
    longest = brake * move.elapsed
    return step.clip(-longest, longest).clip((move.speed - change) * move.elapsed, (move.speed + change) * move.elapsed)


def named(limit: str, where: NDArray[np.bool_], elements: tuple[str, ...]) -> tuple[str, ...]:
    """Return the elements that a limit changed, each as `"rate dx"`."""
    if 1 not in where.tobytes():  # a tenth of the time of any() on short arrays
        return ()
    return tuple(f"{limit} {elements[at]}" for at in np.flatnonzero(where))


class Limiter:
    """Applies every limit to the actions of an episode, and knows how they move.

    Args:
        limits: What is allowed.
        action: The action's signal.
        rest: From where the first step goes.
        period: Nominal time between two ticks [s].
        workspace: What no action leads out of.
    """

    def __init__(self, limits: Limits, action: Signal, rest: Rest, period: float, workspace: Workspace) -> None:
        self._workspace = workspace if workspace else None
        self._elements, self._rest, self._period = action.elements, rest, period
        self._bounds = Bounds(*limits.bounds(action), action.elements)
        self.blend_in = BlendIn(limits.blend_in_s, rest)
        rate = by_element(limits.rate, action, math.inf)
        acceleration = by_element(limits.acceleration, action, math.inf)
        self._acceleration = Acceleration(acceleration)
        self._accelerates = bool((acceleration < UNLIMITED).any())
        # What limits nothing is left out, because a loop may run a thousand times a second.
        self._on_actions: list[ActionLimit] = [self.blend_in] if limits.blend_in_s else []
        self._on_actions.append(self._bounds)
        self._on_steps: list[StepLimit] = [Rate(rate)] if np.isfinite(rate).any() else []
        self._on_steps += [self._acceleration] if self._accelerates else []
        self._executed: Array | None = None
        self._executed_at = 0.0
        self._speed = np.zeros(action.size)

    def shape(self, target: Array, now: float) -> Shaped:
        """Shape an action that goes to a target (A,): one within all limits is not touched.

        Raises:
            SamiError: A step has nothing to start from, because rest is not known yet.
        """
        elapsed = self._elapsed(now)
        action, limited_by = target, ()  # type: Array, tuple[str, ...]
        for on_action in self._on_actions:
            action, names = on_action.limit(action, 0.0 if self._executed is None else elapsed)
            limited_by += names
        if self._workspace is not None:
            action, names = self._kept(action, elapsed)
            limited_by += names
        if not self._on_steps:
            return Shaped(action, limited_by)
        start = self._rest.require() if self._executed is None else self._executed
        move = Move(action.astype(np.float64) - start, self._speed_at(now), elapsed)
        step, changed = move.way, ()  # type: Float64, tuple[str, ...]
        for on_step in self._on_steps:
            allowed = on_step.limit(step, move)
            changed += named(on_step.name, allowed != step, self._elements)
            step = allowed
        if changed:
            stepped = np.where(step != move.way, (start + step).astype(np.float32), action)
            action = self._bounds.cut(stepped)  # also where the start was beyond them
            if self._workspace is not None:
                action, names = self._kept(action, elapsed)  # before the rate: what it leads out of is worse
                changed += tuple(name for name in names if name not in limited_by)
        return Shaped(action, limited_by + changed)

    def brake(self, written: Array, now: float) -> Shaped:
        """Let the action that was written last (A,) stand, once it came to rest within the acceleration."""
        action, limited_by = written, ()  # type: Array, tuple[str, ...]
        speed, elapsed = self._speed_at(now), self._elapsed(now)
        if speed.any():
            still = np.zeros_like(speed)
            braking = self._acceleration.limit(still, Move(still, speed, elapsed))
            action = self._bounds.cut((written + braking).astype(np.float32))
            limited_by = named("acceleration", braking != 0.0, self._elements)
        if self._workspace is None:
            return Shaped(action, limited_by)
        kept, names = self._kept(action, elapsed)
        return Shaped(kept, limited_by + names)

    def executed(self, action: Array, now: float) -> None:
        """Learn what was executed (A,), from where the next step goes."""
        if self._workspace is not None:
            self._workspace.executed(action, self._elapsed(now))
        start = self._rest.value if self._executed is None else self._executed
        if start is not None and self._accelerates:
            self._speed = (action.astype(np.float64) - start) / self._elapsed(now)
        self._executed, self._executed_at = action, now

    def _kept(self, action: Array, elapsed: float) -> Shaped:
        assert self._workspace is not None
        kept = self._workspace.cut(action, elapsed)
        return Shaped(kept, named("workspace", kept != action, self._elements))

    def _elapsed(self, now: float) -> float:
        """Return the time [s] since the last write; at most `PAUSE_PERIODS`, so that a pause does not allow a jump."""
        if self._executed is None:
            return self._period
        return min(max(now - self._executed_at, 1e-9), PAUSE_PERIODS * self._period)

    def _speed_at(self, now: float) -> Float64:
        """Return the (A,) speed of the last step [unit/s]; none after a pause, in which the action stood still."""
        paused = now - self._executed_at > PAUSE_PERIODS * self._period * (1 + ROUNDING)
        return np.zeros_like(self._speed) if paused else self._speed
