"""The limits of a safety gate: a TOML or JSON document that people write and review, by the names of elements."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sami_runtime.errors import SamiError, UnknownName, require_known
from sami_runtime.files import checked_table, read_document
from sami_runtime.model.contract import Contract
from sami_runtime.model.recovery import Recovery
from sami_runtime.model.training_ranges import mistaken_units
from sami_runtime.signals import Moves, Signal

V = TypeVar("V")


def _number(value: float) -> float:
    if math.isnan(value):
        raise ValueError("must be a number")
    return value


Number = Annotated[float, AfterValidator(_number)]
Positive = Annotated[float, Field(gt=0)]
Then = Literal["hold", "rest", "stop"]
"""What happens if an observation is refused: `hold` repeats the last action, at first for `hold_ticks`; `rest`
approaches the neutral action at once; `stop` stops the robot."""
Beyond = Literal["hold", "rest", "stop", "act"]
"""As `Then`, or `act`: the policy acts on the observation."""
THENS: tuple[Then, ...] = ("stop", "rest", "hold")
"""The values of `Then`, the strictest first."""


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
    """A limit that is written as a value alone, or as a table with its options, such as `then`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _of_value(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping | BaseModel) else {next(iter(cls.model_fields)): value}


class Inside(_Entry):
    """The range in which an element of an observation has to stay, [lowest, highest] in its unit."""

    range: Range
    then: Then = "hold"


class Jump(_Entry):
    """The most by which an element of an observation may change in one period of the policy, in its unit."""

    most: Positive
    then: Then = "hold"


class Alarm(_Entry):
    """The limit on steps in a row with an out-of-distribution context."""

    steps: Annotated[int, Field(ge=1)]
    """Number of steps in a row with an out-of-distribution score above `score` at which `then` happens."""
    then: Then = "stop"
    score: Annotated[Positive, Field(allow_inf_nan=False)] = 1.0
    """Score above which a step counts; the model's own alarm is at 1."""


class TimeToAdapt(_Entry):
    """The limit on steps between a detected change of the dynamics and a settled context."""

    steps: Annotated[int, Field(ge=1)] | None = None
    """Steps of the policy; the bound of the model's contract if left out."""
    then: Then = "hold"
    """What happens after these steps; a long hold leads to the fallback, then to a stop, as every hold does."""
    gentle: Annotated[Positive, Field(le=1)] = 1.0
    """Share of `rate` that is allowed until the context has settled; slowing down to it respects `acceleration`."""

    def bound(self, recovery: Recovery | None) -> tuple[int, str]:
        """Return the steps, its own or those of the contract's `recovery`, and their source for messages."""
        if self.steps is not None:
            return self.steps, "time_to_adapt.steps"
        assert recovery is not None, "limits that fit the contract name steps, or it has a bound"
        return recovery.steps, f"a bound of {recovery.level:.0%}"


GUARDS: dict[str, str] = {
    "ranges": "observations far outside the training ranges are held, then the robot is stopped",
    "ood": "a context that stays far from all training tasks stops the robot",
    "frozen": "a noisy sensor that repeats one value is held",
}
"""Rules that judge a robot's observations by default, by the model's own statistics; see docs/reference/guards.md."""
DEFAULT_ALARM = Alarm(steps=30, score=2.0)
"""Limit of the guard `ood` if the limits set no `stop_on_alarm`. benchmarks/guard_rates.py prints how often it stops a
policy in its own simulator."""
FROZEN_LEAST = 5
"""Guard `frozen`: least number of equal values in a row that mean a stuck sensor. If values repeated in training,
through lost messages, the number is at least 2 n + 1 for the longest run of n equal values there."""


class KnownValue(_Entry):
    """The true value of an element of an observation after a reset, while the robot rests at home."""

    value: Annotated[Number, Field(allow_inf_nan=False)]
    """In the element's unit."""
    most: Positive = 0.05
    """Largest error that is taken for a constant bias of the sensor, in the element's unit."""
    still: Positive = 0.005
    """Largest drift while the bias is measured, and largest standard error of the mean, in the element's unit."""


def _flat(value: Any) -> Any:
    """Return a table with keys `SIGNAL.ELEMENT`; TOML nests tables where such a key is not quoted."""
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
"""A table with keys `SIGNAL.ELEMENT` of the observation, such as `ee_position.z`."""


