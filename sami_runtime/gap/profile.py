"""The sim-to-real profile: a TOML or JSON document that people write, by the names of signals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator

from sami_runtime.errors import SamiError, UnknownName, excerpt, require_known
from sami_runtime.files import read_document, unique
from sami_runtime.signals import Signal

Span = float | tuple[float, float]
"""A number, or the lowest and highest of a range from which each episode draws its own."""
BySignal = Span | dict[str, Span]
"""One value for all signals (or elements of the action), or a table by the name of the signal (or element)."""
_MOST = 1e12
_NOT_NEGATIVE = (0.0, _MOST, "a number of at least 0")
_TIME = (0.0, math.inf, "a number of at least 0")
_VALID: dict[str, tuple[float, float, str]] = {
    **dict.fromkeys(("latency_s", "jitter_s", "action_latency_s", "actuator_lag_s"), _NOT_NEGATIVE),
    **dict.fromkeys(("noise", "noise_relative", "quantisation"), _NOT_NEGATIVE),
    **dict.fromkeys(("bias", "bias_relative", "clock_offset_s"), (-_MOST, _MOST, "a finite number")),
    **dict.fromkeys(("stuck_at_s", "stuck_for_s"), _TIME),
    "dropout": (0.0, 1.0, "a number from 0 to 1"),
    "clock_skew": (-0.5, 0.5, "a number from -0.5 to 0.5"),
    "action_pace": _NOT_NEGATIVE,
    "action_limit": _TIME,
    "action_commit_s": _NOT_NEGATIVE,
}
"""Lowest and highest number of each key, and the valid values in words."""
OF_ALL_SIGNALS = (
    *("latency_s", "jitter_s", "dropout", "clock_skew", "clock_offset_s"),
    *("action_latency_s", "actuator_lag_s"),
)
"""Keys with one value for all signals, or for all signals of a sensor. Ranges are drawn in this order, then those of
each signal in the order below; another order would change the episode of every seed."""
OF_EACH_LINE = ("latency_s", "jitter_s", "dropout")
"""Keys of `OF_ALL_SIGNALS` that may be a table by signal or sensor: the signals of a sensor arrive together."""
OF_EACH_SIGNAL = ("noise", "noise_relative", "quantisation", "bias", "bias_relative", "stuck_at_s", "stuck_for_s")
"""Keys with a value for each signal."""
OF_EACH_ELEMENT = ("bias", "bias_relative")
"""Keys of `OF_EACH_SIGNAL` whose range is drawn once for each element of a signal."""
OF_ACTIONS = ("action_pace", "action_limit", "action_commit_s")
"""Keys for elements of the action. They are drawn last; a range without a table is drawn once for all elements."""


def _span(name: str, key: str, value: Any) -> Span:
    """Return the value of a key as a number or a range; raise ValueError if it is neither, or out of bounds."""
    low, high, words = _VALID[key]
    numbers = list(value) if isinstance(value, (list, tuple)) else [value]
    good = all(type(number) in (int, float) and low <= number <= high for number in numbers)
    if not good or not 1 <= len(numbers) <= 2:
        raise ValueError(f"{name} is {excerpt(value)}; it must be {words}, or a range [low, high] of such numbers.")
    if not isinstance(value, (list, tuple)):
        return float(value)
    if len(numbers) != 2 or numbers[0] > numbers[1] or math.isinf(numbers[1]):
        raise ValueError(f"{name} is {excerpt(value)}; a range is [low, high], finite and in this order.")
    return float(numbers[0]), float(numbers[1])


class GapProfile(BaseModel):
    """Differences between a simulator and a robot. A key that is left out changes nothing.

    Each value is a number, or a range `[low, high]` from which every episode draws uniformly by its seed (domain
    randomisation). A key for signals takes one value for all of them, or a table by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sensors: dict[str, tuple[str, ...]] = {}
    """Signals of one sensor by the sensor's name, e.g. `{ camera = ["cube_position", "cube_rotation"] }`: they arrive,
    are delayed and are lost together. Tables may name a sensor instead of each of its signals."""
    latency_s: BySignal = 0.0
    """Observation latency [s]; like every delay and duration here, it is rounded to whole periods."""
    jitter_s: BySignal = 0.0
    """Largest additional latency [s], uniform from 0. An observation that a newer one overtakes is never read."""
    dropout: BySignal = 0.0
    """Probability that the observation of a tick is lost: the one before is read again, with its old stamp."""
    clock_skew: Span = 0.0
    """Relative speed error of the clock that stamps observations: 0.001 gains 1 ms in each second of an episode."""
    clock_offset_s: Span = 0.0
    """How far the clock that stamps observations is ahead when an episode begins [s]."""
    noise: BySignal = 0.0
    """Standard deviation of white normal noise, in the signal's unit."""
    noise_relative: BySignal = 0.0
    """Standard deviation of white normal noise, as a share of the value."""
    bias: BySignal = 0.0
    """Constant error within an episode, in the signal's unit; a range is drawn for each element."""
    bias_relative: BySignal = 0.0
    """Constant error within an episode, as a share of the value: an error of gain."""
    quantisation: BySignal = 0.0
    """Step to whose multiples values are rounded, in the signal's unit; 0 does not round."""
    stuck_at_s: BySignal = math.inf
    """Time in the episode [s] at which the sensor gets stuck: it repeats its value, with new stamps."""
    stuck_for_s: BySignal = math.inf
    """How long the sensor is stuck [s]."""
    same_as: dict[str, str] = {}
    """By signal: another signal of the same sensor, whose value, with its errors, it copies."""
    action_latency_s: Span = 0.0
    """Delay [s] until an action reaches its actuator, which is at zero until the first one does."""
    actuator_lag_s: Span = 0.0
    """Time constant [s] of the actuator, a first-order system that starts at zero."""
    action_pace: BySignal = 1.0
    """Share of an action that is executed, for a robot that is slower than the simulator. A table is by element."""
    action_limit: BySignal = math.inf
    """Largest magnitude of an element, in the action's unit: an actuator that saturates."""
    action_commit_s: BySignal = 0.0
    """How long [s] an element that reached its limit ignores new commands, like a hand that finishes one command before
    it takes another."""

    @field_validator(*_VALID, mode="plain")
    @classmethod
    def _check(cls, value: Any, info: ValidationInfo) -> BySignal:
        key = str(info.field_name)
        if isinstance(value, Mapping) and key in (*OF_EACH_SIGNAL, *OF_EACH_LINE, *OF_ACTIONS):
            return {str(name): _span(f"{key}.{name}", key, item) for name, item in value.items()}
        return _span(key, key, value)

    @model_validator(mode="after")
    def _sticks_at_some_time(self) -> GapProfile:
        if "stuck_for_s" in self.model_fields_set and "stuck_at_s" not in self.model_fields_set:
            raise ValueError("stuck_for_s is set, but stuck_at_s, the time at which the sensor gets stuck, is not.")
        return self

    @field_validator("sensors", mode="plain")
    @classmethod
    def _check_sensors(cls, value: Any) -> dict[str, tuple[str, ...]]:
        good = isinstance(value, Mapping) and all(
            isinstance(names, (list, tuple)) and names for names in value.values()
        )
        if not good or not all(isinstance(name, str) for names in value.values() for name in names):
            raise ValueError(
                f'sensors is {excerpt(value)}; it must be a table such as {{ camera = ["cube_position"] }}.'
            )
        every = [name for names in value.values() for name in names]
        if twice := sorted({name for name in every if every.count(name) > 1}):
            raise ValueError(f"sensors names {twice[0]} twice; a signal comes from one sensor.")
        return {str(sensor): tuple(names) for sensor, names in value.items()}

    @field_validator("same_as", mode="plain")
    @classmethod
    def _check_pairs(cls, value: Any) -> dict[str, str]:
        if not isinstance(value, Mapping) or not all(isinstance(signal_name, str) for signal_name in value.values()):
            raise ValueError(
                f'same_as is {excerpt(value)}; it must be a table such as {{ achieved_goal = "cube_position" }}.'
            )
        for name, source in value.items():
            if source in value:
                raise ValueError(f"same_as.{name} is {source!r}, which is itself read from {value[source]!r}.")
        return dict(value)

    @classmethod
    def load(cls, path: str | Path) -> GapProfile:
        """Read a file, NAME.toml or NAME.json, or a profile of this package by its name.

        Raises:
            SamiError: The file cannot be read, or a value is invalid.
            UnknownName: A key is unknown, or there is no profile of that name.
        """
        path = Path(path)
        if not path.suffix and not path.exists():
            folder = Path(str(files("sami_runtime").joinpath("gap")))
            names = [file.stem for file in folder.glob("*.toml")]
            if path.name not in names or len(path.parts) > 1:
                raise UnknownName("sim-to-real profile", str(path), names, "A file is named NAME.toml or NAME.json.")
            path = folder / f"{path.name}.toml"
        return cls.of(read_document(path, "sim-to-real profiles"), str(path))

    @classmethod
    def loads(cls, text: str) -> GapProfile:
        """Return the profile that `dumps` wrote as `text`.

        Raises:
            SamiError, UnknownName: As `load`.
        """
        try:
            document = json.loads(text, object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise SamiError(f"gap is {text!r}, which is no JSON: {error}.") from None
        if not isinstance(document, dict):
            raise SamiError(f"gap is {text!r}; it must be a sim-to-real profile, a table of effects.")
        return cls.of(document, "gap")

    @classmethod
    def of(cls, document: Mapping[str, Any], where: str = "gap") -> GapProfile:
        """Return the profile that a table sets.

        Args:
            document: Plain values by key.
            where: Source of the table, for messages: the file's name.

        Raises:
            SamiError, UnknownName: As `load`.
        """
        require_known("key of a profile", document, cls.model_fields, f"It is in {where}.")
        try:
            return cls.model_validate(dict(document))
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
            raise SamiError(f"{where}: {message} Correct it, or leave it out.") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the keys that differ from their defaults, as values that JSON can represent."""
        return json.loads(self.dumps())

    def dumps(self) -> str:
        """Return the profile as one line of JSON; equal profiles give equal lines."""
        return json.dumps(self.model_dump(exclude_defaults=True), sort_keys=True)

    def require_fit(self, signals: Iterable[Signal], elements: Sequence[str] = ()) -> None:
        """Check that the profile fits these signals, before anything moves.

        Raises:
            UnknownName: The profile names a signal or an element of the action that does not exist.
            SamiError: A sensor has a signal's name, a table names a signal that arrives with another one, or the two
                signals of a `same_as` differ in size.
        """
        sizes = {signal.name: signal.size for signal in signals}
        for sensor, names in self.sensors.items():
            if sensor in sizes:
                raise SamiError(f"the gap's sensor {sensor!r} has the name of a signal; give it another name.")
            require_known("observation signal", names, sizes, f"The gap's sensor {sensor} names it.")
        for key in (*OF_EACH_SIGNAL, *OF_EACH_LINE):
            for name in self._table(key):
                if name not in (*sizes, *self.sensors):
                    raise UnknownName("observation signal", name, [*sizes, *self.sensors], f"The gap {key} names it.")
                if key in OF_EACH_LINE and (line := self.line_of(name)) != name:
                    raise SamiError(f"{key}.{name}: {name} arrives together with {line}; set {key}.{line} instead.")
        for key in OF_ACTIONS:
            require_known("element of the action", self._table(key), elements, f"The gap {key} names it.")
        for name, source in self.same_as.items():
            require_known("observation signal", (name, source), sizes, "The gap same_as names it.")
            if sizes[name] != sizes[source]:
                raise SamiError(
                    f"same_as.{name} is {source!r}, which has {sizes[source]} numbers and not {sizes[name]}. "
                    "Name a signal of the same size."
                )

    @property
    def on_actions(self) -> bool:
        """Whether the profile changes actions."""
        late = self.action_latency_s != 0.0 or self.actuator_lag_s != 0.0
        return late or self.action_pace != 1.0 or self.action_limit != math.inf

    def of_signal(self, key: str, name: str) -> Span:
        """Return a key's value for one signal: the signal's own, else its sensor's, else the default."""
        value = getattr(self, key)
        default: Span = type(self).model_fields[key].default
        if not isinstance(value, dict):
            return value
        return value[name] if name in value else value.get(self._sensor(name) or name, default)

    def line_of(self, name: str) -> str:
        """Return the signal's line: its sensor, the signal it copies, or itself; "" if it has no line of its own."""
        if name in self.sensors:
            return name
        source = self.same_as.get(name, name)
        is_listed = any(source in self._table(key) for key in OF_EACH_LINE)
        return self._sensor(source) or (source if is_listed else "")

    def _table(self, key: str) -> Mapping[str, Span]:
        """Return a key's table by name; an empty table if the key has one value for all."""
        value = getattr(self, key)
        return value if isinstance(value, Mapping) else {}

    def _sensor(self, name: str) -> str | None:
        return next((sensor for sensor, names in self.sensors.items() if name in names), None)
