"""Judges observations: each rule is a class with a method `judge`, and `Watch` asks every rule.

The rules in `ObservationRules` judge a row (D,) of all observed numbers; those in `Watch` judge stamps, stuck sensors
and the context. `now` is the time [s] on the clock that stamps the observations, or None if loop and adapter share no
clock. The rules skip numbers that are not finite, because the session refuses them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.errors import SamiError, require_known
from sami_runtime.model.contract import Contract
from sami_runtime.model.recovery import Recovery
from sami_runtime.model.training_ranges import ALLOWED, Spread, other_unit
from sami_runtime.safety.limits import GUARDS, THENS, Alarm, Jump, Limits, Then, TimeToAdapt, by_element
from sami_runtime.session.telemetry import Countdown, Reading
from sami_runtime.signals import Signal, all_finite, numbers_of

Array = NDArray[np.float32]

FLOAT32 = np.dtype(np.float32)


class Objection(NamedTuple):
    """Why the policy must not act on an observation, and what happens instead."""

    reason: str
    """As `"age: ..."`, the kind of rule first."""
    then: Then = "hold"


class ElementSpan(NamedTuple):
    """The range in which an element has to stay."""

    at: int
    """The element's index in the row."""
    element: str
    """The element's name, as `SIGNAL.ELEMENT`."""
    unit: str
    low: float
    high: float


class RangeRule:
    """Elements stay in ranges that the limits or the contract set.

    Args:
        kind: The rule's name, with which a reason begins.
        ranges: The ranges of all limited elements.
        size: D, the length of a row.
        then: What happens if an element is out of its range.
        words: Words of the message between value and range, and after the range.
    """

    def __init__(self, kind: str, ranges: Iterable[ElementSpan], size: int, then: Then, words: tuple[str, str]) -> None:
        self._kind, self._then, self._words = kind, then, words
        self._ranges = {limited.at: limited for limited in ranges}
        self._low, self._high = np.full(size, -np.inf, np.float32), np.full(size, np.inf, np.float32)
        for limited in self._ranges.values():
            self._low[limited.at], self._high[limited.at] = limited.low, limited.high

    def judge(self, row: Array, observation: Observation, now: float | None) -> Objection | None:
        """Object if a number in the row (D,) is out of its range."""
        low, high = row < self._low, row > self._high
        if 1 not in low.tobytes() and 1 not in high.tobytes():  # a tenth of the time of any() on short arrays
            return None
        beyond = (low | high) & np.isfinite(row)
        if not beyond.any():
            return None
        broken = self._ranges[int(np.flatnonzero(beyond)[0])]
        between, key = self._words[0], self._words[1].format(element=broken.element)
        value = _amount(row[broken.at], broken.unit)
        reason = f"{self._kind}: {broken.element} is {value}, {between} {broken.low:g} to {broken.high:g} ({key})"
        return Objection(reason, self._then)


MARGIN, TURNS = 3.0, 10
"""Once the policy acts, an element may be up to MARGIN widths of its training range outside that range, because a robot
may see more than training did. An angle [rad] that spanned more than half a turn in training may also be TURNS whole
turns outside, because adapters of robots that tumble count turns."""


class TrainingRangeRule:
    """Elements are not far outside their training ranges.

    Up to the first observation that passes, the narrower ranges of `sami check-adapter` apply, so that a wrong unit or
    frame is detected at rest, before anything moves. From then on the ranges are widened by `MARGIN`.

    Args:
        elements: Every element of a row, as `SIGNAL.ELEMENT`.
        units: Of the elements.
        spreads: Training ranges of the signals, in the order of the row.
    """

    def __init__(self, elements: Iterable[str], units: Iterable[str], spreads: Iterable[Spread]) -> None:
        self._elements, self._units, spreads = [*elements], [*units], [*spreads]
        self._low = np.concatenate([spread.lowest for spread in spreads])
        self._high = np.concatenate([spread.highest for spread in spreads])
        self.first = np.concatenate([spread.widened(ALLOWED, "deviation") for spread in spreads], axis=1)
        later = np.concatenate([spread.widened(MARGIN, "width") for spread in spreads], axis=1)
        turns = (np.array(self._units) == "rad") & (self._high - self._low > np.pi)
        later += np.where(turns, 2 * np.pi * TURNS, 0.0) * [[-1.0], [1.0]]
        self.later = later.astype(np.float32)
        self._allowed = self.first.astype(np.float32)

    def judge(self, row: Array, observation: Observation, now: float | None) -> Objection | None:
        """Object if a number in the row (D,) is far outside its training range."""
        beyond = (row < self._allowed[0]) | (row > self._allowed[1])
        if 1 not in beyond.tobytes() or not (beyond := beyond & np.isfinite(row)).any():
            self._allowed = self.later if np.isfinite(row).all() else self._allowed
            return None
        at = int(np.flatnonzero(beyond)[0])
        element, unit = self._elements[at], self._units[at]
        words = (
            f"ranges: {element} is {_amount(row[at], unit)}, training saw {self._low[at]:.4g} to {self._high[at]:.4g}, "
            f"allowed are {self._allowed[0, at]:.4g} to {self._allowed[1, at]:.4g}"
        )
        name = element.partition(".")[0]
        whole = [index for index, full_name in enumerate(self._elements) if full_name.partition(".")[0] == name]
        if other := other_unit(unit, row[whole].astype(np.float64), *self.first[:, whole]):
            words += f"; probably {other[0]}: divide {name} by {other[1]:.4g}"
        return Objection(f"{words} (unguarded = ['ranges'])")


