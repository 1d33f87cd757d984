"""What a safety gate allows, as a document that people write and review: TOML or JSON, by the names of elements."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from sami_runtime.errors import SamiError, UnknownName, excerpt
from sami_runtime.files import read_document
from sami_runtime.model.contract import Contract
from sami_runtime.model.recovery import Recovery
from sami_runtime.signals import Moves, Signal

V = TypeVar("V")


def _number(value: float) -> float:
    if math.isnan(value):
        raise ValueError("must be a number")
    return value


Number = Annotated[float, AfterValidator(_number)]
Positive = Annotated[float, Field(gt=0)]
Then = Literal["hold", "rest", "stop"]
"""What happens: `hold` lets the action that was written last stand, as for any observation that is not acted on; `rest`
falls back to rest at once; `stop` stops the robot."""
Beyond = Literal["hold", "rest", "stop", "act"]
"""The same, or `act`: nothing."""
THENS: tuple[Then, ...] = ("stop", "rest", "hold")
"""The same, the strictest first."""


def _ordered(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError("must be [lowest, highest]")
    return value


def _pair(value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("must be [lowest, highest]")
    return tuple(value)


Range = Annotated[tuple[Number, Number], BeforeValidator(_pair), AfterValidator(_ordered)]
"""Lowest and highest, in the element's unit."""


class _Entry(BaseModel):
    """A value, written alone or as a table that says as well what happens then."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _alone(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping | BaseModel) else {next(iter(cls.model_fields)): value}


class Inside(_Entry):
    """Where an element of an observation stays."""

    range: Range
    then: Then = "hold"


class Jump(_Entry):
    """How far an element of an observation moves from one tick of the policy to the next."""

    most: Positive
    then: Then = "hold"


class Alarm(_Entry):
    """For how many steps in a row the dynamics may be unknown."""

    steps: Annotated[int, Field(ge=1)]
    """So many in a row with an out-of-distribution score above `score` are too many."""
    then: Then = "stop"
    score: Annotated[Positive, Field(allow_inf_nan=False)] = 1.0
    """Above this a step counts; 1 is the model's own alarm."""


class TimeToAdapt(_Entry):
    """By when a policy must be back after a change was detected, and what holds until then."""

    steps: Annotated[int, Field(ge=1)] | None = None
    """Of the policy; the bound of the model's contract if left out."""
    then: Then = "hold"
    """What happens when they are over; held for long enough, the fallback acts, until the robot is stopped."""
    gentle: Annotated[Positive, Field(le=1)] = 1.0
    """Share of the rate that is allowed until the context has settled; braking to it keeps within the acceleration."""

    def bound(self, recovery: Recovery | None) -> tuple[int, str]:
        """Return the steps, its own or the contract's `recovery`, and what they are called."""
        if self.steps is not None:
            return self.steps, "time_to_adapt.steps"
        assert recovery is not None, "limits that fit the contract name steps, or it has a bound"
        return recovery.steps, f"a bound of {recovery.level:.0%}"


GUARDS: dict[str, str] = {
    "ranges": "observations far outside what training saw are held, then the robot is stopped",
    "ood": "a context that stays far from all training tasks stops the robot",
    "frozen": "a sensor that repeats itself, whose noise in training says that it cannot, is held",
}
"""What judges observations of a robot by default, with the model's own numbers; see docs/reference/guards.md."""
DEFAULT_ALARM = Alarm(steps=30, score=2.0)
"""Of the guard `ood`, where the limits set no `stop_on_alarm`. benchmarks/guard_rates.py prints how often it stops a
policy in its own simulator."""
FROZEN_LEAST = 5
"""Of the guard `frozen`: least number of equal values in a row that mean a stuck sensor. Where values repeated in
training, through lost messages, it is at least twice the longest run there and one."""


class Known(_Entry):
    """What an element of an observation is after a reset, while the robot rests at home."""

    value: Annotated[Number, Field(allow_inf_nan=False)]
    """In its unit."""
    most: Positive = 0.05
    """Largest misreading that is taken for a constant bias of the sensor, in its unit."""
    still: Positive = 0.005
    """How far it may drift while it is measured, and how sure its mean must be, in its unit."""


