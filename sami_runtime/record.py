"""Recordings: every tick of a loop as one line of JSON in an MCAP file, which a killed process leaves readable.

The file has one channel, `/step`, and one metadata record, `sami`, at its beginning. Nothing is kept back: each tick is
handed to the operating system before the next one begins. Numbers are written with all their digits, so that reading
gives them back to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import IO, Any, NamedTuple

import numpy as np

from sami_runtime.adapters.base import Observation
from sami_runtime.contract import Contract
from sami_runtime.errors import RecordingError
from sami_runtime.limits import Limits
from sami_runtime.session import Session, SessionState
from sami_runtime.tick import Outcome, SectionTimes, StepRecord

RECORDING_VERSION = 1
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Largest record that is read, so that a damaged length does not fill the memory."""

TOPIC, METADATA = "/step", "sami"
PACKAGES = ("sami", "numpy", "onnxruntime")

SCHEMA = {
    "title": "sami.Step",
    "type": "object",
    "properties": {
        **{name: {"type": "integer"} for name in ("episode", "step", "missed")},
        **{name: {"type": "string"} for name in ("outcome", "reason", "state")},
        **{name: {"type": "number"} for name in ("time", "lag", "measured")},
        **{name: {"type": "array", "items": {"type": "number"}} for name in ("action", "executed", "context")},
        "limited_by": {"type": "array", "items": {"type": "string"}},
        **{name: {"type": "object"} for name in ("observation", "info", "times")},
    },
}
"""What a message holds. A number that is not finite is the string "nan", "inf" or "-inf"."""


class RecordedStep(NamedTuple):
    """One tick of a recording."""

    episode: int
    """Number of the episode in the recording, from 0."""
    record: StepRecord
    state: str
    """Digest of the session's state after the tick."""


@dataclass(frozen=True)
class Recording:
    """A recording that was read."""

    path: Path
    about: Mapping[str, Any]
    """Of what it is one: model (path, name, weights_sha256), contract, limits, providers, versions, machine."""
    contract: Contract
    """Of the model that was recorded."""
    steps: tuple[RecordedStep, ...]
    closed: bool
    """False if the process that wrote it was killed; all whole ticks before that are there."""

    def __str__(self) -> str:
        model = self.about["model"]
        episodes = len({step.episode for step in self.steps})
        return (
            f"{self.path}: {episodes} episodes, {len(self.steps)} ticks of {model['name']} "
            f"({model['weights_sha256'][:12]})"
        )


def digest(state: SessionState) -> str:
    """A short hash of all that a session remembers: equal where every bit is."""
    whole = hashlib.sha256(np.ascontiguousarray(state.previous_action).tobytes())
    for name in sorted(state.tensors):
        whole.update(np.ascontiguousarray(state.tensors[name]).tobytes())
    return whole.hexdigest()[:16]