class Jumps:
    """Limits how far elements move from one tick of the policy to the next.

    It compares with the last observation that passed, and allows the limit once for each period since then. A single
    outlier is therefore skipped, and a value that stays away is accepted as soon as it could have been reached.

    Args:
        limits: The limit of each element, in its unit.
        index: Each element's index in a row.
        units: Of the elements.
        then: What happens if an element moved farther.
        period: Of the policy [s].
    """

    def __init__(
        self, limits: Mapping[str, Jump], index: Mapping[str, int], units: Mapping[str, str], then: Then, period: float
    ) -> None:
        self._elements, self._units, self._then, self._period = [*limits], units, then, period
        self._signals = [element.partition(".")[0] for element in limits]
        self._at = [index[element] for element in limits]
        self._most = np.array([jump.most for jump in limits.values()])
        self._last = np.full(len(limits), np.nan)
        self._stamps = np.full(len(limits), np.nan)
        self._ticks = 0

    def judge(self, row: Array, observation: Observation, now: float | None) -> Objection | None:
        """Object if a number in the row (D,) moved farther than its limit allows for the time since the last row."""
        values = row[self._at].astype(np.float64)
        stamps = np.array([observation.measured(name) for name in self._signals])
        self._ticks += 1
        periods = np.full(len(values), float(self._ticks))
        if now is not None:
            periods = np.fmax(periods, (stamps - self._stamps) / self._period)
        change, most = np.abs(values - self._last), self._most * periods
        jumped = np.isfinite(change) & (change > most * (1 + TOLERANCE))
        if jumped.any():
            at = int(np.flatnonzero(jumped)[0])
            element, unit = self._elements[at], self._units[self._elements[at]]
            reason = (
                f"jump: {element} moved by {_amount(change[at], unit)} between two observations, "
                f"allowed are {most[at]:.3g} (jump.{element})"
            )
            return Objection(reason, self._then)
        finite = np.isfinite(values)
        self._last, self._stamps = np.where(finite, values, self._last), np.where(finite, stamps, self._stamps)
        self._ticks = 0
        return None


TOLERANCE = 1e-5
"""Relative excess over a jump's limit that counts as rounding of float32."""


class AlarmStreak:
    """Limits for how many steps in a row the context may be out of distribution.

    Args:
        limit: The number of steps, the score above which a step counts, and what happens then.
    """

    def __init__(self, limit: Alarm) -> None:
        self._limit, self._score, self._count = limit, 0.0, 0

    def update(self, reading: Reading) -> None:
        """Take the telemetry of one step of the policy."""
        self._score = reading.score or 0.0
        self._count = self._count + 1 if self._score > self._limit.score else 0

    def judge(self) -> Objection | None:
        """Object after too many steps in a row, until another step of the policy ends the streak."""
        if self._count < self._limit.steps:
            return None
        reason = (
            f"alarm: the dynamics were unknown at {self._count} steps in a row, with an out-of-distribution score of "
            f"{self._score:.3g} at the last step; allowed are {self._limit.steps - 1} steps above "
            f"{self._limit.score:g} (stop_on_alarm)"
        )
        return Objection(reason, self._limit.then)


