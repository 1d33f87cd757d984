"""Shapes actions: each limit is a class, and `Limiter` applies them in a fixed order.

The target of a write is limited by 1. blend-in, 2. bounds, 3. workspace. The step towards the target is limited by
4. acceleration and gentle, 5. bounds and workspace again, because braking may overshoot, 6. rate. Rate is last, so that
no write exceeds it. A step starts at the action written last, not at the action that the adapter reports as executed.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.errors import SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits, by_element
from sami_runtime.safety.watch import ROUNDING, Neutral
from sami_runtime.signals import Signal, number_at

Array = NDArray[np.float32]
Float64 = NDArray[np.float64]
Commands = deque[tuple[float, Float64]]
"""Commands (M,), each with the time [s] from which it was in force."""


def drop_before(commands: Commands, stamp: float) -> None:
    """Remove the commands that were over at the stamp [s] of a measurement: the next one is no older."""
    while len(commands) > 1 and commands[1][0] <= stamp:
        commands.popleft()


def longest_age(limits: Limits, contract: Contract) -> float:
    """Return the age [s] beyond which no observation is accepted, so that older commands do not count any more."""
    return max(limits.max_age(contract).values()) * (1 + ROUNDING)


def way_since(commands: Commands, since: Float64 | float, now: float, period: float = 1.0) -> Float64 | float:
    """Return how far commands have led, (M,), in units of a command times the period [s]."""
    way: Float64 | float = 0.0
    for start, command in reversed(commands):
        if np.all(now <= since):
            break
        way = way + command * np.maximum(now - np.maximum(since, start), 0.0) / period
        now = min(now, start)
    return way


class Workspace:
    """Limits actions so that they do not move elements of observations out of their ranges.

    An element's position is its last new value plus the displacement of the actions executed since its stamp; a value
    that comes again with an equal stamp, as of a slow sensor, is not new. An action may move the element at most to the
    end of its range within one period of the policy; if the action's rate is limited, it must also be able to stop
    there. Outside its range, an element may move back or stand still.

    Args:
        limits: What is allowed.
        contract: Of the model that proposes.
    """

    def __init__(self, limits: Limits, contract: Contract) -> None:
        elements, moves = contract.action.elements, limits.moves_of(contract)
        movers = [name for name in elements if name in moves and moves[name].element in limits.workspace]
        self._movers = np.array([elements.index(name) for name in movers], np.intp)
        self._elements = [moves[name].element for name in movers]
        self._scale = np.array([moves[name].scale for name in movers])
        self._range = np.array([limits.workspace[element] for element in self._elements]).reshape(-1, 2)
        self._places = [_place(contract, element) for element in self._elements]
        self._period = 1.0 / contract.rate_hz
        self._longest_age = longest_age(limits, contract)
        self._change = by_element(limits.rate, contract.action, math.inf)[self._movers] * self._period
        self._positions, self._stamps = np.full((2, len(movers)), np.nan)
        self._since, self._last = np.zeros((2, len(movers)))
        self._commands = Commands()

    def __bool__(self) -> bool:
        """Whether any element is limited."""
        return len(self._movers) > 0

    def learn(self, observation: Observation, now: float | None) -> None:
        """Store finite, new positions. Without `now` [s], each is new and of now."""
        places = [(number_at(observation.values, *place), observation.measured(place[0])) for place in self._places]
        positions, stamps = np.array(places).T
        new = np.isfinite(positions) & ~((positions == self._positions) & (stamps == self._stamps) & (now is not None))
        self._positions, self._stamps = np.where(new, (positions, stamps), (self._positions, self._stamps))
        if now is None:
            self._since, self._last = np.where(new, 0.0, (self._since, self._last))
        elif self._commands and new.any():  # up to the last write, which stays in force until the next
            rest = self._last * (now - self._commands[-1][0]) / self._period
            self._since = np.where(new, way_since(self._commands, stamps, now, self._period) - rest, self._since)
        drop_before(self._commands, math.inf if now is None else self._stamps.min())

    def cut(self, action: Array, elapsed: float) -> Array:
        """Limit an action (A,), `elapsed` seconds after the last write; return the same array if nothing is limited.

        Raises:
            SamiError: No valid value of a limited element was seen yet.
        """
        if not np.isfinite(self._positions).all():
            raise SamiError(
                f"no valid value of {', '.join(self._elements)} was seen, whose workspace is limited. Pass each "
                "observation to fault() before its action to propose()."
            )
        at = self._positions + self._scale * (self._since + self._last * elapsed / self._period)
        down, up = np.maximum(at - self._range[:, 0], 0.0), np.maximum(self._range[:, 1] - at, 0.0)
        ahead, room_back = np.where(self._scale > 0, (up, down), (down, up)) / np.abs(self._scale)
        target = action[self._movers].astype(np.float64)
        allowed = target.clip(-self._slow(room_back), self._slow(ahead))
        if (allowed == target).all():
            return action
        result = action.copy()
        result[self._movers] = allowed
        return result

    def executed(self, action: Array, elapsed: float, now: float) -> None:
        """Add an action (A,) executed at `now` [s], `elapsed` seconds after the one before, to the displacement."""
        self._since = self._since + self._last * elapsed / self._period
        self._last = action[self._movers].astype(np.float64)
        self._commands.append((now, self._last))
        drop_before(self._commands, now - self._longest_age)  # here too, because a person's pause learns no positions

    def _slow(self, way: Float64) -> Float64:
        """Return the largest actions (M,) that can still be stopped within `way` (M,) [action x period]."""
        braked = np.isfinite(self._change) & np.isfinite(way)
        return np.where(braked, longest_step(np.where(braked, way, 0.0), np.where(braked, self._change, 1.0)), way)


def longest_step(way: Float64, change: Float64) -> Float64:
    """Return the longest steps (A,) after which one can still stop within some distances.

    A step s is followed by ceil(s / change) - 1 shorter ones, and together they cover s + (s - change) + ...

    Args:
        way: (A,) distances, not negative.
        change: (A,) by how much each step is shorter than the one before it; 0 allows steps of the whole distance.
    """
    steps = np.maximum(np.ceil((np.sqrt(1 + 8 * way / np.where(change > 0.0, change, np.inf)) - 1) / 2), 1)
    return way / steps + change * (steps - 1) / 2


def _place(contract: Contract, element: str) -> tuple[str, int]:
    """Return the signal of an element, and its index in it."""
    name, _, inner = element.partition(".")
    signal = next(signal for signal in contract.observation if signal.name == name)
    return name, signal.elements.index(inner)


PAUSE_PERIODS = 2
"""Longest elapsed time [periods] that a step may use: after a pause, a step is no longer than after this time."""

UNLIMITED = 1e100
"""An acceleration [unit/s^2] from here on does not limit: what braking computes from it could overflow."""

SHORTEST_PERIODS = 0.5
"""Shortest time [periods] over which a speed is measured: over almost no time, a step has no meaningful speed. The
speed of ticks that come up to half a period early is exact."""

PARKED = 0.01
"""Where no rate limits the way back, a robot may start beyond its bounds by this share of the range between them: noise
of a sensor at its bound."""


class Shaped(NamedTuple):
    """A limited action, and the limits that changed it."""

    action: Array
    """(A,)"""
    limited_by: tuple[str, ...]
    """Every limit that changed it, as `"rate dx"`; `"blend-in"` concerns all elements."""


class Move(NamedTuple):
    """The motion towards a target, from which limits compute a step."""

    way: Float64
    """(A,): from the action written last to the target, in the action's unit."""
    speed: Float64
    """(A,): of the steps written last [unit/s]; not read by `Rate`."""
    elapsed: float
    """dt, the time since the last write [s]."""