class Recorder:
    """Writes a recording; it is a loop's `on_step`.

    Args:
        path: The file, NAME.mcap; it must not exist.
        session: The policy that is recorded.
        limits: Those of the gate, for the reader.
        facts: What else a reader should know, such as the environment and the seed.

    Raises:
        RecordingError: The file exists or cannot be written, or the package mcap is missing.
    """

    def __init__(
        self, path: str | Path, session: Session, limits: Limits | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        self.path = Path(path)
        self._session = session
        self._episode = self._sequence = -1
        if self.path.suffix != ".mcap":
            raise RecordingError(f"cannot record to {path}; a recording is NAME.mcap.")
        writer = _mcap().Writer
        try:
            self._file: IO[bytes] = open(self.path, "xb")  # noqa: SIM115 - closed by close()
        except FileExistsError:
            raise RecordingError(f"{path} exists; a recording never replaces one. Choose another name.") from None
        except OSError as error:
            raise RecordingError(f"cannot record to {path}: {error.strerror}. Choose another place.") from error
        # Without chunks, every message is whole in the file as soon as it is flushed.
        self._writer = writer(self._file, use_chunking=False, enable_data_crcs=True)
        self._writer.start(library=f"sami {_version('sami')}")
        self._writer.add_metadata(METADATA, {"about": json.dumps({**_plain(facts or {}), **describe(session, limits)})})
        schema = self._writer.register_schema(SCHEMA["title"], "jsonschema", json.dumps(SCHEMA).encode())
        self._channel = self._writer.register_channel(TOPIC, "json", schema)
        self._file.flush()

    def __call__(self, record: StepRecord) -> None:
        """Writes one tick.

        Raises:
            RecordingError: The file cannot be written.
        """
        self._episode += record.step == 0
        self._sequence += 1
        message = _message(self._episode, record, digest(self._session.state))
        now = time.time_ns()
        try:
            self._writer.add_message(self._channel, now, json.dumps(message).encode(), now, self._sequence)
            self._file.flush()
        except (OSError, ValueError) as error:
            raise RecordingError(f"recording to {self.path} failed: {error}. Its whole ticks can be read.") from error

    def close(self) -> None:
        """Completes the file. Does nothing the second time."""
        if not self._file.closed:
            try:
                self._writer.finish()
            finally:
                self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def read_recording(path: str | Path) -> Recording:
    """Reads a recording, also one whose process was killed.

    Raises:
        RecordingError: The file cannot be read, was changed, or is none of ours.
    """
    mcap = _mcap()
    about: Mapping[str, Any] | None = None
    steps: list[RecordedStep] = []
    closed = False
    try:
        with open(path, "rb") as file:
            try:
                for record in mcap.StreamReader(file, validate_crcs=True, record_size_limit=MAX_RECORD_BYTES).records:
                    if isinstance(record, mcap.Metadata) and record.name == METADATA:
                        about = json.loads(record.metadata["about"])
                    elif isinstance(record, mcap.Message):
                        steps.append(_recorded(json.loads(record.data)))
                    closed = closed or isinstance(record, mcap.DataEnd)
            except mcap.EndOfFile:
                pass  # the process was killed while it wrote
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}. Give the path of a recording.") from None
    except (mcap.McapError, struct.error, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RecordingError(f"{path} is damaged, or no recording of sami run: {error}. Copy it again.") from error
    if about is None or about.get("version") != RECORDING_VERSION:
        found = "none" if about is None else about.get("version")
        raise RecordingError(
            f"{path} has recording version {found}; this sami_runtime reads version {RECORDING_VERSION}. "
            "Give a file that sami run --record wrote."
        )
    try:
        contract = Contract.model_validate(about["contract"])
    except (ValueError, LookupError) as error:
        raise RecordingError(f"{path} holds no contract that can be read: {error}. Copy it again.") from error
    return Recording(Path(path), about, contract, tuple(steps), closed)


def describe(session: Session, limits: Limits | None = None) -> dict[str, Any]:
    """What a recording says at its beginning: the model, the limits, versions and machine."""
    contract = session.contract
    return {
        "version": RECORDING_VERSION,
        "model": {
            "path": str(session.artifact.path),
            "name": contract.name,
            "weights_sha256": session.artifact.graph_sha256,
        },
        "contract": contract.model_dump(mode="json", exclude={"golden", "atlas", "evaluation"}),
        "limits": _plain((limits or Limits()).model_dump()),
        "providers": list(session.active_providers),
        "versions": {name: _version(name) for name in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }


def _message(episode: int, record: StepRecord, state: str) -> dict[str, Any]:
    seen = record.observation
    return {
        "episode": episode,
        "step": record.step,
        "outcome": record.outcome.value,
        "reason": record.reason,
        "time": record.time,
        "measured": None if seen is None else _plain(seen.time),
        "observation": None if seen is None else _plain(seen.values),
        "action": _plain(record.action),
        "executed": _plain(record.executed),
        "limited_by": list(record.limited_by),
        "context": _plain(record.context),
        "state": state,
        "lag": record.lag,
        "missed": record.missed,
        "times": record.times._asdict(),
        "info": _plain(record.info),
    }


def _recorded(message: dict[str, Any]) -> RecordedStep:
    observation = None
    if message["observation"] is not None:
        # As wide as they were read: the session is what converts to float32, now as then.
        values: dict[str, Any] = {name: _array(value, np.float64) for name, value in message["observation"].items()}
        observation = Observation(values, float(message["measured"]))
    record = StepRecord(
        step=message["step"],
        outcome=Outcome(message["outcome"]),
        observation=observation,
        action=_array(message["action"]),
        executed=_array(message["executed"]),
        context=_array(message["context"]),
        info=message["info"],
        times=SectionTimes(**message["times"]),
        reason=message["reason"],
        limited_by=tuple(message["limited_by"]),
        time=message["time"],
        lag=message["lag"],
        missed=message["missed"],
    )
    return RecordedStep(message["episode"], record, message["state"])


def _array(value: Any, dtype: Any = np.float32) -> Any:
    return None if value is None else np.array(value, dtype)  # "nan" and "inf" are read as what they say


def _plain(value: Any) -> Any:
    """What JSON has for a value; the text of what it has nothing for."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _mcap() -> Any:
    """The parts of mcap that are used. Imported here, because the runtime works without it."""
    try:
        from mcap import exceptions, records, stream_reader, writer
    except ModuleNotFoundError as error:
        raise RecordingError(f"recordings need the package {error.name}: pip install 'sami[record]'") from None
    return SimpleNamespace(
        Writer=writer.Writer,
        StreamReader=stream_reader.StreamReader,
        Metadata=records.Metadata,
        Message=records.Message,
        DataEnd=records.DataEnd,
        EndOfFile=exceptions.EndOfFile,
        McapError=exceptions.McapError,
    )