class Deadline:
    """Limits for how many steps the policy may adapt after telemetry detected a change.

    Args:
        limit: The limit `time_to_adapt`.
        recovery: The contract's measured bound, used if the limit names no steps.
    """

    def __init__(self, limit: TimeToAdapt, recovery: Recovery | None) -> None:
        self._most, self._bound = limit.bound(recovery)
        self._then, self._gentle, self._countdown = limit.then, limit.gentle, Countdown()

    def update(self, reading: Reading) -> None:
        """Take the telemetry of one step of the policy."""
        self._countdown.update(reading)

    @property
    def gentle(self) -> float:
        """Share of the rate limit that is allowed now; less than 1 only while the policy adapts."""
        return 1.0 if self._countdown.steps is None else self._gentle

    def judge(self) -> Objection | None:
        """Object once the steps are over, until telemetry reports that the context has settled."""
        steps = self._countdown.steps
        if steps is None or steps <= self._most:
            return None
        reason = (
            f"deadline: the context has not settled for {steps} steps since a change was detected, allowed are "
            f"{self._most} ({self._bound}; time_to_adapt)"
        )
        return Objection(reason, self._then)


class ObservationRules:
    """Judges the numbers of observations by all rules of the limits and the contract, the strictest first.

    Args:
        limits: What is allowed.
        contract: Of the model that reads the observations.
        provided: Signals as the adapter declares them.
        guards: Names of active `GUARDS`.
    """

    def __init__(
        self, limits: Limits, contract: Contract, provided: Iterable[Signal], guards: Collection[str] = ()
    ) -> None:
        ranges, jumps = limits.inside, limits.jump
        bounds = {signal.name: signal_bounds(signal, provided, limits) for signal in contract.observation}
        names = {name.partition(".")[0] for name in (*ranges, *jumps)}
        spreads = contract.training_ranges.signals if contract.training_ranges and "ranges" in guards else {}
        signals = [s for s in contract.observation if s.name in names or bounds[s.name] or s.name in spreads]
        self._names = [signal.name for signal in signals]
        self._float32 = [FLOAT32] * len(signals)
        elements = [(s, element) for s in signals for element in s.elements]
        index = {f"{signal.name}.{element}": at for at, (signal, element) in enumerate(elements)}
        units = {f"{signal.name}.{element}": signal.unit for signal, element in elements}
        self._size = len(elements)
        self._rules: list[TrainingRangeRule | RangeRule | Jumps] = []
        for then in THENS:  # strictest first: a rule that holds must not hide one that stops
            inside = [ElementSpan(index[n], n, units[n], *e.range) for n, e in ranges.items() if e.then == then]
            beyond = [
                ElementSpan(index[f"{s.name}.{element}"], f"{s.name}.{element}", s.unit, *span)
                for s in signals
                for element, span in bounds[s.name].items()
                if limits.beyond(s.name) == then
            ]
            of_kind = {name: jump for name, jump in jumps.items() if jump.then == then}
            if spreads and then == "hold":  # before the bounds, whose message does not guess the wrong unit
                self._rules.append(TrainingRangeRule(index, units.values(), [spreads[s.name] for s in signals]))
            if inside:
                self._rules.append(RangeRule("inside", inside, self._size, then, ("allowed are", "inside.{element}")))
            if beyond:
                words = "beyond the bounds", "out_of_bounds"
                self._rules.append(RangeRule("bounds", beyond, self._size, then, words))
            if of_kind:
                self._rules.append(Jumps(of_kind, index, units, then, 1.0 / contract.rate_hz))

    def judge(self, observation: Observation, now: float | None) -> Objection | None:
        """Return the objection of the first rule that objects; None if no rule does."""
        if not self._rules or (row := self._row(observation)) is None:
            return None
        for rule in self._rules:
            if (objection := rule.judge(row, observation, now)) is not None:
                return objection
        return None

    def _row(self, observation: Observation) -> Array | None:
        """Return the numbers (D,); None if a signal is missing or misshapen, which `Session.step` reports."""
        try:
            values = observation.values
            parts: list[Any] = [values[name] for name in self._names]
            if [part.dtype for part in parts] == self._float32:
                row = np.frombuffer(b"".join(parts), np.float32)  # half the time of concatenate
                return row if row.shape == (self._size,) else None
        except (LookupError, TypeError, ValueError, AttributeError, BufferError):
            pass  # values that are no arrays, or not numeric
        numbers = np.concatenate([numbers_of(observation.values.get(name)).reshape(-1) for name in self._names])
        with np.errstate(over="ignore"):  # a number beyond float32 becomes infinity, as in the session
            row = numbers.astype(np.float32)
        return row if row.shape == (self._size,) else None


