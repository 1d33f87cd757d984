"""The format of a recording, derived from the fields of `StepRecord`; other modules do not define any of it.

A new field of `StepRecord` enters `/step`, which replays read, and its schema, if `KINDS` lists its type. A number or a
text enters `TICK` as well: topics, tables and viewer show it under that name. `signals_of` lists the signals of a
policy's ticks for the same three.
"""

from __future__ import annotations

import dataclasses
import math
import platform
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from sami_runtime.adapters.base import Observation
from sami_runtime.distribution import installed_version
from sami_runtime.loop.pilot import Ending
from sami_runtime.loop.tick import Array, Outcome, SectionTimes, StepRecord, Swapped
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Phase, Reading
from sami_runtime.signals import Signal, number_in, numbers_of

RECORDING_VERSION = 2
READABLE = (1, 2)
"""Versions that can be read; version 1 has no chunks, and no topic but that of the ticks."""
TOPIC, METADATA, EPISODE, CLOSED = "/step", "sami", "sami.episode", "sami.closed"
"""The topic of the ticks, and the names of metadata records: the run's description, the outcome of each episode (the
last one counts), and the mark of a complete file."""
TRANSFORMS = "/tf"
"""The topic of the poses of the robot's links after each tick, if it has a scene."""
PACKAGES = ("sami", "numpy", "onnxruntime")
Age = float | Mapping[str, float]


class RecordedStep(NamedTuple):
    """One tick of a recording."""

    episode: int
    """Number of the episode in the recording, from 0."""
    record: StepRecord


class RecordedEpisode(NamedTuple):
    """The outcome of an episode."""

    ended: Ending
    """What ended it."""
    success: bool | None
    """Whether it succeeded; None if unknown."""


def plain(value: Any) -> Any:
    """Convert a value to one that JSON can represent: to its text if there is no other way, as for NaN."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "f" and 0 not in np.isfinite(value).tobytes():  # three times as fast as `all`
            return value.tolist()
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def whole_number(value: Any) -> int:
    """Return the value; ValueError unless it is a whole number of at least 0."""
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _row(value: Any, dtype: Any = np.float32) -> Any:
    if value is None:
        return None
    with np.errstate(over="ignore"):  # numbers beyond float32 become infinite
        array = np.array(value, dtype)  # converts the texts "nan" and "inf", too
    if dtype is np.float32 and array.ndim != 1:  # observations, in float64, may have any shape; the session checks it
        raise ValueError(f"numbers of shape {array.shape} stand where there is a row of them")
    return array


def _age(value: Any) -> Age:
    return {name: float(age) for name, age in value.items()} if isinstance(value, dict) else float(value)


def _reading(value: dict[str, Any] | None) -> Reading | None:
    if value is None:
        return None
    numbers = {name: value[name] for name in ("speed", "drift", "distance", "score") if value[name] is not None}
    phase = None if value["phase"] is None else Phase(value["phase"])
    return Reading(**{**value, **{name: float(number) for name, number in numbers.items()}, "phase": phase})


def _plain_contract(contract: Contract, *excluded: str) -> dict[str, Any]:
    return contract.model_dump(mode="json", by_alias=True, exclude={"golden", "recovery", "evaluation", *excluded})


def _swapped(value: dict[str, Any]) -> Swapped:
    if not (isinstance(value["path"], str) and isinstance(value["weights_sha256"], str)):
        raise ValueError("a model that took over has no path or weights")
    return Swapped(**{**value, "contract": Contract.model_validate(value["contract"])})


class FieldKind(NamedTuple):
    """How a message represents a type of `StepRecord`'s fields."""

    schema: dict[str, Any]
    """JSON schema of the type."""
    read: Callable[[Any], Any]
    """Converts from a JSON value."""
    write: Callable[[Any], Any] = plain
    """Converts to a JSON value."""