class BlendIn:
    """Blends to the policy's actions: from the neutral action, or from the last action of a person or fallback.

    Args:
        duration: Of the blending [s].
        rest: The neutral action.
    """

    def __init__(self, duration: float, rest: Neutral) -> None:
        self._duration, self._rest = duration, rest
        self._blended = 0.0
        self._origin: Array | None = None

    def begin(self, origin: Array | None = None) -> None:
        """Begin to blend from an action (A,), or from the neutral action if None, unless it has begun before.

        Raises:
            SamiError: The neutral action is needed, but not known yet.
        """
        if self._origin is None and self._blended < self._duration:
            self._origin = self._rest.require() if origin is None else origin

    def reset(self) -> None:
        """Stop blending, until `begin` is called again."""
        self._origin, self._blended = None, 0.0

    def limit(self, action: Array, elapsed: float) -> Shaped:
        """Mix an action (A,) with the initial one; `elapsed` is the time [s] since the last write, at first 0."""
        if self._origin is None or self._blended >= self._duration:
            return Shaped(action, ())
        self._blended += elapsed
        share = self._blended / self._duration
        if share >= 1.0 - ROUNDING:
            return Shaped(action, ())
        mixed = (self._origin + share * (action - self._origin)).astype(np.float32)
        return Shaped(mixed, ("blend-in",))


