"""Shapes actions: one class a limit, one method each, and `Limiter`, which applies them in one order.

What is aimed at: 1. blend-in, 2. bounds, 3. workspace. How far this write goes there: 4. acceleration, 5. bounds and
workspace once more, because braking may lead beyond the target, 6. rate. Rate is last: nothing changes a step after it.
A step goes from what was written last, whatever the adapter reports that it executed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.errors import SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits, by_element
from sami_runtime.safety.watch import ROUNDING, Rest
from sami_runtime.signals import Signal, number_at

Array = NDArray[np.float32]
Float64 = NDArray[np.float64]


class Workspace:
    """Elements of observations stay in their ranges, as far as it is known how the actions move them.

    Where an element is, is what the last good observation said, and on from there what was executed since. An action is
    allowed to move it as far as the end of its range within one period of the policy, and where the action's rate is
    limited, no faster than it can still come to rest there. Outside, it may move back or stand still.

    Args:
        limits: What is allowed.
        contract: Of the model that proposes.
    """

    def __init__(self, limits: Limits, contract: Contract) -> None:
        elements, moved = contract.action.elements, limits.moved(contract)
        movers = [name for name in elements if name in moved and moved[name].element in limits.workspace]
        self._movers = np.array([elements.index(name) for name in movers], np.intp)
        self._elements = [moved[name].element for name in movers]
        self._scale = np.array([moved[name].scale for name in movers])
        self._range = np.array([limits.workspace[element] for element in self._elements]).reshape(-1, 2)
        self._places = [_place(contract, element) for element in self._elements]
        self._period = 1.0 / contract.rate_hz
        self._change = by_element(limits.rate, contract.action, math.inf)[self._movers] * self._period
        self._seen: Float64 | None = None
        self._since, self._last = (np.zeros(len(movers), np.float64) for _ in range(2))

    def __bool__(self) -> bool:
        """Whether there is anything to keep."""
        return len(self._movers) > 0

    def learn(self, observation: Observation) -> None:
        """Take over where the elements are; those that are missing or not finite go on as they were moved."""
        positions = np.array([number_at(observation.values, *place) for place in self._places])
        good = np.isfinite(positions)
        self._seen = np.where(good, positions, np.nan if self._seen is None else self._seen)
        self._since, self._last = np.where(good, 0.0, self._since), np.where(good, 0.0, self._last)

    def cut(self, action: Array, elapsed: float) -> Array:
        """Limit an action (A,), `elapsed` seconds after the last write; one that leads nowhere out is not touched.

        Raises:
            SamiError: It is not known where an element is.
        """
        if self._seen is None or not np.isfinite(self._seen).all():
            raise SamiError(
                f"no good value of {', '.join(self._elements)} was seen, whose workspace is limited. Give each "
                "observation to fault() before its action to propose()."
            )
        at = self._seen + self._scale * (self._since + self._last * elapsed / self._period)
        down, up = np.maximum(at - self._range[:, 0], 0.0), np.maximum(self._range[:, 1] - at, 0.0)
        ahead = np.where(self._scale > 0, up, down) / np.abs(self._scale)
        behind = np.where(self._scale > 0, down, up) / np.abs(self._scale)
        target = action[self._movers].astype(np.float64)
        allowed = target.clip(-self._slow(behind), self._slow(ahead))
        if (allowed == target).all():
            return action
        cut = action.copy()
        cut[self._movers] = allowed
        return cut

    def executed(self, action: Array, elapsed: float) -> None:
        """Learn what was executed (A,), `elapsed` seconds after what was executed before it."""
        self._since = self._since + self._last * elapsed / self._period
        self._last = action[self._movers].astype(np.float64)

    def _slow(self, way: Float64) -> Float64:
        """Return the largest action from which the rate still allows coming to rest within a way.

        The way is told in actions of one period. From an action a it takes n = ceil(a / c) periods in which it falls by
        c each: a + (a - c) + ... = n a - c n (n - 1) / 2.
        """
        braked = np.isfinite(self._change) & np.isfinite(way)
        change, rest = np.where(braked, self._change, 1.0), np.where(braked, way, 0.0)
        periods = np.maximum(np.ceil((np.sqrt(1 + 8 * rest / change) - 1) / 2), 1)
        return np.where(braked, rest / periods + change * (periods - 1) / 2, way)


def _place(contract: Contract, element: str) -> tuple[str, int]:
    """Return the signal of an element, and its index in it."""
    name, _, inner = element.partition(".")
    signal = next(signal for signal in contract.observation if signal.name == name)
    return name, signal.elements.index(inner)


PAUSE_PERIODS = 2
"""Periods after which a tick counts as one after a pause: it allows no more than these."""

UNLIMITED = 1e100
"""An acceleration [unit/s^2] from which on nothing is limited: its square, in which a step is eased, has no number."""

SHORTEST_PERIODS = 0.5
"""Periods that a speed is measured over, at least: a step right after another one, over next to no time, has no speed
of its own. Ticks that come by up to half a period early are measured exactly."""

PARKED = 0.01
"""Share of the range between the bounds by which a robot may be parked beyond them where no rate leads it back: noise
of a sensor at its bound."""


class Shaped(NamedTuple):
    """An action, and what made it one."""

    action: Array
    """(A,)"""
    limited_by: tuple[str, ...]
    """Every limit that changed it, as `"rate dx"`; `"blend-in"` concerns all elements."""


class Move(NamedTuple):
    """What a step is a part of."""

    way: Float64
    """(A,): from the action written last to the target, in the action's unit."""
    speed: Float64
    """(A,): of the steps written last [unit/s]; not read by `Rate`."""
    elapsed: float
    """dt, the time since the last write [s]."""


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
        """Mix an action with the one that it went out from, by the time [s] since the last write (0: none yet)."""
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

    def limit(self, action: Array) -> Shaped:
        """Cut an action at the bounds, and name where."""
        bounded = self.cut(action)
        if bounded.tobytes() == action.tobytes():  # half the time of comparing short arrays
            return Shaped(bounded, ())
        return Shaped(bounded, named("bounds", bounded != action, self._elements))

    def cut(self, action: Array) -> Array:
        """Cut an action at the bounds."""
        return action.clip(self._low, self._high)

    def cut_step(self, action: Array, start: Float64) -> Array:
        """Cut an action (A,) at the bounds, and one that starts (A,) beyond them where it would lead further out."""
        cut = self.cut(action)
        if cut.tobytes() == action.tobytes():
            return action
        return action.clip(np.minimum(self._low, start), np.maximum(self._high, start)).astype(np.float32)

    def far_out(self, start: Array) -> NDArray[np.bool_]:
        """Return where (A,) a start (A,) is beyond the bounds by more than a sensor's noise."""
        noise = PARKED * (self._high.astype(np.float64) - self._low)
        noise[~np.isfinite(noise)] = 0.0
        return (start < self._low - noise) | (start > self._high + noise)

    def range(self, at: int) -> str:
        """Return the bounds of one element, for people."""
        return f"{self._low[at]:g} to {self._high[at]:g}"