def _amount(value: np.floating, unit: str) -> str:
    return f"{value:.6g}" if unit == "1" else f"{value:.6g} {unit}"


def signal_bounds(signal: Signal, provided: Iterable[Signal], limits: Limits) -> dict[str, tuple[float, float]]:
    """Return (lowest, highest) of each bounded element by its name: the wider of contract's and adapter's bounds."""
    if limits.beyond(signal.name) == "act":
        return {}
    offered = next((s for s in provided if s.name == signal.name and s.size == signal.size), signal)
    spans = {}
    for element, *ends in zip(signal.elements, signal.low, signal.high, offered.low, offered.high, strict=True):
        low, high, offered_low, offered_high = ends
        if low is not None or high is not None:
            lowest = -math.inf if low is None else low if offered_low is None else min(low, offered_low)
            highest = math.inf if high is None else high if offered_high is None else max(high, offered_high)
            spans[element] = (lowest, highest)
    return spans


ROUNDING = 1e-6
"""Relative excess over a time limit that counts as rounding, so that three periods do not exceed three periods."""


class Age:
    """Limits the age of each signal; a stamp in the future may be off by as much.

    Args:
        longest: Largest age [s] by signal.
        named: Signals for which the limits set an age by name, for the message.
    """

    def __init__(self, longest: Mapping[str, float], names: Collection[str]) -> None:
        self._longest, self._names = longest, names
        self._tolerated = {name: seconds * (1 + ROUNDING) for name, seconds in longest.items()}
        self._tightest = min(self._tolerated, key=self._tolerated.__getitem__)
        self._least = self._tolerated[self._tightest]

    def judge(self, observation: Observation, now: float | None) -> str | None:
        """Object to a stamp that is too far from now in either direction, or NaN; return the reason."""
        if now is None:
            return None
        # The comparisons are written so that a NaN counts as too old.
        if observation.times is None:
            if abs(age := now - observation.time) <= self._least:
                return None
            return self._words("the observation", age, self._tightest, observation.note)
        for name, tolerated in self._tolerated.items():
            if not abs(age := now - observation.measured(name)) <= tolerated:
                return self._words(name, age, name, observation.note)
        return None

    def _words(self, label: str, age: float, name: str, note: str) -> str:
        when = f"{-age:.3g} s after" if age < 0 else f"{age:.3g} s before"
        key = f"max_age_s.{name}" if name in self._names else "max_age_s"
        return (
            f"age: {label} was measured {when} now by the loop's clock, allowed are {self._longest[name]:.3g} s ({key})"
            + (note and f"; {note}")
        )


class Order:
    """Stamps do not go back."""

    def __init__(self) -> None:
        self._newest = -math.inf
        self._by_signal: dict[str, float] = {}

    def judge(self, observation: Observation, now: float | None) -> str | None:
        """Object if an observation or one of its signals has an older stamp than its predecessor; return the reason."""
        if observation.times is None:
            newest = max((self._newest, *self._by_signal.values()))
            if now is not None and observation.time < newest:
                return self._words("the observation", newest - observation.time)
            self._newest, self._by_signal = observation.time, {}
            return None
        for name in observation.values if now is not None else ():
            if (ahead := self._by_signal.get(name, self._newest) - observation.measured(name)) > 0:
                return self._words(name, ahead)
        self._by_signal = {name: observation.measured(name) for name in observation.values}
        return None

    def _words(self, label: str, ahead: float) -> str:
        return f"order: {label} was measured {ahead:.3g} s before its predecessor"


