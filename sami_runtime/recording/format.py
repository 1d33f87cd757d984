"""The format of a recording: its schema, its version, and both directions between a tick and its JSON."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from sami_runtime.adapters.base import Observation
from sami_runtime.distribution import install_hint, installed_version
from sami_runtime.errors import RecordingError
from sami_runtime.loop.pilot import Ending
from sami_runtime.loop.tick import Outcome, SectionTimes, StepRecord, Swapped
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Phase, Reading
from sami_runtime.signals import is_numeric

RECORDING_VERSION = 2
READABLE = (1, 2)
"""Versions that are read; the first one had no chunks, and no topic but that of the ticks."""
TOPIC, METADATA, EPISODE, CLOSED = "/step", "sami", "sami.episode", "sami.closed"
"""Where a recording holds its ticks, what it is one of, what came of each episode (the last that is told counts), and
that it is complete."""
PACKAGES = ("sami", "numpy", "onnxruntime")
SCHEMA: dict[str, Any] = {
    "title": "sami.Step",
    "type": "object",
    "properties": {
        **{name: {"type": "integer"} for name in ("episode", "step", "missed", "passed")},
        **{name: {"type": "string"} for name in ("outcome", "reason", "state")},
        **{name: {"type": "number"} for name in ("time", "lag", "measured")},
        **{name: {"type": "array", "items": {"type": "number"}} for name in ("action", "executed", "context")},
        "age": {"type": ["number", "object"]},
        "limited_by": {"type": "array", "items": {"type": "string"}},
        **{name: {"type": "object"} for name in ("observation", "measured_by_signal", "info", "times", "telemetry")},
    },
}
"""What a message holds. A number that is not finite is the string "nan", "inf" or "-inf"."""


def schema_of(contract: Contract) -> dict[str, Any]:
    """Return the schema of a policy's messages: those of one with extra outputs also hold `extra`."""
    extra = {"extra": {"type": "object"}} if contract.extra_outputs else {}
    return {**SCHEMA, "properties": {**SCHEMA["properties"], **extra}}


