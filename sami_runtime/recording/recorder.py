"""Records every tick of a loop in an MCAP file, which stays readable even if the process is killed.

Each tick is one line of JSON on the channel `/step`, from which a replay reads. Numbers are written with all their
digits, so that reading returns them bit-equal. Further channels are for viewers, see `topics`. The metadata record
`sami` at the beginning describes the run, `sami.episode.NUMBER` after each episode its outcome, and `sami.closed` marks
a complete file.

Another thread writes the ticks in chunks of `CHUNK_S`; the tick of a stop and the end of an episode are written at
once. If the process is killed, at most the ticks of the last `CHUNK_S` and the tick before them are lost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from sami_runtime.adapters.scene import Scene
from sami_runtime.distribution import installed_version
from sami_runtime.errors import RecordingError, text_of
from sami_runtime.loop.tick import StepRecord
from sami_runtime.recording.format import (
    CLOSED,
    EPISODE,
    METADATA,
    TOPIC,
    RecordedEpisode,
    describe,
    message_of,
    plain,
    schema_of,
)
from sami_runtime.recording.mcap_file import ChunkedFile, mcap_parts
from sami_runtime.recording.scene_topics import SceneTopics, plain_scene
from sami_runtime.recording.topics import Event, Events, Topics
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session

CHUNK_S = 0.5
"""Duration of a chunk [s], by the machine's clock."""
CHUNK_BYTES = 4_000_000
"""Size [bytes] at which a chunk ends earlier, if no clock keeps the loop's rate."""

CUT_OFF = "Its whole ticks can be read. Make room, and record to another name."


class Recorder:
    """Writes a recording; pass it to a loop as `on_step`.

    Args:
        path: The file, NAME.mcap; it must not exist.
        session: The policy that is recorded; the file's metadata describes it.
        limits: The gate's limits, for the metadata.
        facts: Further metadata, such as the environment and the seed.
        scene: The robot's appearance; the poses of its links are recorded after each tick.

    Raises:
        RecordingError: The file exists or cannot be written, or the package mcap or protobuf is missing.
    """

    def __init__(
        self,
        path: str | Path,
        session: Session,
        limits: Limits | None = None,
        facts: Mapping[str, Any] | None = None,
        scene: Scene | None = None,
    ) -> None:
        self.path = Path(path)
        self._episode = self._sequence = -1
        if self.path.suffix != ".mcap":
            raise RecordingError(f"cannot record to {path}; a recording is NAME.mcap.")
        mcap = mcap_parts()
        looks = {"scene": plain_scene(scene)} if scene else {}
        described = json.dumps({**plain(facts or {}), **looks, **describe(session, limits)})
        try:
            self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - closed by close()
        except FileExistsError:
            raise RecordingError(f"{path} exists; a recording never replaces one. Choose another name.") from None
        except OSError as error:
            raise RecordingError(f"cannot record to {path}: {error.strerror}. Make its folder or change it.") from error
        self._chunks = ChunkedFile(self._file, mcap, f"sami {installed_version('sami') or 'unknown'}")
        self._chunks.add_metadata(METADATA, {"about": described})
        schema = schema_of(session.contract)
        data = json.dumps(schema).encode()
        self._step = self._chunks.channel(TOPIC, schema["title"], ("jsonschema", "json"), data, {})
        self._topics, self._events = Topics(self._chunks, session.contract), Events()
        self._scene = SceneTopics(self._chunks, scene) if scene else None
        self._time, self._chunk_at, self._offset_ns = 0.0, 0.0, 0
        self._period = 1.0 / session.contract.rate_hz

    def __call__(self, record: StepRecord) -> None:
        """Write one tick; RecordingError if the file cannot be written."""
        self._require_writable()
        try:
            self._add(record)
        except Exception as error:  # a tick is missing, so the recording must not count as complete
            self._chunks.error = self._chunks.error or error
            self._require_writable()

    def _add(self, record: StepRecord) -> None:
        self._episode += record.step == 0
        self._sequence += 1
        now, log_time = time.time_ns(), self._log_time(record.time, record.step == 0)
        self._chunks.add(self._step, json.dumps(message_of(self._episode, record)).encode(), log_time, now)
        if record.swapped and record.swapped.contract != self._topics.contract:
            self._topics = Topics(self._chunks, record.swapped.contract)
        self._topics.add(self._episode, record, self._events.of(self._episode, record), log_time, now)
        if self._scene:
            self._scene.add(record.step == 0, log_time, now)
        if record.executed is None or self._chunks.filled > CHUNK_BYTES or time.monotonic() - self._chunk_at >= CHUNK_S:
            self._chunks.end_chunk()
            self._chunk_at = time.monotonic()

    def conclude(self, episode: RecordedEpisode) -> None:
        """Write the outcome of the last episode; if this is called again, the last outcome counts.

        Raises:
            RecordingError: The file cannot be written.
        """
        if self._sequence < 0:
            return  # an episode without a tick is not in the file
        self._require_writable()
        now = time.time_ns()
        text = {True: ", success", False: ", no success", None: ""}[episode.success]
        event = Event("INFO", f"episode {self._episode} ended: {episode.ended.value}{text}")
        self._topics.log(event, self._log_time(self._time), now)
        outcome = {"episode": self._episode, "ended": episode.ended.value, "success": episode.success}
        self._chunks.add_metadata(
            f"{EPISODE}.{self._episode}", {name: json.dumps(value) for name, value in outcome.items()}
        )

    def close(self) -> None:
        """Complete the file, or remove it if no tick was recorded. Does nothing the second time.

        Raises:
            RecordingError: The file cannot be written.
        """
        if self._file.closed:
            return
        try:
            try:
                self._chunks.end_chunk()
                self._chunks.add_metadata(CLOSED, {})
                self._chunks.close()
            finally:
                self._file.close()
        except BaseException as error:
            if error is not self._chunks.error and not isinstance(error, OSError | ValueError):
                raise  # an interrupt in this thread, while it waited for the other one
            raise RecordingError(f"completing {self.path} failed: {text_of(error)}. {CUT_OFF}") from error
        if self._sequence < 0:
            self.path.unlink(missing_ok=True)  # an empty file would block the name for the next run

    @property
    def error(self) -> BaseException | None:
        """The first error of writing; None if there was none."""
        return self._chunks.error

    def _log_time(self, at: float, is_first: bool = False) -> int:
        """Convert a time [s] of the loop's clock to the machine's time [ns] since 1970; it never goes back."""
        if self._sequence <= 0:
            self._offset_ns = time.time_ns() - round(1e9 * at)
        elif is_first:  # a loop without a clock counts each episode from 0; one that stands still repeats a time
            self._offset_ns += max(0, round(1e9 * (self._time + self._period - at)))
        self._time = at
        return self._offset_ns + round(1e9 * at)

    def _require_writable(self) -> None:
        if error := self._chunks.error or (ValueError("it is closed") if self._file.closed else None):
            raise RecordingError(f"recording to {self.path} failed: {text_of(error)}. {CUT_OFF}") from error

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        try:
            self.close()
        except RecordingError:
            if kind is None:  # otherwise the error that ended the loop is more important
                raise