class Rate:
    """An action changes at most so fast.

    Args:
        rate: (A,) [unit/s]; infinite where there is no limit.
    """

    def __init__(self, rate: Float64) -> None:
        limited = np.isfinite(rate)
        self._rate = np.where(limited, rate, 0.0)
        self._free = np.where(limited, 0.0, np.inf)  # infinity times no time is not a number

    def limit(self, step: Float64, move: Move) -> Float64:
        """Return as much of a step (A,) as the rate allows; equal to it, to the last bit, where it allows all."""
        longest = self._rate * move.elapsed + self._free
        return step.clip(-longest, longest)

    def ease(self, step: Float64, move: Move, share: float, braking: Float64) -> Float64:
        """Return as much of a step (A,) as a share of the rate allows, or braking: (A,) its length where it is hardest.

        It is no more than `limit` allows once that has cut it, too.
        """
        longest = np.maximum(share * self._rate * move.elapsed + self._free, braking)
        return step.clip(-longest, longest)


class Acceleration:
    """An action's rate changes at most so fast, and the action can still come to rest at its target.

    The speed from which the rest of the way allows braking, v^2 / (2 a) + v dt / 2 = |way|, keeps the action from
    overshooting a target that stands still, where dt stays the same; where it varies, it overshoots by little.

    Args:
        acceleration: (A,) [unit/s^2]; infinite where there is no limit.
    """

    def __init__(self, acceleration: Float64) -> None:
        self._limited = acceleration < UNLIMITED
        self._acceleration = np.where(self._limited, acceleration, 0.0)

    def limit(self, step: Float64, move: Move) -> Float64:
        """Return as much of a step (A,) as it allows; equal to the step, to the last bit, where it allows all."""
        change = self._acceleration * move.elapsed
        brake = np.sqrt((change / 2) ** 2 + 2 * self._acceleration * np.abs(move.way)) - change / 2
        longest = brake * move.elapsed
        slowest, fastest = (move.speed - change) * move.elapsed, (move.speed + change) * move.elapsed
        return np.where(self._limited, step.clip(-longest, longest).clip(slowest, fastest), step)

    def braking(self, move: Move) -> Float64:
        """Return the length of the step (A,) that brakes as hard as may be; 0 where nothing limits braking."""
        slowest = (np.abs(move.speed) - self._acceleration * move.elapsed) * move.elapsed
        return np.where(self._limited, np.maximum(slowest, 0.0), 0.0)