def _flat(value: Any) -> Any:
    """Return a table by `SIGNAL.ELEMENT`, which TOML nests where the key is not quoted."""
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        nested = inner if "." not in str(key) and isinstance(inner, Mapping) else {}
        for name, entry in {f"{key}.{element}": entry for element, entry in nested.items()}.items() or [(key, inner)]:
            if name in flat:
                raise ValueError(f"must name {name} once")
            flat[name] = entry
    return flat


ByElement = Annotated[dict[str, V], BeforeValidator(_flat)]
"""By `SIGNAL.ELEMENT` of the observation, such as `ee_position.z`."""


def elements_of(signals: tuple[Signal, ...]) -> list[str]:
    """Return every element of some signals, as `SIGNAL.ELEMENT`."""
    return [f"{signal.name}.{element}" for signal in signals for element in signal.elements]


Seconds = Annotated[float, Field(gt=0)]

AGE_PERIODS = 3
"""Periods of the policy after which an observation is too old, where neither the limits nor a lookahead say."""

FACTOR = 10.0
"""So many times beyond what an action can do, a limit is a mistake."""
FACTOR_SEEN = {"rad": 10.0, "rad/s": 10.0}
"""By unit, the same beyond what the contract allows of an observation or training saw; 100 for other units. A range
around a workspace is wide at times, and degrees are 57 times radians."""
TURNS = 100.0
"""An angle [rad] beyond which nothing that is known of it makes a limit plausible."""
PERIODS = {"deadline_s": 100, "max_age_s": 1000, "max_pause_s": 1000, "blend_in_s": 1000}
"""Periods of the policy beyond which a time is a mistake. `inf` takes any."""
UNITS = {"rad": ("degrees", 180.0 / math.pi), "m": ("millimetres", 1000.0), "s": ("milliseconds", 1000.0)}
"""By unit, which other one is written in its place, and how many of these one of it is."""


class Limits(BaseModel):
    """What may be written to a robot. The defaults keep the contract's bounds, and hold and stop when nothing comes.

    A value for each element of the action is one number for all of them, or a table by the element's name.
    What is left out is not limited.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    low: Number | dict[str, Number] | None = None
    """Lowest action, in its unit. The contract's bound holds as well."""
    high: Number | dict[str, Number] | None = None
    """Highest action, in its unit. The contract's bound holds as well."""
    rate: Positive | dict[str, Positive] | None = None
    """Largest change of the action [unit/s], by the measured time between two writes; no write exceeds it."""
    acceleration: Positive | dict[str, Positive] | None = None
    """Largest change of that change [unit/s^2]."""
    rest: Number | dict[str, Number] | str | None = None
    """The action that moves nothing: every element's value, or the name of the observation signal that holds it (for
    position control, the measured position). The first action starts from it, and what is held too long falls back
    to it."""
    blend_in_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Time [s] in which an episode goes over from rest to the policy's actions."""
    deadline_s: Seconds | None = None
    """Longest time [s] from the beginning of a tick to the policy's answer; a later one is dropped. One period of the
    loop if left out."""
    max_pause_s: Seconds | None = None
    """Longest time [s] between two ticks; after a longer one the robot is stopped. As long as `stop_after` ticks of the
    policy if left out. `inf` takes any: ticks that passed without a turn do not stop a policy that goes on to act."""
    max_age_s: Seconds | dict[str, Seconds] | None = None
    """Oldest observation [s] that is acted on, or a table by signal; `inf` takes any. Three periods of the policy where
    it is left out, or as many as a file that looks farther ahead was fitted for."""
    frozen: dict[str, Annotated[int, Field(ge=2)]] = {}
    """By observation signal: how many equal values in a row, to the last bit, mean that its sensor is stuck."""
    inside: ByElement[Inside] = {}
    """Range in which an element of an observation stays, and what happens where it does not."""
    jump: ByElement[Jump] = {}
    """Largest change of an element from one tick of the policy to the next, and what happens where it is larger. Where
    more periods lie between two stamps, so many times as much."""
    out_of_bounds: Beyond | dict[str, Beyond] = "hold"
    """What happens where an observation lies beyond the contract's bounds, for all signals or by signal; `act` takes
    it. Where the adapter declares wider ones, in numbers, these count."""
    workspace: ByElement[Range] = {}
    """Range of an element of an observation out of which no action leads. It is limited before that happens."""
    moves: dict[str, Moves] = {}
    """By element of the action, which element of an observation it moves, and how far in one period of the policy.
    The contract's hold as well, for those that are left out."""
    known: ByElement[Known] = {}
    """What elements of an observation are after a reset, while the robot rests at home. By how much their sensors
    misread them is measured before each episode, and taken out of it; see `Zeroed`."""
    known_readings: Annotated[int, Field(ge=3)] = 10
    """How many readings at rest that is the mean of, a period of the policy apart on a robot."""
    stop_on_alarm: Alarm | None = None
    """So many of the policy's steps in a row with an out-of-distribution score above 1 stop the robot."""
    time_to_adapt: TimeToAdapt | None = None
    """How long a policy may adapt to a change; takes the place of the guard `ood`."""
    hold_ticks: Annotated[int, Field(ge=0)] = 3
    """How many of the policy's periods in a row the last action is held; then the action falls back to rest, if that
    is given. These are periods of the contract's rate, also where a step takes several of them (`slower`)."""
    stop_after: Annotated[int, Field(ge=1)] = 10
    """At this many of the policy's periods in a row without a new action, the robot is stopped. Those that passed
    without a turn count."""

    @classmethod
    def load(cls, path: str | Path) -> Limits:
        """Read a file, NAME.toml or NAME.json.

        Raises:
            SamiError: The file cannot be read, or a value is wrong.
            UnknownName: It holds a key that is no limit.
        """
        return cls.of(read_document(Path(path), "limits"), str(path))

    @classmethod
    def of(cls, document: Mapping[str, Any], where: str) -> Limits:
        """Return the limits of a table.

        Args:
            document: Limits by key.
            where: Where it is written, for messages: a path.

        Raises:
            SamiError: A value is wrong.
            UnknownName: It holds a key that is no limit.
        """
        for key in document:
            if key not in cls.model_fields:
                raise UnknownName("limit", str(key), cls.model_fields, f"It is in {where}.")
        try:
            return cls.model_validate(dict(document))
        except ValidationError as error:
            raise SamiError(f"{where}: {_explain(error)}") from None

    def require_fit(self, contract: Contract) -> None:
        """Refuse limits that mean nothing for a model's signals, before anything moves.

        Raises:
            UnknownName: An element or a signal is not among the model's.
            SamiError: Rest is missing where it is needed, incomplete, or beyond the bounds; low is above high; or a
                limit cannot be meant, because it is an order of magnitude beyond what it limits.
        """
        action = contract.action
        for name in ("low", "high", "rate", "acceleration", "rest", "moves"):
            for element in value if isinstance(value := getattr(self, name), Mapping) else ():
                if element not in action.elements:
                    raise UnknownName("element of the action", element, action.elements, f"The limit {name} names it.")
        signals = {signal.name: signal for signal in contract.observation}
        named = {"frozen": [*self.frozen]}
        for name in ("max_age_s", "out_of_bounds"):
            named[name] = [*value] if isinstance(value := getattr(self, name), dict) else []
        for limit, names in {**named, "rest": [self.rest] if isinstance(self.rest, str) else []}.items():
            for name in names:
                if name not in signals:
                    raise UnknownName("observation signal", name, signals, f"The limit {limit} names it.")
        self._require_elements(contract)
        self._require_time_to_adapt(contract)
        needed = [name for name in ("rate", "acceleration") if getattr(self, name) is not None]
        needed += ["blend_in_s"] if self.blend_in_s else []
        needed += [f'then = "rest" for {name}' for name, then in self._thens() if then == "rest"]
        if needed and self.rest is None:
            raise SamiError(
                f"the limits set {' and '.join(needed)}, but no rest: the first action would have nothing to start "
                "from. Set rest to the action that moves nothing, such as rest = 0.0."
            )
        low, high = self.bounds(action)
        impossible = (low > high) | (low == math.inf) | (high == -math.inf)
        if impossible.any():
            at = int(np.flatnonzero(impossible)[0])
            raise SamiError(
                f"the limits leave no action: {action.elements[at]} must be at least {low[at]:g} and at most "
                f"{high[at]:g} [{action.unit}], the contract's bounds included. Correct low or high."
            )
        self._require_rest(contract.action, signals, low, high)
        # What cannot be meant is refused; infinite limits limit nothing on purpose.
        _require_times(self, 1.0 / contract.rate_hz)
        _require_actions(self, contract)
        _require_observations(self, contract)

    def max_pause(self, contract: Contract) -> float:
        """Return the time [s] that may pass between two ticks: `max_pause_s`, or `stop_after` ticks of the policy."""
        return self.max_pause_s or self.stop_after / contract.rate_hz

    def max_age(self, contract: Contract) -> dict[str, float]:
        """Return by signal the age [s] up to which it is acted on: `max_age_s`, or its default."""
        default = max(AGE_PERIODS, contract.lookahead.steps if contract.lookahead else 0) / contract.rate_hz
        by_signal = self.max_age_s if isinstance(self.max_age_s, dict) else {}
        every = default if isinstance(self.max_age_s, dict) else self.max_age_s or default
        return {signal.name: by_signal.get(signal.name, every) for signal in contract.observation}

    def repeats(self, contract: Contract, guards: Collection[str]) -> dict[str, int]:
        """Return by signal how many equal values in a row mean a stuck sensor: `frozen`, and the guard's."""
        longest = contract.seen.repeats if contract.seen is not None and "frozen" in guards else {}
        return {name: max(FROZEN_LEAST, 2 * most + 1) for name, most in longest.items()} | self.frozen

    def longest_alarm(self, guards: Collection[str]) -> Alarm | None:
        """Return for how long the dynamics may be unknown: `stop_on_alarm`, or the guard's; None for any time."""
        default = DEFAULT_ALARM if "ood" in guards and self.time_to_adapt is None else None
        return self.stop_on_alarm or default

    def in_simulator(self, gapped: bool) -> Limits:
        """Return these limits with defaults that suit a simulator.

        Args:
            gapped: Whether it stands behind a gap. Without one it stands still while nothing is written, so nothing is
                too old; and the errors that a gap adds to a signal at its bounds lead beyond them, and were asked for.
        """
        changes: dict[str, Any] = (
            {"out_of_bounds": "act"} if gapped else {"max_age_s": math.inf, "max_pause_s": math.inf}
        )
        chosen = self.model_fields_set if gapped else {name for name in changes if getattr(self, name) is not None}
        return self.model_copy(update={name: value for name, value in changes.items() if name not in chosen})

    def bounds(self, action: Signal) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the (A,) lowest and (A,) highest action: the tighter of these limits' and the contract's."""
        contract_low = [-math.inf if value is None else value for value in action.low]
        contract_high = [math.inf if value is None else value for value in action.high]
        low = np.maximum(contract_low, by_element(self.low, action, -math.inf))
        high = np.minimum(contract_high, by_element(self.high, action, math.inf))
        return low.astype(np.float32), high.astype(np.float32)

    def moved(self, contract: Contract) -> dict[str, Moves]:
        """Return by element of the action what it moves, as these limits or else the contract say."""
        return {**(contract.action.moves or {}), **self.moves}

    def beyond(self, signal: str) -> Beyond:
        """Return what happens where a signal is beyond its bounds."""
        by_signal = self.out_of_bounds
        return by_signal.get(signal, "hold") if isinstance(by_signal, dict) else by_signal

    def _thens(self) -> Iterator[tuple[str, str]]:
        """Yield each limit on the world, and what happens beyond it."""
        for limit in ("inside", "jump"):
            for name, entry in getattr(self, limit).items():
                yield f"{limit}.{name}", entry.then
        beyond = self.out_of_bounds
        yield from beyond.items() if isinstance(beyond, dict) else [("out_of_bounds", beyond)]
        if self.stop_on_alarm is not None:
            yield "stop_on_alarm", self.stop_on_alarm.then
        if self.time_to_adapt is not None:
            yield "time_to_adapt", self.time_to_adapt.then

    def _require_elements(self, contract: Contract) -> None:
        elements = elements_of(contract.observation)
        moved = self.moved(contract)
        for limit in ("inside", "jump", "workspace", "known"):
            for name in getattr(self, limit):
                if name not in elements:
                    raise UnknownName("element of an observation", name, elements, f"The limit {limit} names it.")
        for name, moves in self.moves.items():
            if moves.element not in elements:
                hint = f"The limit moves.{name} names it."
                raise UnknownName("element of an observation", moves.element, elements, hint)
        for name in self.workspace:
            movers = [element for element, moves in moved.items() if moves.element == name]
            if len(movers) != 1:
                named = " and ".join(movers) or "none"
                raise SamiError(
                    f"workspace.{name} limits the one element of the action that moves it, and {named} is said to. "
                    f"Say which one does, and how far, such as: [moves] {contract.action.elements[0]} = "
                    f'{{ element = "{name}", scale = 0.05 }}.'
                )
            low, high = (side[contract.action.elements.index(movers[0])] for side in self.bounds(contract.action))
            if not low <= 0.0 <= high:
                raise SamiError(
                    f"workspace.{name} needs {movers[0]} to be able to stand still at its end, and it must be at least "
                    f"{low:g} and at most {high:g}. Correct low or high, or leave the workspace out."
                )
        if self.stop_on_alarm is not None and contract.atlas is None:
            raise SamiError(
                f"the limits set stop_on_alarm, but {contract.name!r} has no atlas of contexts, so it cannot tell "
                "whether the dynamics are known. Make one with sami atlas, or leave stop_on_alarm out."
            )

    def _require_time_to_adapt(self, contract: Contract) -> None:
        limit = self.time_to_adapt
        if limit is None:
            return
        if contract.atlas is None or (limit.steps is None and contract.recovery is None):
            missing = "atlas to detect changes by" if contract.atlas is None else "bound on the time it takes"
            make = "sami atlas" if contract.atlas is None else "sami atlas MODEL --set changes=400, or give steps"
            raise SamiError(
                f"the limits set time_to_adapt, but {contract.name!r} has no {missing}. Make one with {make}; or leave "
                "time_to_adapt out."
            )
        if limit.gentle < 1.0 and self.rate is None:
            raise SamiError(
                f"time_to_adapt.gentle is {limit.gentle:g}, a share of the rate, and the limits set none. Set rate, or "
                "leave gentle out."
            )

    def _require_rest(self, action: Signal, signals: Mapping[str, Signal], low: Any, high: Any) -> None:
        if self.rest is None:
            return
        if isinstance(self.rest, str):
            signal = signals[self.rest]
            if (signal.size, signal.unit) != (action.size, action.unit):
                raise SamiError(
                    f"rest is the signal {self.rest!r} ({signal.size}, {signal.unit}), the action has ({action.size}, "
                    f"{action.unit}). Name a signal of the action's size and unit, or give the values."
                )
            if sorted(signal.elements) == sorted(action.elements) and signal.elements != action.elements:
                raise SamiError(
                    f"rest is the signal {self.rest!r} with {', '.join(signal.elements)}; the action has "
                    f"{', '.join(action.elements)}. Name a signal of the same order, or give the values."
                )
            return
        if isinstance(self.rest, Mapping) and (missing := [e for e in action.elements if e not in self.rest]):
            raise SamiError(f"rest lacks {', '.join(missing)}; it must give every element of the action.")
        with np.errstate(over="ignore"):
            rest = by_element(self.rest, action, math.nan).astype(np.float32)
        if not np.isfinite(rest).all():
            raise SamiError(f"rest is {self.rest!r}, which is no finite float32. Set rest to what moves nothing.")
        if ((rest < low) | (rest > high)).any():
            raise SamiError(
                f"rest is {rest.tolist()}, beyond the bounds {low.tolist()} to {high.tolist()} [{action.unit}]. "
                "Correct rest, low or high."
            )


_UNIONS = ("low", "high", "rate", "acceleration", "rest", "max_age_s", "out_of_bounds")
"""Limits that are one value for all, or a table."""


def by_element(value: float | Mapping[str, float] | None, action: Signal, default: float) -> NDArray[np.float64]:
    """Return the value of each element, (A,); `default` where none is given."""
    if isinstance(value, Mapping):
        return np.array([value.get(element, default) for element in action.elements], np.float64)
    return np.full(action.size, default if value is None else value, np.float64)


def _explain(error: ValidationError) -> str:
    """Return the first problem, by key, value and what would be valid."""
    # A value for each element may be a number or a table; the deepest problem is that of the one which was given.
    problem = max(error.errors(include_url=False), key=lambda fault: len(fault["loc"]))
    key, *inner = problem["loc"]
    if key in _UNIONS:
        inner = inner[1:]  # which of its kinds it was taken for
    key = ".".join(map(str, [key, *(part for part in inner if isinstance(part, str))]))
    if problem["type"] == "missing":
        return f"{key} is missing from {excerpt(problem['input'])}. Give it, or leave the limit out."
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{key} is {excerpt(problem['input'])}; it {message}. Correct it, or leave it out."


def _require_times(limits: Limits, period: float) -> None:
    for name, periods in PERIODS.items():
        value = getattr(limits, name)
        for key, seconds in value.items() if isinstance(value, Mapping) else [("", value)]:
            if seconds is not None and periods * period * (1 + 1e-9) < seconds < math.inf:
                label = f"{name}.{key}" if key else name
                allows = f"more than {periods} periods of the policy ({periods * period:g} s)"
                raise SamiError(_sentence(label, seconds, "s", allows, "inf"))


def _require_actions(limits: Limits, contract: Contract) -> None:
    action, period = contract.action, 1.0 / contract.rate_hz
    for name in ("low", "high", "rate", "acceleration"):
        value = getattr(limits, name)
        if value is None:
            continue
        beyond = {}
        for element, low, high in zip(action.elements, action.low, action.high, strict=True):
            if low is None or high is None:
                continue
            width = high - low
            if name in ("low", "high"):
                most, words = max(abs(low), abs(high)), f"the model's bounds are {low:g} to {high:g}"
            elif name == "rate":
                most, words = width / period, f"the model's action changes by at most {width / period:g} in a second"
            else:
                most = 2.0 * width / period**2
                words = f"the model's action accelerates by at most {most:g}"
            number = value.get(element) if isinstance(value, Mapping) else value
            if number is not None and FACTOR * most < abs(number) < math.inf:
                beyond[element] = (number, words)
        # One number for all elements is for those that it can limit.
        if beyond and (isinstance(value, Mapping) or len(beyond) == action.size):
            element, (number, words) = next(iter(beyond.items()))
            label = f"{name}.{element}" if isinstance(value, Mapping) else name
            by = {"rate": "/s", "acceleration": "/s^2"}.get(name, "")
            raise SamiError(_sentence(label, number, action.unit + by, words, "out"))


def _require_observations(limits: Limits, contract: Contract) -> None:
    signals = {signal.name: signal for signal in contract.observation}
    for label, values in _observed(limits):
        name, _, element = label.partition(".")[2].partition(".")
        signal = signals[name]
        at = signal.elements.index(element)
        low, high = signal.low[at], signal.high[at]
        factor = FACTOR_SEEN.get(signal.unit, 100.0)
        if low is not None and high is not None:
            most, words = max(abs(low), abs(high)), f"the model's bounds are {low:g} to {high:g}"
        elif contract.seen is not None and name in contract.seen.signals:
            spread = contract.seen.signals[name]
            most = max(abs(spread.lowest[at]), abs(spread.highest[at]))
            words = f"in training it was {spread.lowest[at]:g} to {spread.highest[at]:g}"
        elif signal.unit == "rad":
            most, factor, words = TURNS, 1.0, f"that is {max(map(abs, values)) / math.tau:.0f} turns"
        else:
            continue
        for number in values:
            if most and factor * most < abs(number) < math.inf:
                raise SamiError(_sentence(label, number, signal.unit, words, "inf"))


def _observed(limits: Limits) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield the limits on elements of observations, and their values in the element's unit."""
    for element, inside in limits.inside.items():
        yield f"inside.{element}", inside.range
    for element, jump in limits.jump.items():
        yield f"jump.{element}", (jump.most,)
    for element, ends in limits.workspace.items():
        yield f"workspace.{element}", ends


def _sentence(label: str, number: float, unit: str, words: str, instead: str) -> str:
    base, _, by = unit.partition("/")
    guess = ""
    if base in UNITS:
        other, per = UNITS[base]
        by = f"/{by}" if by else ""
        guess = f" In {other}{by}? Then it is {number / per:.4g} {unit}."
    out = "set inf, which limits nothing" if instead == "inf" else "leave it out"
    return (
        f"{label} is {number:g} [{unit}], which cannot be meant: {words}, and it would never limit anything.{guess} "
        f"Correct it, or {out}."
    )
