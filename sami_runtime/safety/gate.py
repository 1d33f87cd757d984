"""The safety gate: the only one that writes to an adapter. A policy proposes; the gate limits, holds, or stops."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Executed, Observation, require_executed
from sami_runtime.errors import SafetyStop, SamiError
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limiter import ease
from sami_runtime.safety.limits import Limits, by_element
from sami_runtime.values import all_finite, require_finite

Array = NDArray[np.float32]
Float64 = NDArray[np.float64]

PAUSE_PERIODS = 2
"""Periods after which a tick counts as one after a pause: it allows no more than these."""
ROUNDING = 1e-6
"""Share of a time that is rounding: three periods are not older than three periods."""


class Ruling(NamedTuple):
    """What the gate lets through at one tick."""

    action: Array | None
    """(A,), or None: nothing is written, because no action has been executed yet that could stand, or to stop."""
    limited_by: tuple[str, ...]
    """Every limit that changed the proposal, as `"rate dx"`; `"blend-in"`, `"rest"`, `"stop"` concern all elements."""
    time: float
    """When it was ruled [s]."""


@dataclass
class _Memory:
    """What a gate knows of an episode."""

    speed: Float64
    """(A,): of the last step [unit/s]."""
    rest: Array | None
    """(A,): the action that moves nothing, where one is known."""
    trips: int
    """How often the gate had tripped when the episode began."""
    target: Array | None = None
    """(A,): what the action is on its way to; None while the last one is held."""
    written: Array | None = None
    """(A,): written last, which stands while it is held."""
    executed: Array | None = None
    """(A,): executed last, from where the next step is limited."""
    executed_at: float = 0.0
    """When that was ruled [s]."""
    origin: Array | None = None
    """(A,): the rest that is blended from, as it was when that began."""
    blended: float = 0.0
    """For how long the policy's actions have been blended in [s]."""
    measured: float = -math.inf
    """When the newest observation was measured [s]."""
    held: int = 0
    """Ticks of the policy without a new action, in a row."""
    repeats: dict[str, tuple[bytes | None, int]] = field(default_factory=dict)
    """By signal: its last value, and how often it came in a row."""


class SafetyGate:
    """Judges observations and actions, and owns the write.

    At each tick a loop asks for one ruling (`propose`, `stand` or `hold`) and has it written by `write`. A gate that
    tripped stays latched over all episodes, and refuses to begin another, until somebody calls `rearm`.

    Args:
        adapter: What is written to; nothing else may write to it while the gate is in use.
        contract: Of the model that proposes.
        limits: What is allowed.

    Raises:
        SamiError: The limits do not fit the model's signals.
    """

    def __init__(self, adapter: Adapter, contract: Contract, limits: Limits | None = None) -> None:
        self.adapter = adapter
        self.limits = limits or Limits()
        self.limits.require_fit(contract)
        self.tripped: str | None = None
        """Why the gate is latched; None while it is armed."""
        self._trips, self._why = 0, ""
        self._action = contract.action
        self._max_age = self.limits.max_age(contract)
        self._low, self._high = self.limits.bounds(self._action)
        self._rate = by_element(self.limits.rate, self._action, math.inf)
        self._acceleration = by_element(self.limits.acceleration, self._action, math.inf)
        self._eases = bool(np.isfinite([self._rate, self._acceleration]).any())
        self._period = 1.0 / contract.rate_hz
        self._memory = self._fresh()

    def begin(self, period: float) -> None:
        """Begins an episode: nothing has been executed in it.

        Args:
            period: Nominal time between two ticks [s].

        Raises:
            SafetyStop: The gate tripped and was not re-armed.
        """
        self._memory.trips = self._trips
        self.require_armed()
        self._period = period
        self._memory = self._fresh()

    def trip(self, reason: str) -> None:
        """Latches the gate, also from another thread: it writes nothing more, and the loop stops the robot."""
        if self.tripped is None:  # what came first is why
            self.tripped = self._why = reason
        self._trips += 1

    def require_armed(self) -> None:
        """Does nothing while the gate is armed.

        Raises:
            SafetyStop: It tripped, in this episode or before; re-armed, it waits for the next one to begin.
        """
        if self.tripped is not None or self._memory.trips != self._trips:
            raise SafetyStop(f"{self._why}. The robot is stopped; nothing is written until the gate is re-armed.")

    def rearm(self) -> None:
        """Lets a tripped gate begin another episode. For a person to call, or on a person's behalf."""
        self.tripped = None

    def fault(self, observation: Observation, now: float | None) -> str | None:
        """Why an observation must not be acted on, its kind first; None if it may be.

        Args:
            observation: What was read.
            now: The time [s] on the clock that stamps the observations; None if there is none in common.
        """
        # Written so that a time that is NaN counts as too old, and so does one that lies ahead.
        if now is not None and not abs(age := now - observation.time) <= self._max_age * (1 + ROUNDING):
            when = f"{-age:.3g} s after" if age < 0 else f"{age:.3g} s before"
            return (
                f"age: the observation was measured {when} now by the loop's clock, allowed are {self._max_age:.3g} s "
                "(max_age_s)"
            )
        if now is not None and observation.time < self._memory.measured:
            return (
                f"order: the observation was measured {self._memory.measured - observation.time:.3g} s before one that "
                "came earlier"
            )
        self._memory.measured = observation.time
        for name, most in self.limits.frozen.items():
            seen = np.asarray(observation.values[name]).tobytes() if name in observation.values else None
            last, count = self._memory.repeats.get(name, (None, 0))
            count = count + 1 if seen is not None and seen == last else 1
            self._memory.repeats[name] = (seen, count)
            if count >= most:
                return f"frozen: {name} had the same value {count} times, allowed are {most - 1} (frozen.{name})"
        if isinstance(self.limits.rest, str):
            rest = np.array(observation.values.get(self.limits.rest, math.nan), np.float32).reshape(-1)
            if rest.shape == self._low.shape and all_finite(rest):
                self._memory.rest = rest
        return None

    def propose(self, action: Array, now: float) -> Ruling:
        """Rules on a new action (A,).

        Raises:
            NonFiniteError: It is not finite; hold instead. Nothing was changed.
            SamiError: Limits need a rest to start from, and no good value of its signal was seen yet.
        """
        if not all_finite(action):
            require_finite(action[None], self._action.name, self._action.elements, "action", "It is never clamped.")
        memory = self._memory
        memory.held = 0
        if memory.origin is None and memory.blended < self.limits.blend_in_s:
            memory.origin = self._known_rest()
        memory.target = np.array(action, np.float32)
        return self._limited(memory.target, now, ())

    def stand(self, now: float) -> Ruling:
        """Rules on a tick between two of the policy's: its last action stands, on its way there if limits delay it."""
        if self._memory.target is None:
            return self._standing(now)
        return self._limited(self._memory.target, now, ())

    def hold(self, reason: str, now: float, ticks: int = 1) -> Ruling:
        """Rules on a tick at which there is no new action: the last one stands, then it falls back to rest.

        At the last of too many in a row the gate trips, and nothing is to be written.

        Args:
            reason: Why there is none.
            now: The time [s].
            ticks: For how many ticks of the policy there was none, those that passed without a turn included.
        """
        memory = self._memory
        memory.held += ticks
        if memory.held >= self.limits.stop_after:
            self.trip(f"no new action at {memory.held} ticks in a row (stop_after), lastly: {reason.rstrip('.')}")
            return Ruling(None, ("stop",), now)
        memory.target = None
        if memory.written is None or memory.held <= self.limits.hold_ticks or memory.rest is None:
            return self._standing(now)
        memory.target, memory.origin, memory.blended = memory.rest, None, 0.0  # from rest, it blends in anew
        return self._limited(memory.rest, now, ("rest",))

    def write(self, ruling: Ruling) -> Executed | None:
        """Writes what was ruled, and remembers what was executed. None if the ruling is to write nothing.

        Raises:
            SafetyStop: The gate is latched.
            SignalError: What the adapter says it executed is not finite.
        """
        if ruling.action is None:
            return None
        self.require_armed()
        sent = require_executed(self.adapter.write(ruling.action.copy()), self.adapter)
        executed = np.array(sent.action, np.float32)
        if executed.shape != ruling.action.shape:
            raise SamiError(
                f"{type(self.adapter).__name__} says it executed an action of shape {executed.shape}, expected "
                f"{ruling.action.shape}. Correct what its write() returns."
            )
        if not all_finite(executed):
            blame = "The adapter's write() returned it as executed."
            require_finite(executed[None], self._action.name, self._action.elements, "executed", blame)
        if (start := self._start()) is not None:
            self._memory.speed = (executed.astype(np.float64) - start) / self._elapsed(ruling.time)
        self._memory.written = ruling.action
        self._memory.executed, self._memory.executed_at = executed, ruling.time
        return sent

    def changed(self, ruling: Ruling, sent: Executed | None) -> tuple[str, ...]:
        """Every limit between proposal and execution: the gate's, and `"adapter dx"` where the adapter had its own."""
        if ruling.action is None:
            return ruling.limited_by
        if sent is None:
            return (*ruling.limited_by, "stop")
        executed = np.asarray(sent.action, np.float32)
        return (*ruling.limited_by, *self._named("adapter", executed != ruling.action))

    def _fresh(self) -> _Memory:
        given = self.limits.rest
        known = None if given is None or isinstance(given, str) else by_element(given, self._action, 0.0)
        rest = None if known is None else known.astype(np.float32)
        return _Memory(np.zeros(self._action.size), rest, self._trips)

    def _start(self) -> Array | None:
        """(A,) from where the next step goes."""
        return self._memory.rest if self._memory.executed is None else self._memory.executed

    def _elapsed(self, now: float) -> float:
        """Time [s] since the last write; at most `PAUSE_PERIODS`, so that a pause does not allow a jump."""
        if self._memory.executed is None:
            return self._period
        return min(max(now - self._memory.executed_at, 1e-9), PAUSE_PERIODS * self._period)

    def _speed(self, now: float) -> Float64:
        """(A,) speed of the last step [unit/s]; none after a pause, in which the action stood still."""
        paused = now - self._memory.executed_at > PAUSE_PERIODS * self._period * (1 + ROUNDING)
        return np.zeros_like(self._memory.speed) if paused else self._memory.speed

    def _known_rest(self) -> Array:
        if self._memory.rest is None:
            raise SamiError(
                f"no good value of the signal {self.limits.rest!r} was seen, which is the rest to start from. "
                "Give each observation to fault() before its action to propose()."
            )
        return self._memory.rest

    def _standing(self, now: float) -> Ruling:
        """The action written last stands, once it came to rest within the acceleration."""
        memory = self._memory
        if memory.written is None or not self._speed(now).any():
            return Ruling(memory.written, (), now)
        still = np.zeros_like(memory.speed)
        _, braking = ease(still, self._speed(now), self._elapsed(now), self._rate, self._acceleration)
        action = np.clip((memory.written + braking).astype(np.float32), self._low, self._high)
        return Ruling(action, self._named("acceleration", braking != 0.0), now)

    def _limited(self, target: Array, now: float, limited_by: tuple[str, ...]) -> Ruling:
        """Blend-in, bounds, then rate and acceleration. An action within all of them is not touched."""
        action, memory = target, self._memory
        if memory.origin is not None and memory.blended < self.limits.blend_in_s:
            memory.blended += 0.0 if memory.executed is None else self._elapsed(now)
            share = memory.blended / self.limits.blend_in_s
            if share < 1.0 - ROUNDING:
                action = (memory.origin + share * (action - memory.origin)).astype(np.float32)
                limited_by += ("blend-in",)
        bounded = np.clip(action, self._low, self._high)
        limited_by += self._named("bounds", bounded != action)
        if not self._eases:
            return Ruling(bounded, limited_by, now)
        start = self._known_rest() if memory.executed is None else memory.executed
        step = bounded.astype(np.float64) - start
        elapsed = self._elapsed(now)
        by_rate, by_both = ease(step, self._speed(now), elapsed, self._rate, self._acceleration)
        eased = np.where(by_both != step, (start + by_both).astype(np.float32), bounded)
        limited_by += self._named("rate", by_rate != step) + self._named("acceleration", by_both != by_rate)
        return Ruling(np.clip(eased, self._low, self._high), limited_by, now)

    def _named(self, limit: str, where: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(f"{limit} {self._action.elements[at]}" for at in np.flatnonzero(where)) if where.any() else ()