class Bounds:
    """Clips actions to the bounds.

    Args:
        low: (A,) lowest values, in the action's unit.
        high: (A,) highest values, in the action's unit.
        elements: Names of the elements.
    """

    def __init__(self, low: Array, high: Array, elements: tuple[str, ...]) -> None:
        self._low, self._high, self._elements = low, high, elements

    def limit(self, action: Array) -> Shaped:
        """Clip an action (A,) to the bounds, and name the clipped elements."""
        bounded = self.cut(action)
        if bounded.tobytes() == action.tobytes():  # half the time of comparing short arrays
            return Shaped(bounded, ())
        return Shaped(bounded, limit_names("bounds", bounded != action, self._elements))

    def cut(self, action: Array) -> Array:
        """Clip an action (A,) to the bounds."""
        return action.clip(self._low, self._high)

    def cut_step(self, action: Array, start: Float64) -> Array:
        """Clip an action (A,) to the bounds; elements that start (A,) beyond them may stay there or move back."""
        result = self.cut(action)
        if result.tobytes() == action.tobytes():
            return action
        return action.clip(np.minimum(self._low, start), np.maximum(self._high, start)).astype(np.float32)

    def far_out(self, start: Array) -> NDArray[np.bool_]:
        """Return a mask (A,) of the elements of a start (A,) that are beyond the bounds by more than sensor noise."""
        noise = PARKED * (self._high.astype(np.float64) - self._low)
        noise[~np.isfinite(noise)] = 0.0
        return (start < self._low - noise) | (start > self._high + noise)

    def range(self, at: int) -> str:
        """Return the bounds of one element as text."""
        return f"{self._low[at]:g} to {self._high[at]:g}"


class Rate:
    """Limits how fast an action changes.

    Args:
        rate: (A,) [unit/s]; infinite for elements without a limit.
    """

    def __init__(self, rate: Float64) -> None:
        limited = np.isfinite(rate)
        self._rate = np.where(limited, rate, 0.0)
        self._free = np.where(limited, 0.0, np.inf)  # added later, because inf * 0 s would be NaN

    def limit(self, step: Float64, move: Move) -> Float64:
        """Return the part of a step (A,) that the rate allows; bit-equal to the step where it allows all of it."""
        longest = self._rate * move.elapsed + self._free
        return step.clip(-longest, longest)

    def ease(self, step: Float64, move: Move, share: float, braking: Float64) -> Float64:
        """Return the part of a step (A,) that a share of the rate allows, but at least the hardest `braking` (A,).

        That may exceed the full rate, so apply `limit` afterwards.
        """
        longest = np.maximum(share * self._rate * move.elapsed + self._free, braking)
        return step.clip(-longest, longest)


class Acceleration:
    """Limits how fast an action's rate changes, and keeps the rate low enough to stop at the target.

    A step is no longer than `longest_step`, so that it does not overshoot a constant target if dt is constant; if dt
    varies, the overshoot is small.

    Args:
        acceleration: (A,) [unit/s^2]; infinite for elements without a limit.
    """

    def __init__(self, acceleration: Float64) -> None:
        self._limited = acceleration < UNLIMITED
        self._acceleration = np.where(self._limited, acceleration, 0.0)

    def limit(self, step: Float64, move: Move) -> Float64:
        """Return the part of a step (A,) that it allows; bit-equal to the step where it allows all of it."""
        change = self._acceleration * move.elapsed
        longest = longest_step(np.abs(move.way), change * move.elapsed)
        slowest, fastest = (move.speed - change) * move.elapsed, (move.speed + change) * move.elapsed
        return np.where(self._limited, step.clip(-longest, longest).clip(slowest, fastest), step)

    def braking(self, move: Move) -> Float64:
        """Return the length (A,) of the step that brakes as hard as allowed; 0 for elements without a limit."""
        slowest = (np.abs(move.speed) - self._acceleration * move.elapsed) * move.elapsed
        return np.where(self._limited, np.maximum(slowest, 0.0), 0.0)