def named(limit: str, where: NDArray[np.bool_], elements: tuple[str, ...]) -> tuple[str, ...]:
    """Return the elements that a limit changed, each as `"rate dx"`."""
    if 1 not in where.tobytes():  # a tenth of the time of any() on short arrays
        return ()
    return tuple([f"{limit} {element}" for element, changed in zip(elements, where.tolist(), strict=True) if changed])


def rounded_down(start: Float64, step: Float64) -> Array:
    """Return where a step (A,) leads from a start (A,), itself a float32, in float32 and never further than the step.

    An element whose step is smaller than the distance to the next float32 stands still: at 1e5, that is 0.008.
    """
    exact = start + step
    end = exact.astype(np.float32)
    towards = np.nextafter(end, start.astype(np.float32))
    return np.where(np.abs(end - start) > np.abs(step), towards, end)


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
        self._free = ~(np.isfinite(rate) | (acceleration < UNLIMITED))
        # What limits nothing is left out, because a loop may run a thousand times a second.
        self._blends = bool(limits.blend_in_s)
        self._rate = Rate(rate) if np.isfinite(rate).any() else None
        self.gentle = 1.0
        """Share of the rate that is allowed."""
        self._written: Array | None = None
        self._written_at = 0.0
        self._speed = np.zeros(action.size)

    def shape(self, target: Array, now: float) -> Shaped:
        """Shape an action that goes to a target (A,): one within all limits is not touched.

        Raises:
            SamiError: A step has nothing to start from, because rest is not known yet; or it starts beyond the bounds,
                and neither a rate nor an acceleration is set that leads it back.
        """
        if self._written is None:
            self._require_start()
        elapsed = self._elapsed(now)
        action, limited_by = target, ()  # type: Array, tuple[str, ...]
        if self._blends:
            action, limited_by = self.blend_in.limit(action, 0.0 if self._written is None else elapsed)
        action, names = self._bounds.limit(action)
        limited_by += names
        if self._workspace is not None:
            action, names = self._cut_to_workspace(action, elapsed)
            limited_by += names
        return self._step(action, limited_by, now)

    def brake(self, written: Array, now: float) -> Shaped:
        """Let the action that was written last (A,) stand, once it came to rest within the acceleration."""
        if self._workspace is None:
            return self._step(written, (), now)
        return self._step(*self._cut_to_workspace(written, self._elapsed(now)), now)

    def record_write(self, action: Array, now: float) -> float:
        """Learn what is written (A,), from where the next step goes; return the time [s] since the write before."""
        elapsed = self._elapsed(now)
        if self._accelerates:
            start = self._rest.value if self._written is None else self._written
            if start is not None:
                least = SHORTEST_PERIODS * self._period
                step = action.astype(np.float64) - start
                if elapsed < least:  # the speed before it fills up the rest
                    step += self._speed_at(now) * (least - elapsed)
                self._speed = step / max(elapsed, least)
        self._written, self._written_at = action, now
        return elapsed

    def executed(self, action: Array, elapsed: float) -> None:
        """Learn what the adapter reports as executed (A,), so long after the write before it [s].

        Only the workspace uses it: for where the robot is.
        """
        if self._workspace is not None:
            self._workspace.executed(action, elapsed)

    def _step(self, target: Array, limited_by: tuple[str, ...], now: float) -> Shaped:
        """Go as far towards a target (A,) as one write may."""
        if self._rate is None and not self._accelerates:
            return Shaped(target, limited_by)
        start = (self._rest.require() if self._written is None else self._written).astype(np.float64)
        way = target - start
        move = Move(way, self._speed_at(now), self._elapsed(now))
        step, names = way, ()  # type: Float64, tuple[str, ...]
        if self._accelerates:
            step = self._acceleration.limit(way, move)
            names = named("acceleration", step != way, self._elements)
            if names and self._workspace is not None:
                eased = self._bounds.cut_step((start + step).astype(np.float32), start)
                inside, more = self._cut_to_workspace(eased, move.elapsed)
                step = np.where(inside != eased, inside - start, step)
                names += tuple(name for name in more if name not in limited_by)
        if self._rate is not None:
            if self.gentle < 1.0:
                eased_step, step = step, self._rate.ease(step, move, self.gentle, self._acceleration.braking(move))
                names += named("gentle", step != eased_step, self._elements)
            eased_step, step = step, self._rate.limit(step, move)
            names += named("rate", step != eased_step, self._elements)
        if not names:
            return Shaped(target, limited_by)
        cut = step != way
        action = rounded_down(start, step)
        if 0 in cut.tobytes():
            action = np.where(cut, action, target)
        if self._accelerates:  # else a step ends between its start and a target within the bounds
            action = self._bounds.cut_step(action, start)
        return Shaped(action, limited_by + names)

    def _require_start(self) -> None:
        """Refuse to begin beyond the bounds where nothing leads back but one jump."""
        start = self._rest.value
        if start is None:
            return
        jumps = self._free & self._bounds.far_out(start)
        if jumps.any():
            at = int(np.flatnonzero(jumps)[0])
            raise SamiError(
                f"the robot starts beyond the bounds: {self._elements[at]} is {start[at]:g} at rest, allowed are "
                f"{self._bounds.range(at)}, and without a rate the first action would jump there. Set rate, move the "
                "robot to within the bounds, or correct low and high."
            )

    def _cut_to_workspace(self, action: Array, elapsed: float) -> Shaped:
        assert self._workspace is not None
        inside = self._workspace.cut(action, elapsed)
        return Shaped(inside, named("workspace", inside != action, self._elements))

    def _elapsed(self, now: float) -> float:
        """Return the time [s] since the last write: one period before the first, none where the clock went back.

        It is at most `PAUSE_PERIODS`, so that a pause does not allow a jump.
        """
        if self._written is None:
            return self._period
        return min(max(now - self._written_at, 0.0), PAUSE_PERIODS * self._period)

    def _speed_at(self, now: float) -> Float64:
        """Return the (A,) speed of the steps written last [unit/s]; none after a pause, in which the action stood."""
        paused = now - self._written_at > PAUSE_PERIODS * self._period * (1 + ROUNDING)
        return np.zeros_like(self._speed) if paused else self._speed