NUMBERS, OBJECT = {"type": "array", "items": {"type": "number"}}, {"type": "object"}
KINDS: dict[Any, FieldKind] = {
    int: FieldKind({"type": "integer"}, whole_number),
    float: FieldKind({"type": "number"}, float),
    str: FieldKind({"type": "string"}, str),
    Outcome: FieldKind({"type": "string"}, Outcome),
    tuple[str, ...]: FieldKind({"type": "array", "items": {"type": "string"}}, lambda value: tuple(map(str, value))),
    Array: FieldKind(NUMBERS, _row),
    Array | None: FieldKind(NUMBERS, _row),
    Age: FieldKind({"type": ["number", "object"]}, _age),
    Mapping[str, Any]: FieldKind(OBJECT, lambda value: {**value}),
    Mapping[str, Array]: FieldKind(OBJECT, lambda value: {name: _row(row) for name, row in value.items()}),
    SectionTimes: FieldKind(
        OBJECT,
        lambda value: SectionTimes(**{name: float(seconds) for name, seconds in value.items()}),
        SectionTimes._asdict,
    ),
    Reading | None: FieldKind(OBJECT, _reading, lambda reading: reading and plain(reading.plain())),
    Swapped | None: FieldKind(
        OBJECT, _swapped, lambda swap: {**swap._asdict(), "contract": _plain_contract(swap.contract)}
    ),
}
"""By the type of a field. A number that is not finite is written as the string "nan", "inf" or "-inf"."""
TYPES = get_type_hints(StepRecord)
FIELDS = {name: KINDS[kind] for name, kind in TYPES.items() if name != "observation"}
"""Fields of a message but the observation, which is in `observation`, `measured` and perhaps `measured_by_signal`."""
DEFAULTS = {field.name: field.default for field in dataclasses.fields(StepRecord)} | {"extra": {}}
ONLY_IF_ANY = ("passed", "extra", "swapped")
"""Fields that a message leaves out if they have their default value."""
LATER = {*ONLY_IF_ANY, "age", "telemetry"}
"""Fields that a recording of an earlier version may lack."""
SCHEMA: dict[str, Any] = {
    "title": "sami.Step",
    "type": "object",
    "properties": {
        **{"episode": KINDS[int].schema, "observation": OBJECT, "measured": KINDS[float].schema},
        **{"measured_by_signal": OBJECT},
        **{name: kind.schema for name, kind in FIELDS.items() if name not in ("extra", "swapped")},
    },
}
"""JSON schema of the messages of a policy without extra outputs."""


def schema_of(contract: Contract) -> dict[str, Any]:
    """Return the JSON schema of a policy's messages, which also contain `extra` if the policy has extra outputs."""
    extra = {"extra": OBJECT} if contract.extra_outputs else {}
    return {**SCHEMA, "properties": {**SCHEMA["properties"], **extra}}


def message_of(episode: int, record: StepRecord) -> dict[str, Any]:
    """Convert a tick to a message; `recorded_step` is the inverse."""
    message: dict[str, Any] = {"episode": episode, "measured": None, "observation": None}
    observation = record.observation
    if observation is not None:
        # Values that are not numbers are not recorded, since no policy reads them.
        values = {name: value for name, value in observation.values.items() if numbers_of(value).size}
        message |= {"measured": plain(observation.time), "observation": plain(values)}
        if observation.times is not None:
            message["measured_by_signal"] = plain(observation.times)
    for name, kind in FIELDS.items():
        value = getattr(record, name)
        missing = observation is None if name == "age" else name in ONLY_IF_ANY and value == DEFAULTS[name]
        if not missing:
            message[name] = kind.write(value)
    return message


def recorded_step(message: dict[str, Any]) -> RecordedStep:
    """Convert a message to a tick, the inverse of `message_of`.

    Raises:
        ValueError, LookupError, TypeError: The message is invalid.
    """
    observation = None
    if message["observation"] is not None:
        # In float64, as they were read: the session converts to float32 in a replay as it did in the run.
        values: dict[str, Any] = {name: _row(value, np.float64) for name, value in message["observation"].items()}
        times = message.get("measured_by_signal")
        times = None if times is None else {name: float(time) for name, time in times.items()}
        observation = Observation(values, float(message["measured"]), times)
    fields = {name: kind.read(message[name]) for name, kind in FIELDS.items() if name in message or name not in LATER}
    return RecordedStep(whole_number(message["episode"]), StepRecord(observation=observation, **fields))