class Frozen:
    """Detects a stuck sensor: a signal whose values are bit-equal too often in a row.

    Args:
        name: Of the signal.
        most: Number of equal values in a row at which it objects.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._last: bytes | None = None
        self._count = 0

    def judge(self, observation: Observation, now: float | None) -> str | None:
        """Object if the same value came too often in a row; return the reason."""
        reading = numbers_of(observation.values.get(self._name)).tobytes()
        self._count = self._count + 1 if reading and reading == self._last else 1
        self._last = reading
        if self._count < self._most:
            return None
        return (
            f"frozen: {self._name} had the same value {self._count} times, allowed are {self._most - 1} "
            f"(frozen.{self._name})"
        )


class Watch:
    """Judges the observations of an episode by every rule of the limits and the guards.

    Args:
        limits: What is allowed.
        contract: Of the model that reads the observations.
        provided: Signals as the adapter declares them.
        guards: Names of active `GUARDS`; those for which the contract has no reference are skipped.
        needed: Signals whose age is limited even if the model does not read them (the adapter's `basis`).
    """

    def __init__(
        self,
        limits: Limits,
        contract: Contract,
        provided: tuple[Signal, ...] = (),
        guards: Collection[str] = (),
        needed: Collection[str] = (),
    ) -> None:
        ages = limits.max_age(contract)
        unpredicted = min(limits.max_age(contract, predicted=False).values())
        guards = active_guards(contract, guards)
        self._rules: tuple[Age | Order | Frozen, ...] = (
            Age(dict.fromkeys(needed, unpredicted) | ages, ages if isinstance(limits.max_age_s, dict) else ()),
            Order(),
            *(Frozen(name, most) for name, most in limits.repeats(contract, guards).items()),
        )
        self._deadline = Deadline(limits.time_to_adapt, contract.recovery) if limits.time_to_adapt else None
        streak = AlarmStreak(alarm) if (alarm := limits.longest_alarm(guards)) else None
        self._of_context = tuple(rule for rule in (streak, self._deadline) if rule is not None)
        self._world = ObservationRules(limits, contract, provided, guards)

    def record_telemetry(self, reading: Reading) -> None:
        """Take the telemetry of one step of the policy, for `stop_on_alarm` and `time_to_adapt`."""
        for rule in self._of_context:
            rule.update(reading)

    @property
    def gentle(self) -> float:
        """Share of the rate limit that is allowed now."""
        return 1.0 if self._deadline is None else self._deadline.gentle

    def judge(self, observation: Observation, now: float | None) -> Objection | None:
        """Return the first of the strictest objections; `now` [s] is None if the stamps are of another clock."""
        refused = next(filter(None, (rule.judge(observation, now) for rule in self._rules)), None)
        world = Objection(refused) if refused else self._world.judge(observation, now)
        objections = [*(rule.judge() for rule in self._of_context), world]
        return min(filter(None, objections), key=lambda objection: THENS.index(objection.then), default=None)


def guards_without(unguarded: Collection[str]) -> tuple[str, ...]:
    """Return the names of all guards except those that are turned off.

    Raises:
        UnknownName: `unguarded` contains a name that is not in `GUARDS`.
    """
    require_known("guard", unguarded, GUARDS, "unguarded lists the guards to turn off.")
    return tuple(name for name in GUARDS if name not in unguarded)


def active_guards(contract: Contract, guards: Collection[str]) -> tuple[str, ...]:
    """Return the guards for which a contract has the statistics that they need."""
    ranges = contract.training_ranges
    able = {"ranges": ranges is not None, "ood": contract.atlas is not None, "frozen": bool(ranges and ranges.repeats)}
    return tuple(name for name in guards if able[name])


class Neutral:
    """The neutral action, which moves nothing: a constant in the limits, or the current value of an observed signal.

    Args:
        limits: Their `rest` sets the constant or names the signal.
        action: The action's signal.
    """

    def __init__(self, limits: Limits, action: Signal) -> None:
        self._size = action.size
        self._signal = limits.rest if isinstance(limits.rest, str) else None
        self.value: Array | None = None
        """(A,): the neutral action; None if it is not known. Replace the array, never write into it."""
        if limits.rest is not None and not isinstance(limits.rest, str):
            self.value = by_element(limits.rest, action, 0.0).astype(np.float32)

    def learn(self, observation: Observation) -> None:
        """Store the signal's value, if it has the size of an action and is finite."""
        if self._signal is None:
            return
        measured = numbers_of(observation.values.get(self._signal)).astype(np.float32).reshape(-1)
        if measured.shape == (self._size,) and all_finite(measured):
            self.value = measured

    def require(self) -> Array:
        """Return the neutral action (A,).

        Raises:
            SamiError: The limits set none, or no valid value of its signal was seen yet.
        """
        if self.value is None and self._signal is None:
            raise SamiError("the robot cannot rest: the limits set no neutral action. Set rest, such as rest = 0.0.")
        if self.value is None:
            raise SamiError(
                f"no valid value of the signal {self._signal!r} was seen, which the limit rest names as the neutral "
                "action. Pass each observation to fault() before its action to propose()."
            )
        return self.value