def limit_names(limit: str, where: NDArray[np.bool_], elements: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the elements in a mask (A,), each after the limit's name, as `"rate dx"`."""
    if 1 not in where.tobytes():  # a tenth of the time of any() on short arrays
        return ()
    return tuple([f"{limit} {element}" for element, flag in zip(elements, where.tolist(), strict=True) if flag])


def rounded_down(start: Float64, step: Float64) -> Array:
    """Return start (A,), itself a float32, plus step (A,) in float32; no element moves further than its step.

    An element stands still if its step is smaller than the distance to the next float32, which is 0.008 at 1e5.
    """
    exact = start + step
    end = exact.astype(np.float32)
    towards = np.nextafter(end, start.astype(np.float32))
    return np.where(np.abs(end - start) > np.abs(step), towards, end)


class Limiter:
    """Applies every limit to the actions of an episode, and tracks the last write and its speed.

    Args:
        limits: What is allowed.
        action: The action's signal.
        rest: The neutral action, from which the first step starts.
        period: Nominal time between two ticks [s].
        workspace: Limits on positions of observed elements.
    """

    def __init__(self, limits: Limits, action: Signal, rest: Neutral, period: float, workspace: Workspace) -> None:
        self._workspace = workspace if workspace else None
        self._elements, self._rest, self._period = action.elements, rest, period
        self._bounds = Bounds(*limits.bounds(action), action.elements)
        self.blend_in = BlendIn(limits.blend_in_s, rest)
        rate = by_element(limits.rate, action, math.inf)
        acceleration = by_element(limits.acceleration, action, math.inf)
        self._acceleration = Acceleration(acceleration)
        self._accelerates = bool((acceleration < UNLIMITED).any())
        self._free = ~(np.isfinite(rate) | (acceleration < UNLIMITED))
        # Limits that are not set are skipped, because a loop may run at 1 kHz.
        self._blends = bool(limits.blend_in_s)
        self._rate = Rate(rate) if np.isfinite(rate).any() else None
        self.gentle = 1.0
        """Share of the rate limit that is allowed now."""
        self._last_write: Array | None = None
        self._written_at = 0.0
        self._speed = np.zeros(action.size)

    def shape(self, target: Array, now: float) -> Shaped:
        """Return the action (A,) to write next on the way to a target (A,); the target itself if all limits allow it.

        Raises:
            SamiError: The neutral action or a workspace position is needed, but not known yet; or the robot starts
                beyond the bounds, and neither a rate nor an acceleration limits its way back.
        """
        if self._last_write is None:
            self._require_start()
        action, limited_by = target, ()  # type: Array, tuple[str, ...]
        if self._blends:
            action, limited_by = self.blend_in.limit(action, 0.0 if self._last_write is None else self._elapsed(now))
        action, names = self._bounds.limit(action)
        action, more = self._cut_to_workspace(action, now)
        return self._step(action, limited_by + names + more, now)

    def brake(self, action: Array, now: float) -> Shaped:
        """Return the action (A,) to write next in order to hold `action` (A,), braking within the acceleration."""
        return self._step(*self._cut_to_workspace(action, now), now)

    def record_write(self, action: Array, now: float) -> float:
        """Store the action (A,) being written, from which the next step starts; return the time [s] since the last."""
        elapsed, in_force = self._elapsed(now), self._in_force(now)
        if self._accelerates:
            start = self._rest.value if self._last_write is None else self._last_write
            if start is not None:
                least = SHORTEST_PERIODS * self._period
                step = action.astype(np.float64) - start
                if elapsed < least:  # the earlier speed counts for the remaining time
                    step += self._speed_at(now) * (least - elapsed)
                self._speed = step / max(elapsed, least)
        self._last_write, self._written_at = action, now
        return in_force

    def _step(self, target: Array, limited_by: tuple[str, ...], now: float) -> Shaped:
        """Return the action as far towards a target (A,) as one write may go."""
        if self._rate is None and not self._accelerates:
            return Shaped(target, limited_by)
        start = (self._rest.require() if self._last_write is None else self._last_write).astype(np.float64)
        way = target - start
        move = Move(way, self._speed_at(now), self._elapsed(now))
        step, names = way, ()  # type: Float64, tuple[str, ...]
        if self._accelerates:
            step = self._acceleration.limit(way, move)
            names = limit_names("acceleration", step != way, self._elements)
        if self._rate is not None and self.gentle < 1.0:
            eased_step, step = step, self._rate.ease(step, move, self.gentle, self._acceleration.braking(move))
            names += limit_names("gentle", step != eased_step, self._elements)
        if names and self._workspace is not None:  # it brakes by the full rate, harder than a gentle one
            eased = self._bounds.cut_step((start + step).astype(np.float32), start)
            inside, more = self._cut_to_workspace(eased, now)
            step = np.where(inside != eased, inside - start, step)
            names += tuple(name for name in more if name not in limited_by)
        if self._rate is not None:
            eased_step, step = step, self._rate.limit(step, move)
            names += limit_names("rate", step != eased_step, self._elements)
        if not names:
            return Shaped(target, limited_by)
        mask = step != way
        action = rounded_down(start, step)
        if 0 in mask.tobytes():
            action = np.where(mask, action, target)
        if self._accelerates:  # without it, a step ends between its start and a target within the bounds
            action = self._bounds.cut_step(action, start)
        return Shaped(action, limited_by + names)

    def _require_start(self) -> None:
        """Raise if the robot starts beyond the bounds and only a single jump, which no limit slows, would lead back."""
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

    def _cut_to_workspace(self, action: Array, now: float) -> Shaped:
        if self._workspace is None:
            return Shaped(action, ())
        inside = self._workspace.cut(action, self._in_force(now))
        return Shaped(inside, limit_names("workspace", inside != action, self._elements))

    def _elapsed(self, now: float) -> float:
        """Return the time [s] that a step may use: at most `PAUSE_PERIODS`, so that a pause does not allow a jump."""
        return min(self._in_force(now), PAUSE_PERIODS * self._period)

    def _in_force(self, now: float) -> float:
        """Return the time [s] since the last write; one period before the first write, 0 if the clock went back."""
        return self._period if self._last_write is None else max(now - self._written_at, 0.0)

    def _speed_at(self, now: float) -> Float64:
        """Return the speed (A,) of the steps written last [unit/s]; 0 after a pause, because the action stood still."""
        paused = now - self._written_at > PAUSE_PERIODS * self._period * (1 + ROUNDING)
        return np.zeros_like(self._speed) if paused else self._speed