def describe(session: Session, limits: Limits | None = None) -> dict[str, Any]:
    """Return what a recording says at its beginning: the model, the limits, versions and machine."""
    contract = session.contract
    return {
        "version": RECORDING_VERSION,
        "model": {
            "path": str(session.artifact.path),
            "name": contract.name,
            "weights_sha256": session.artifact.graph_sha256,
        },
        "contract": _plain_contract(contract),
        **({"atlas": contract.atlas.model_dump(mode="json", exclude={"covariance"})} if contract.atlas else {}),
        "limits": plain((limits or Limits()).model_dump()),
        "providers": list(session.active_providers),
        "versions": {name: version_of(name) for name in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }


def message_of(episode: int, record: StepRecord) -> dict[str, Any]:
    """Return a tick as a message holds it; `recorded_step` is the way back."""
    seen = record.observation
    return {
        "episode": episode,
        "step": record.step,
        "outcome": record.outcome.value,
        "reason": record.reason,
        "time": record.time,
        "measured": None if seen is None else plain(seen.time),
        **({} if seen is None or seen.times is None else {"measured_by_signal": plain(seen.times)}),
        **({} if seen is None else {"age": plain(record.age)}),
        **({} if record.passed == 1 else {"passed": record.passed}),
        "observation": None if seen is None else plain({k: v for k, v in seen.values.items() if _numbers(v)}),
        "action": plain(record.action),
        "executed": plain(record.executed),
        "limited_by": list(record.limited_by),
        "context": plain(record.context),
        "state": record.state,
        "lag": record.lag,
        "missed": record.missed,
        "times": record.times._asdict(),
        "info": plain(record.info),
        **({"extra": plain(record.extra)} if record.extra else {}),
        "telemetry": record.telemetry and plain(record.telemetry.plain()),
        **({"swapped": _plain_swap(record.swapped)} if record.swapped else {}),
    }


def _plain_contract(contract: Contract) -> dict[str, Any]:
    return contract.model_dump(mode="json", exclude={"golden", "atlas", "evaluation"})


def _plain_swap(swapped: Swapped) -> dict[str, Any]:
    return {**swapped._asdict(), "contract": _plain_contract(swapped.contract)}


def _swapped(value: dict[str, Any] | None) -> Swapped | None:
    if value is not None and not (isinstance(value["path"], str) and isinstance(value["weights_sha256"], str)):
        raise ValueError("a model that took over has no path or weights")
    return None if value is None else Swapped(**{**value, "contract": Contract.model_validate(value["contract"])})


def _numbers(value: Any) -> bool:
    """Whether a signal's value is numbers; another kind is read by no policy, and is not recorded."""
    try:
        return is_numeric(np.asarray(value))
    except ValueError:
        return False


def plain(value: Any) -> Any:
    """Return what JSON has for a value; the text of what it has nothing for."""
    if isinstance(value, np.ndarray | np.generic):
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


def version_of(package: str) -> str:
    """Return the installed version of a package, or `"unknown"`."""
    return installed_version(package) or "unknown"


def mcap_parts() -> Any:
    """Return the parts of mcap that are used. Imported here, because the runtime works without it."""
    try:
        import lz4.frame  # mcap brings both
        import zstandard
        from mcap import data_stream, exceptions, records, stream_reader
    except ModuleNotFoundError as error:
        raise RecordingError(f"recordings need the package {error.name}: {install_hint('record')}") from None
    kinds = "Channel Chunk ChunkIndex DataEnd Header Message MessageIndex Metadata MetadataIndex Schema Statistics"
    return SimpleNamespace(
        **{name: getattr(records, name) for name in kinds.split()},
        RecordBuilder=data_stream.RecordBuilder,
        StreamReader=stream_reader.StreamReader,
        breakup_chunk=stream_reader.breakup_chunk,
        lz4=lz4.frame,
        zstandard=zstandard,
        EndOfFile=exceptions.EndOfFile,
        McapError=exceptions.McapError,
        MAGIC=MAGIC,
    )


MAGIC = b"\x89MCAP0\r\n"


class RecordedStep(NamedTuple):
    """One tick of a recording."""

    episode: int
    """Number of the episode in the recording, from 0."""
    record: StepRecord


class RecordedEpisode(NamedTuple):
    """What came of an episode."""

    ended: Ending
    """What ended it."""
    success: bool | None
    """Whether it succeeded; None where nobody told."""


def recorded_step(message: dict[str, Any]) -> RecordedStep:
    """Return a tick from its message."""
    observation = None
    if message["observation"] is not None:
        # As wide as they were read: the session is what converts to float32, now as then.
        values: dict[str, Any] = {name: _array(value, np.float64) for name, value in message["observation"].items()}
        times = message.get("measured_by_signal")
        times = None if times is None else {name: float(time) for name, time in times.items()}
        observation = Observation(values, float(message["measured"]), times)
    record = StepRecord(
        step=whole_number(message["step"]),
        outcome=Outcome(message["outcome"]),
        observation=observation,
        action=_array(message["action"]),
        executed=_array(message["executed"]),
        context=_array(message["context"]),
        info={**message["info"]},
        times=SectionTimes(**{name: float(value) for name, value in message["times"].items()}),
        reason=str(message["reason"]),
        limited_by=tuple(map(str, message["limited_by"])),
        time=float(message["time"]),
        age=recorded_age(message.get("age", 0.0)),
        passed=whole_number(message.get("passed", 1)),
        lag=float(message["lag"]),
        missed=whole_number(message["missed"]),
        extra={name: _array(value) for name, value in message.get("extra", {}).items()},
        telemetry=_reading(message.get("telemetry")),
        state=str(message["state"]),
        swapped=_swapped(message.get("swapped")),
    )
    return RecordedStep(whole_number(message["episode"]), record)


def recorded_age(value: Any) -> float | dict[str, float]:
    """Return how old what was observed is [periods], of all signals or by signal."""
    return {name: float(age) for name, age in value.items()} if isinstance(value, dict) else float(value)


def whole_number(value: Any) -> int:
    """Return a count.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _reading(value: dict[str, Any] | None) -> Reading | None:
    if value is None:
        return None
    numbers = {name: value[name] for name in ("speed", "drift", "distance", "score") if value[name] is not None}
    phase = None if value["phase"] is None else Phase(value["phase"])
    return Reading(**{**value, **{name: float(number) for name, number in numbers.items()}, "phase": phase})


def _array(value: Any, dtype: Any = np.float32) -> Any:
    if value is None:
        return None
    with np.errstate(over="ignore"):  # beyond float32 is infinite
        array = np.array(value, dtype)  # "nan" and "inf" are read as what they say
    if dtype is np.float32 and array.ndim != 1:  # what was seen may have any shape; the session judges it
        raise ValueError(f"numbers of shape {array.shape} stand where there is a row of them")
    return array
