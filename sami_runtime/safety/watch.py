"""Judges the stamps of observations and their sensors: one class a rule, one method each; `Watch` asks every rule."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits, by_element
from sami_runtime.safety.observation_rules import AlarmStreak, Objection, ObservationRules
from sami_runtime.safety.world_limits import DEFAULT_ALARM, FROZEN_LEAST, GUARDS
from sami_runtime.session.telemetry import Reading
from sami_runtime.signals import Signal, all_finite

Array = NDArray[np.float32]

ROUNDING = 1e-6
"""Share of a time that is rounding: three periods are not older than three periods."""


class Rule(Protocol):
    """What may be wrong with an observation. It remembers only what it needs to judge the next one."""

    def judge(self, observation: Observation, now: float | None) -> str | None:
        """Return why an observation must not be acted on, its kind first; None if it may be.

        Args:
            observation: What was read.
            now: The time [s] on the clock that stamps the observations; None if there is none in common.
        """
        ...


class Age:
    """A signal is measured at most so long before or after now.

    Args:
        longest: How long [s], by signal.
        single: Whether the limits give one number for all.
    """

    def __init__(self, longest: Mapping[str, float], single: bool) -> None:
        self._longest, self._single = longest, single
        self._tolerated = {name: seconds * (1 + ROUNDING) for name, seconds in longest.items()}
        self._tightest = min(self._tolerated, key=self._tolerated.__getitem__)
        self._least = self._tolerated[self._tightest]

    def judge(self, observation: Observation, now: float | None) -> str | None:
        """Object to a stamp that lies too far off in either direction, or is no time at all."""
        if now is None:
            return None
        # Written so that a time that is NaN counts as too old.
        if observation.times is None:
            if abs(age := now - observation.time) <= self._least:
                return None
            return self._words("the observation", age, self._tightest, observation.note)
        for name, tolerated in self._tolerated.items():
            if not abs(age := now - observation.measured(name)) <= tolerated:
                return self._words(name, age, name, observation.note)
        return None

    def _words(self, what: str, age: float, name: str, note: str) -> str:
        when = f"{-age:.3g} s after" if age < 0 else f"{age:.3g} s before"
        key = "max_age_s" if self._single else f"max_age_s.{name}"
        return (
            f"age: {what} was measured {when} now by the loop's clock, allowed are {self._longest[name]:.3g} s ({key})"
            + (note and f"; {note}")
        )


class Order:
    """Stamps do not go back."""

    def __init__(self) -> None:
        self._newest = -math.inf
        self._by_signal: dict[str, float] = {}

    def judge(self, observation: Observation, now: float | None) -> str | None:
        """Object to an observation, or a signal of it, that was measured before one that came earlier."""
        if observation.times is None:
            if now is not None and observation.time < self._newest:
                return self._words("the observation", self._newest - observation.time)
            self._newest = observation.time
            return None
        for name in observation.values if now is not None else ():
            if (ahead := self._by_signal.get(name, -math.inf) - observation.measured(name)) > 0:
                return self._words(name, ahead)
        self._by_signal = {name: observation.measured(name) for name in observation.values}
        return None

    def _words(self, what: str, ahead: float) -> str:
        return f"order: {what} was measured {ahead:.3g} s before one that came earlier"


class Frozen:
    """A signal that repeats itself to the last bit comes from a sensor that is stuck.

    Args:
        name: The signal.
        most: At how many equal values in a row it counts as stuck.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._last: bytes | None = None
        self._count = 0

    def judge(self, observation: Observation, now: float | None) -> str | None:
        """Object to a value that came too often in a row."""
        value = observation.values.get(self._name)
        reading = None if value is None else np.asarray(value).tobytes()
        self._count = self._count + 1 if reading is not None and reading == self._last else 1
        self._last = reading
        if self._count < self._most:
            return None
        return (
            f"frozen: {self._name} had the same value {self._count} times, allowed are {self._most - 1} "
            f"(frozen.{self._name})"
        )


class Watch:
    """Judges the observations of an episode, by every rule that the limits set.

    Args:
        limits: What is allowed.
        contract: Of the model that reads the observations.
        provided: Signals as the adapter declares them.
        guards: Names of `GUARDS` that judge as well, as far as the contract has numbers for them.
    """

    def __init__(
        self,
        limits: Limits,
        contract: Contract,
        provided: tuple[Signal, ...] = (),
        guards: Collection[str] = (),
    ) -> None:
        guards = active_guards(contract, guards)
        frozen = dict(limits.frozen)
        if contract.seen is not None and "frozen" in guards:
            repeats = contract.seen.repeats
            frozen = {name: max(FROZEN_LEAST, 2 * longest + 1) for name, longest in repeats.items()} | frozen
        alarm = limits.stop_on_alarm or (DEFAULT_ALARM if "ood" in guards else None)
        self._rules: tuple[Rule, ...] = (
            Age(limits.max_age(contract), single=not isinstance(limits.max_age_s, dict)),
            Order(),
            *(Frozen(name, most) for name, most in frozen.items()),
        )
        self._alarm = None if alarm is None else AlarmStreak(alarm)
        self._world = ObservationRules(limits, contract, provided, guards)

    def heed(self, reading: Reading) -> None:
        """Learn what the context told after a step of the policy, for `stop_on_alarm`."""
        if self._alarm is not None:
            self._alarm.heed(reading)

    def judge(self, observation: Observation, now: float | None) -> Objection | None:
        """Return what the first rule that objects says; None if none does. Those after it do not see the observation.

        Args:
            observation: What was read.
            now: The time [s] on the clock that stamps the observations; None if there is none in common.
        """
        for rule in self._rules:
            if (reason := rule.judge(observation, now)) is not None:
                return Objection(reason)
        if self._alarm is not None and (objection := self._alarm.judge()) is not None:
            return objection
        return self._world.judge(observation, now)


def guards_without(unguarded: Collection[str]) -> tuple[str, ...]:
    """Return the names of all guards but those that are turned off.

    Raises:
        UnknownName: One of them is no guard.
    """
    for name in unguarded:
        if name not in GUARDS:
            raise UnknownName("guard", name, GUARDS, "unguarded names what is turned off.")
    return tuple(name for name in GUARDS if name not in unguarded)


def active_guards(contract: Contract, guards: Collection[str]) -> tuple[str, ...]:
    """Return those of some guards that a contract has numbers for."""
    ranges = contract.seen
    able = {"ranges": ranges is not None, "ood": contract.atlas is not None, "frozen": bool(ranges and ranges.repeats)}
    return tuple(name for name in guards if able[name])


class Rest:
    """The action that moves nothing: given by the limits, or measured by a signal and learned from observations.

    Args:
        limits: What says which.
        action: The action's signal.
    """

    def __init__(self, limits: Limits, action: Signal) -> None:
        self._size = action.size
        self._signal = limits.rest if isinstance(limits.rest, str) else None
        self.value: Array | None = None
        """(A,), replaced and never written into; None where it is not known."""
        if limits.rest is not None and not isinstance(limits.rest, str):
            self.value = by_element(limits.rest, action, 0.0).astype(np.float32)

    def learn(self, observation: Observation) -> None:
        """Take over what the signal measured, where that is a whole action and finite."""
        if self._signal is None:
            return
        measured = np.array(observation.values.get(self._signal, math.nan), np.float32).reshape(-1)
        if measured.shape == (self._size,) and all_finite(measured):
            self.value = measured

    def require(self) -> Array:
        """Return it, (A,).

        Raises:
            SamiError: The limits have none, or no good value of its signal was seen yet.
        """
        if self.value is None and self._signal is None:
            raise SamiError(
                "the robot cannot rest, because the limits do not say what moves nothing. Set rest, such as rest = 0.0."
            )
        if self.value is None:
            raise SamiError(
                f"no good value of the signal {self._signal!r} was seen, which is the rest to start from. "
                "Give each observation to fault() before its action to propose()."
            )
        return self.value
