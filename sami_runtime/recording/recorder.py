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
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import IO, Any

import numpy as np

from sami_runtime.errors import RecordingError
from sami_runtime.loop.tick import StepRecord
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session, SessionState
from sami_runtime.session.telemetry import Telemetry
from sami_runtime.values import is_numeric

RECORDING_VERSION = 1
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
        **{name: {"type": "object"} for name in ("observation", "info", "times", "telemetry")},
    },
}
"""What a message holds. A number that is not finite is the string "nan", "inf" or "-inf"."""


def digest(state: SessionState) -> str:
    """A short hash of all that a session's next step depends on: equal where every bit is."""
    whole = hashlib.sha256(state.acted.tobytes() + state.previous_action.tobytes())
    for name in sorted(state.tensors):
        whole.update(state.tensors[name].tobytes())
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
        self._telemetry = Telemetry(session.contract)
        self._episode = self._sequence = -1
        if self.path.suffix != ".mcap":
            raise RecordingError(f"cannot record to {path}; a recording is NAME.mcap.")
        writer = mcap_parts().Writer
        try:
            self._file: IO[bytes] = open(self.path, "xb")  # noqa: SIM115 - closed by close()
        except FileExistsError:
            raise RecordingError(f"{path} exists; a recording never replaces one. Choose another name.") from None
        except OSError as error:
            raise RecordingError(f"cannot record to {path}: {error.strerror}. Choose another place.") from error
        # Without chunks, every message is whole in the file as soon as it is flushed.
        self._writer = writer(self._file, use_chunking=False, enable_data_crcs=True)
        self._writer.start(library=f"sami {_version('sami')}")
        schema = self._writer.register_schema(SCHEMA["title"], "jsonschema", json.dumps(SCHEMA).encode())
        self._channel = self._writer.register_channel(TOPIC, "json", schema)
        # Last, because only metadata and messages take what was registered before them to the file.
        self._writer.add_metadata(METADATA, {"about": json.dumps({**_plain(facts or {}), **describe(session, limits)})})
        self._file.flush()

    def __call__(self, record: StepRecord) -> None:
        """Writes one tick.

        Raises:
            RecordingError: The file cannot be written.
        """
        self._episode += record.step == 0
        self._sequence += 1
        self._telemetry(record)
        message = _message(self._episode, record, digest(self._session.state))
        message["telemetry"] = _plain(self._telemetry.now.plain())
        now = time.time_ns()
        try:
            self._writer.add_message(self._channel, now, json.dumps(message).encode(), now, self._sequence)
            self._file.flush()
        except (OSError, ValueError) as error:
            raise RecordingError(f"recording to {self.path} failed: {error}. Its whole ticks can be read.") from error

    def close(self) -> None:
        """Completes the file, or removes it if no tick was recorded. Does nothing the second time.

        Raises:
            RecordingError: The file cannot be written.
        """
        if self._file.closed:
            return
        try:
            try:
                self._writer.finish()
            finally:
                self._file.close()
        except OSError as error:
            raise RecordingError(f"completing {self.path} failed: {error}. Its whole ticks can be read.") from error
        if self._sequence < 0:
            self.path.unlink(missing_ok=True)  # a name that is in the way of the next try

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        try:
            self.close()
        except RecordingError:
            if kind is None:  # else what ended the loop is the news
                raise


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
        "observation": None if seen is None else _plain({k: v for k, v in seen.values.items() if _numbers(v)}),
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


def _numbers(value: Any) -> bool:
    """Whether a signal's value is numbers; another kind is read by no policy, and is not recorded."""
    try:
        return is_numeric(np.asarray(value))
    except ValueError:
        return False


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


def mcap_parts() -> Any:
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