PROTOBUF_TYPES: dict[Any, str] = {
    **{int: "uint64", float: "double", Age: "double", bool: "bool", str: "string", Outcome: "string"},
    **{tuple[str, ...]: "string", Phase | None: "string", Mapping[str, Any] | None: "string", float | None: "?double"},
}
"""Protobuf type, as in `topics`, by the type of a field of `StepRecord`, `SectionTimes` or `Reading`; `?`: optional."""


def _types_of(kind: type, prefix: str = "", absent: bool = False) -> dict[str, str]:
    kinds = {name: PROTOBUF_TYPES[hint] for name, hint in get_type_hints(kind).items() if hint in PROTOBUF_TYPES}
    return {prefix + name: "?double" if absent and proto == "double" else proto for name, proto in kinds.items()}


TICK: dict[str, str] = {
    "episode": "uint64",
    **_types_of(StepRecord),
    **_types_of(SectionTimes, "times."),
    **_types_of(Reading, "telemetry.", absent=True),
    "info.reward": "?double",
}
for _name in ("state", "telemetry.step"):  # for replays only
    del TICK[_name]
"""Numbers and texts of a tick that tools show: protobuf type by path in the record. Times in [s], `age` in periods."""
_NAMES = [name for name in TICK if name in TYPES]
_OF_RECORD = attrgetter(*_NAMES)
_TIMES = [f"times.{name}" for name in SectionTimes._fields]
_OF_READING = {name: name.removeprefix("telemetry.") for name in TICK if name.startswith("telemetry.")}


def tick_values(episode: int, record: StepRecord) -> dict[str, Any]:
    """Return a tick's numbers and texts by the keys of `TICK`; values that the tick lacks are left out."""
    values = {"episode": episode, **dict(zip(_NAMES, _OF_RECORD(record), strict=True))}
    values["outcome"] = record.outcome.value
    values["limited_by"] = "; ".join(record.limited_by)
    if isinstance(record.age, Mapping):
        values["age"] = max(record.age.values(), default=0.0)
    values.update(zip(_TIMES, record.times, strict=True))
    if record.telemetry is not None:
        for name, field in _OF_READING.items():
            value = getattr(record.telemetry, field)
            if value is not None:
                values[name] = value
        if record.telemetry.phase is not None:
            values["telemetry.phase"] = record.telemetry.phase.value
        if record.telemetry.nearest is not None:
            values["telemetry.nearest"] = in_words(record.telemetry.nearest)
    reward = number_in(record.info, "reward")
    if reward is not None:
        values["info.reward"] = reward
    return values


def in_words(values: Mapping[str, Any]) -> str:
    """Return named values as a text.

    >>> in_words({"mass": 2.0, "crippled": 1})
    'mass 2, crippled 1'
    """
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )


def signals_of(contract: Contract) -> dict[str, Signal]:
    """Return the signals of a policy's ticks, by the names that `signal_values` uses."""
    signals = {f"observation.{signal.name}": signal for signal in contract.observation}
    signals |= {"proposed": contract.action, "executed": contract.action}
    if contract.context:
        signals["context"] = contract.context.signal
    return signals | {f"answer.{signal.name}": signal for signal in contract.extra_outputs}


def signal_values(record: StepRecord) -> dict[str, Any]:
    """Return a tick's values of signals by name, of any shape; values that the tick lacks are left out."""
    values: dict[str, Any] = {}
    if record.observation is not None:
        values = {f"observation.{name}": value for name, value in record.observation.values.items()}
    if record.action is not None:
        values["proposed"] = record.action
    if record.executed is not None:
        values["executed"] = record.executed
    values["context"] = record.context
    for name, value in record.extra.items():
        values[f"answer.{name}"] = value
    return values


def describe(session: Session, limits: Limits | None = None) -> dict[str, Any]:
    """Return the metadata of a recording: model, contract, limits, providers, versions and machine."""
    contract = session.contract
    return {
        "version": RECORDING_VERSION,
        "model": {
            "path": str(session.artifact.path),
            "name": contract.name,
            "weights_sha256": session.artifact.graph_sha256,
        },
        "contract": _plain_contract(contract, "atlas"),
        **({"atlas": contract.atlas.model_dump(mode="json", exclude={"covariance"})} if contract.atlas else {}),
        "limits": plain((limits or Limits()).model_dump()),
        "providers": list(session.active_providers),
        "versions": {name: installed_version(name) or "unknown" for name in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }
