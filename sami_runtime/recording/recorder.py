"""Recordings: every tick of a loop as one line of JSON in an MCAP file, which a killed process leaves readable.

The file has one channel, `/step`, and one metadata record, `sami`, at its beginning; another one, `sami.episode`, after
each episode says what came of it. Nothing is kept back: each tick is
handed to the operating system before the next one begins. Numbers are written with all their digits, so that reading
gives them back to the last bit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from sami_runtime.errors import RecordingError
from sami_runtime.loop.tick import StepRecord
from sami_runtime.recording.format import (
    EPISODE,
    METADATA,
    TOPIC,
    RecordedEpisode,
    describe,
    mcap_parts,
    message_of,
    plain,
    schema_of,
    version_of,
)
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session


class Recorder:
    """Writes a recording; it is a loop's `on_step`, and keeps what the records hold and nothing else.

    Args:
        path: The file, NAME.mcap; it must not exist.
        session: The policy that is recorded, to say at the beginning which one it is.
        limits: Those of the gate, for the reader.
        facts: What else a reader should know, such as the environment and the seed.

    Raises:
        RecordingError: The file exists or cannot be written, or the package mcap is missing.
    """

    def __init__(
        self, path: str | Path, session: Session, limits: Limits | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        self.path = Path(path)
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
        self._writer.start(library=f"sami {version_of('sami')}")
        described = schema_of(session.contract)
        schema = self._writer.register_schema(described["title"], "jsonschema", json.dumps(described).encode())
        self._channel = self._writer.register_channel(TOPIC, "json", schema)
        # Last, because only metadata and messages take what was registered before them to the file.
        self._writer.add_metadata(METADATA, {"about": json.dumps({**plain(facts or {}), **describe(session, limits)})})
        self._file.flush()

    def __call__(self, record: StepRecord) -> None:
        """Write one tick.

        Raises:
            RecordingError: The file cannot be written.
        """
        self._episode += record.step == 0
        self._sequence += 1
        message = message_of(self._episode, record)
        now = time.time_ns()
        try:
            self._writer.add_message(self._channel, now, json.dumps(message).encode(), now, self._sequence)
            self._file.flush()
        except (OSError, ValueError) as error:
            raise RecordingError(f"recording to {self.path} failed: {error}. Its whole ticks can be read.") from error

    def conclude(self, came: RecordedEpisode) -> None:
        """Write what came of the episode whose ticks were written last; told again, the last one counts.

        Raises:
            RecordingError: The file cannot be written.
        """
        if self._sequence < 0:
            return  # an episode without a tick is not in the file
        told = {"episode": self._episode, "ended": came.ended.value, "success": came.success}
        try:
            self._writer.add_metadata(EPISODE, {name: json.dumps(value) for name, value in told.items()})
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