def elements_of(signals: tuple[Signal, ...]) -> list[str]:
    """Return the names of all elements of these signals, as `SIGNAL.ELEMENT`."""
    return [f"{signal.name}.{element}" for signal in signals for element in signal.elements]


AGE_PERIODS = 3
"""Largest age of an observation [periods of the policy], if neither the limits nor a lookahead set one."""

FACTOR = 10.0
"""A limit on actions more than this many times beyond the model's own bounds counts as a mistake."""
OBSERVATION_FACTOR = {"rad": 10.0, "rad/s": 10.0}
"""By unit, such a factor for limits on observations, against the contract's bounds or the training ranges; 100 for
other units. Ranges around a workspace may be wide, but a factor of 57 means degrees in place of radians."""
TURNS = 100.0
"""A limit on an angle beyond this [rad] counts as a mistake, if neither bounds nor training ranges are known."""
PERIODS = {"deadline_s": 100, "max_age_s": 1000, "max_pause_s": 1000, "blend_in_s": 1000}
"""A time of more than this many periods of the policy counts as a mistake; `inf` does not."""


class Limits(BaseModel):
    """Limits on actions, observations and times. By default: the contract's bounds, and hold, then stop, on a fault.

    A limit on actions is one number for all elements, or a table by the element's name. An element or limit that is
    left out is not limited, unless a default is described below.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    low: Number | dict[str, Number] | None = None
    """Lowest action, in its unit. The contract's bound holds as well."""
    high: Number | dict[str, Number] | None = None
    """Highest action, in its unit. The contract's bound holds as well."""
    rate: Positive | dict[str, Positive] | None = None
    """Largest change of the action [unit/s], by the measured time between two writes; no write exceeds it."""
    acceleration: Positive | dict[str, Positive] | None = None
    """Largest change of the rate of the action [unit/s^2]."""
    rest: Number | dict[str, Number] | str | None = None
    """The neutral action, which moves nothing: the value of every element, or the name of an observation signal that
    measures it (for position control, the measured position). Rate, acceleration and blend-in start from it, and after
    `hold_ticks` the gate approaches it."""
    blend_in_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Time [s] at the beginning of an episode to blend from the neutral action to the policy's actions."""
    deadline_s: Positive | None = None
    """Longest time [s] from the beginning of a tick to the policy's output; a later output is dropped. One period of
    the loop if left out."""
    max_pause_s: Positive | None = None
    """Longest time [s] between two ticks; a longer one stops the robot. As long as `stop_after` periods of the policy,
    at least two, if left out. With `inf`, missed ticks never stop a policy that acts again afterwards."""
    max_age_s: Positive | dict[str, Positive] | None = None
    """Largest age [s] of an observation that the policy acts on, or a table by signal; `inf` allows any. If left out,
    three periods of the policy, or the largest age that a model with lookahead was fitted for if that is more."""
    frozen: dict[str, Annotated[int, Field(ge=2)]] = {}
    """By observation signal: how many bit-equal values in a row mean that its sensor is stuck."""
    inside: ByElement[Inside] = {}
    """Range in which an element of an observation has to stay, and what happens if it leaves it."""
    jump: ByElement[Jump] = {}
    """Largest change of an element in one period of the policy, and what happens if it is exceeded. The limit counts
    once for each period between two stamps."""
    out_of_bounds: Beyond | dict[str, Beyond] = "hold"
    """What happens if an observation is beyond the contract's bounds, for all signals or by signal; `act` ignores it.
    Where the adapter declares wider bounds, these apply."""
    workspace: ByElement[Range] = {}
    """Range that no action may move an element of an observation out of; the action is limited before that happens."""
    moves: dict[str, Moves] = {}
    """By element of the action: the element of an observation that it moves, and by how much in a period of the policy.
    The contract's entries apply to elements that are left out."""
    known: ByElement[KnownValue] = {}
    """True values of elements of an observation after a reset, while the robot rests at home. The biases of their
    sensors are measured before each episode, and subtracted during it; see `BiasCalibration`."""
    known_readings: Annotated[int, Field(ge=3)] = 10
    """Number of readings at rest over which a bias is averaged; on a robot they are a period of the policy apart."""
    stop_on_alarm: Alarm | None = None
    """Number of steps in a row with an out-of-distribution score above 1 that stop the robot; see `Alarm`."""
    time_to_adapt: TimeToAdapt | None = None
    """Number of steps in which a policy has to adapt to a change; it replaces the guard `ood`."""
    hold_ticks: Annotated[int, Field(ge=0)] = 3
    """Number of periods of the policy in a row for which the last action is repeated; then the gate approaches the
    neutral action, if `rest` is set. Periods are those of the contract's rate, even with `slower`."""
    stop_after: Annotated[int, Field(ge=1)] = 10
    """Number of periods of the policy in a row without a new action, missed ones included, after which the robot is
    stopped."""

    @classmethod
    def load(cls, path: str | Path) -> Limits:
        """Read a file, NAME.toml or NAME.json.

        Raises:
            SamiError: The file cannot be read, or as in `of`.
        """
        return cls.of(read_document(Path(path), "limits"), str(path))

    @classmethod
    def of(cls, document: Mapping[str, Any], where: str) -> Limits:
        """Return the limits that a table sets.

        Args:
            document: Limits by key.
            where: The table's source, for messages: a path.

        Raises:
            SamiError: A value is invalid, or a key is not the name of a limit.
        """
        return checked_table(cls, document, where, "docs/reference/safety-gate.md lists the keys")

    def require_fit(self, contract: Contract) -> None:
        """Check that the limits make sense for a model's signals, before anything moves.

        Raises:
            UnknownName: The model has no such element or signal.
            SamiError: `rest` is missing where it is needed, incomplete, or beyond the bounds; `low` is above `high`;
                the contract lacks a reference that a limit needs; or a limit is implausibly large, so that it would
                never limit anything.
        """
        action, signals = contract.action, {signal.name: signal for signal in contract.observation}
        for limits, kind, names in (
            (("low", "high", "rate", "acceleration", "rest", "moves"), "element of the action", action.elements),
            (("frozen", "max_age_s", "out_of_bounds"), "observation signal", [*signals]),
            (("inside", "jump", "workspace", "known"), "element of an observation", elements_of(contract.observation)),
        ):
            for limit in limits:
                if isinstance(value := getattr(self, limit), Mapping):
                    require_known(kind, value, names, f"The limit {limit} names it.")
        if isinstance(self.rest, str) and self.rest not in signals:
            raise UnknownName("observation signal", self.rest, signals, "The limit rest names it.")
        self._require_elements(contract)
        self._require_reference(contract)
        needed = [name for name in ("rate", "acceleration", "blend_in_s") if getattr(self, name) not in (None, 0.0)]
        needed += [f'then = "rest" for {name}' for name, then in self._thens() if then == "rest"]
        if needed and self.rest is None:
            raise SamiError(
                f"the limits set {' and '.join(needed)}, but no rest: the first action would have nothing to start "
                "from. Set rest, the neutral action, to what moves nothing, such as rest = 0.0."
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
        # Implausibly large limits are probably mistakes; infinite ones are set on purpose.
        _require_times(self, 1.0 / contract.rate_hz)
        _require_actions(self, contract)
        _require_observations(self, contract)

    def max_pause(self, contract: Contract) -> float:
        """Return the longest time [s] between two ticks: `max_pause_s`, or `stop_after` periods, at least two."""
        return self.max_pause_s or max(self.stop_after, 2) / contract.rate_hz

    def max_age(self, contract: Contract, predicted: bool = True) -> dict[str, float]:
        """Return the largest age [s] by signal: `max_age_s`, or its default, for a lookahead longer if `predicted`."""
        ahead = contract.lookahead.steps if contract.lookahead and predicted else 0
        default = max(AGE_PERIODS, ahead) / contract.rate_hz
        by_signal = self.max_age_s if isinstance(self.max_age_s, dict) else {}
        every = default if isinstance(self.max_age_s, dict) else self.max_age_s or default
        return {signal.name: by_signal.get(signal.name, every) for signal in contract.observation}

    def repeats(self, contract: Contract, guards: Collection[str]) -> dict[str, int]:
        """Return by signal how many equal values in a row mean a stuck sensor: `frozen`, else the guard's number."""
        longest = contract.training_ranges.repeats if contract.training_ranges and "frozen" in guards else {}
        return {name: max(FROZEN_LEAST, 2 * most + 1) for name, most in longest.items()} | self.frozen

    def longest_alarm(self, guards: Collection[str]) -> Alarm | None:
        """Return `stop_on_alarm`, or the default of the guard `ood` if it is active; None for no limit."""
        return self.stop_on_alarm or (DEFAULT_ALARM if "ood" in guards and self.time_to_adapt is None else None)

    def in_simulator(self, gapped: bool) -> Limits:
        """Return these limits with defaults that suit a simulator.

        Args:
            gapped: Whether a sim-to-real profile is simulated. Without one the simulator waits for each write, so ages
                and pauses are not limited. With one, noise may exceed a signal's bounds, so the policy acts anyway.
        """
        changes: dict[str, Any] = (
            {"out_of_bounds": "act"} if gapped else {"max_age_s": math.inf, "max_pause_s": math.inf}
        )
        fields = self.model_fields_set if gapped else {name for name in changes if getattr(self, name) is not None}
        return self.model_copy(update={name: value for name, value in changes.items() if name not in fields})

    def bounds(self, action: Signal) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the lowest (A,) and highest (A,) action: the tighter of these limits' and the contract's bounds."""
        contract_low = [-math.inf if value is None else value for value in action.low]
        contract_high = [math.inf if value is None else value for value in action.high]
        low = np.maximum(contract_low, by_element(self.low, action, -math.inf))
        high = np.minimum(contract_high, by_element(self.high, action, math.inf))
        return low.astype(np.float32), high.astype(np.float32)

    def moves_of(self, contract: Contract) -> dict[str, Moves]:
        """Return by element of the action what it moves: the limits' entry, else the contract's."""
        return {**(contract.action.moves or {}), **self.moves}

    def beyond(self, signal: str) -> Beyond:
        """Return what happens if a signal is beyond its bounds."""
        by_signal = self.out_of_bounds
        return by_signal.get(signal, "hold") if isinstance(by_signal, dict) else by_signal

    def _thens(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each limit on observations, and its `then`."""
        for limit in ("inside", "jump"):
            for name, entry in getattr(self, limit).items():
                yield f"{limit}.{name}", entry.then
        beyond = self.out_of_bounds
        yield from beyond.items() if isinstance(beyond, dict) else [("out_of_bounds", beyond)]
        for limit in ("stop_on_alarm", "time_to_adapt"):
            if entry := getattr(self, limit):
                yield limit, entry.then

    def _require_elements(self, contract: Contract) -> None:
        elements = elements_of(contract.observation)
        for name, moves in self.moves.items():
            if moves.element not in elements:
                hint = f"The limit moves.{name} names it."
                raise UnknownName("element of an observation", moves.element, elements, hint)
        for name in self.workspace:
            movers = [element for element, moves in self.moves_of(contract).items() if moves.element == name]
            if len(movers) != 1:
                names = " and ".join(movers) or "none"
                raise SamiError(
                    f"workspace.{name} needs exactly one element of the action that moves it; declared as moving it: "
                    f"{names}. Declare one, and by how much, such as: [moves] {contract.action.elements[0]} = "
                    f'{{ element = "{name}", scale = 0.05 }}.'
                )
            low, high = (side[contract.action.elements.index(movers[0])] for side in self.bounds(contract.action))
            if not low <= 0.0 <= high:
                raise SamiError(
                    f"workspace.{name} needs {movers[0]} to be able to be 0 at the range's end, but its bounds are "
                    f"{low:g} to {high:g}. Correct low or high, or leave the workspace out."
                )

    def _require_reference(self, contract: Contract) -> None:
        """Raise SamiError if the contract lacks what a limit compares the context with."""
        for name in ("stop_on_alarm", "time_to_adapt"):
            if getattr(self, name) is not None and contract.atlas is None:
                make = "Make one with sami atlas" if contract.context else "It infers no context; use inside or jump"
                raise SamiError(
                    f"the limits set {name}, but {contract.name!r} has no atlas to detect changes by. {make}, or leave "
                    f"{name} out."
                )
        if (limit := self.time_to_adapt) is None:
            return
        if limit.steps is None and contract.recovery is None:
            raise SamiError(
                f"the limits set time_to_adapt, but {contract.name!r} has no bound on the time it takes. Make one with "
                "sami atlas MODEL --set changes=400, or give steps; or leave time_to_adapt out."
            )
        if limit.gentle < 1.0 and self.rate is None:
            raise SamiError(
                f"time_to_adapt.gentle is {limit.gentle:g}, a share of the rate, but the limits set no rate. Set rate, "
                "or leave gentle out."
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
                    f"{', '.join(action.elements)}. Name a signal with the same order of elements, or give the values."
                )
            if biased := [name for name in self.known if name.partition(".")[0] == self.rest]:
                raise SamiError(f"known.{biased[0]} shifts rest, and the first action would jump by it. Leave it out.")
            return
        if isinstance(self.rest, Mapping) and (missing := [e for e in action.elements if e not in self.rest]):
            raise SamiError(f"rest lacks {', '.join(missing)}; it must give every element of the action.")
        with np.errstate(over="ignore"):
            rest = by_element(self.rest, action, math.nan).astype(np.float32)
        if not np.isfinite(rest).all():
            raise SamiError(f"rest is {self.rest!r}, which is no finite float32. Set rest to the neutral action.")
        if ((rest < low) | (rest > high)).any():
            raise SamiError(
                f"rest is {rest.tolist()}, beyond the bounds {low.tolist()} to {high.tolist()} [{action.unit}]. "
                "Correct rest, low or high."
            )


def by_element(value: float | Mapping[str, float] | None, action: Signal, default: float) -> NDArray[np.float64]:
    """Return a limit's value for each element, (A,); `default` for elements without one."""
    if isinstance(value, Mapping):
        return np.array([value.get(element, default) for element in action.elements], np.float64)
    return np.full(action.size, default if value is None else value, np.float64)


def _require_times(limits: Limits, period: float) -> None:
    for name, periods in PERIODS.items():
        value = getattr(limits, name)
        for key, seconds in value.items() if isinstance(value, Mapping) else [("", value)]:
            if seconds is not None and periods * period * (1 + 1e-9) < seconds < math.inf:
                label = f"{name}.{key}" if key else name
                allows = f"more than {periods} periods of the policy ({periods * period:g} s)"
                raise SamiError(_sentence(label, seconds, "s", allows))


def _require_actions(limits: Limits, contract: Contract) -> None:
    action, period = contract.action, 1.0 / contract.rate_hz
    for name in ("low", "high", "rate", "acceleration"):
        if (value := getattr(limits, name)) is None:
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
        # One number for all elements is a mistake only if it can limit none of them.
        if beyond and (isinstance(value, Mapping) or len(beyond) == action.size):
            element, (number, words) = next(iter(beyond.items()))
            label = f"{name}.{element}" if isinstance(value, Mapping) else name
            by = {"rate": "/s", "acceleration": "/s^2"}.get(name, "")
            raise SamiError(_sentence(label, number, action.unit + by, words, "leave it out"))


def _require_observations(limits: Limits, contract: Contract) -> None:
    signals = {signal.name: signal for signal in contract.observation}
    observed: dict[str, tuple[float, ...]] = {f"inside.{name}": inside.range for name, inside in limits.inside.items()}
    observed |= {f"jump.{name}": (jump.most,) for name, jump in limits.jump.items()}
    observed |= {f"workspace.{name}": ends for name, ends in limits.workspace.items()}
    for label, values in observed.items():
        name, _, element = label.partition(".")[2].partition(".")
        signal = signals[name]
        at = signal.elements.index(element)
        low, high = signal.low[at], signal.high[at]
        bound = 0.0 if low is None or high is None else max(abs(low), abs(high))
        factor = OBSERVATION_FACTOR.get(signal.unit, 100.0)
        if contract.training_ranges is not None and name in contract.training_ranges.signals:
            spread = contract.training_ranges.signals[name]
            most = max(abs(spread.lowest[at]), abs(spread.highest[at]))
            words = f"in training it was {spread.lowest[at]:g} to {spread.highest[at]:g}"
        elif bound:
            most, words = bound, f"the model's bounds are {low:g} to {high:g}"
        elif signal.unit == "rad":
            most, factor, words = TURNS, 1.0, f"that is {max(map(abs, values)) / math.tau:.0f} turns"
        else:
            continue
        for number in values:
            if most and max(factor * most, bound) < abs(number) < math.inf:
                raise SamiError(_sentence(label, number, signal.unit, words))


def _sentence(label: str, number: float, unit: str, words: str, out: str = "set inf, which limits nothing") -> str:
    guess = ""
    if units := mistaken_units(unit):
        other, per = units.popitem()
        guess = f" In {other}? Then it is {number / per:.4g} {unit}."
    return (
        f"{label} is {number:g} [{unit}], which must be a mistake: {words}, so it would never limit anything.{guess} "
        f"Correct it, or {out}."
    )
