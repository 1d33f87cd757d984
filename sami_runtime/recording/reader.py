"""Reads recordings, complete or cut off, with memory in proportion to the file's size."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

import numpy as np

from sami_runtime.adapters.base import Observation
from sami_runtime.errors import RecordingError, SamiError, enumeration
from sami_runtime.files import plain_strings, printable, unique
from sami_runtime.loop.pilot import Ending
from sami_runtime.loop.tick import Outcome, StepRecord
from sami_runtime.model.contract import Contract
from sami_runtime.recording.format import (
    CLOSED,
    EPISODE,
    METADATA,
    READABLE,
    TOPIC,
    TRANSFORMS,
    RecordedEpisode,
    RecordedStep,
    recorded_step,
    whole_number,
)
from sami_runtime.recording.mcap_file import MAGIC, mcap_parts
from sami_runtime.signals import Signal

STEPS = (Outcome.ACTED, Outcome.PILOTED, Outcome.LATE)
"""Outcomes of ticks that are steps of an episode: the policy acted, a person drove, or the last action was repeated
because the policy was too late."""
DAMAGED = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError, MemoryError)
"""Errors that reading a damaged or hostile file may raise, besides mcap's own."""
MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Largest record that is read, compressed or not, so that a damaged or hostile length does not fill the memory."""
MOST_PACKED = 100
"""Largest compression ratio of a file, apart from one record; ticks are compressed to a tenth."""


@dataclass(frozen=True)
class Recording:
    """The content of a recording."""

    path: Path
    about: Mapping[str, Any]
    """Metadata: model (path, name, weights_sha256), contract, limits, providers, versions, machine."""
    contract: Contract
    """Of the model that was recorded."""
    steps: tuple[RecordedStep, ...]
    closed: bool
    """False if the process that wrote it was killed; all complete ticks before that are available."""
    episodes: Mapping[int, RecordedEpisode] = field(default_factory=dict)
    """Outcome of each episode by its number; an episode that ended by an error is missing."""
    transforms: tuple[bytes, ...] = ()
    """Poses of the links after each step: messages of `/tf`, see `view.read_poses`; empty without a scene."""

    @property
    def rate_hz(self) -> float:
        """How often the policy acted [1/s]: the contract's rate, divided by `slower`."""
        return self.contract.rate_hz / float(self.about.get("slower", 1))

    @property
    def models(self) -> tuple[str, ...]:
        """Files of the models that drove, in their order: more than one if the model was swapped."""
        swaps = [step.record.swapped.path for step in self.steps if step.record.swapped]
        return (self.about["model"]["path"], *swaps)

    @property
    def by_episode(self) -> dict[int, list[StepRecord]]:
        """The ticks of each episode, by its number."""
        ticks: dict[int, list[StepRecord]] = {}
        for number, record in self.steps:
            ticks.setdefault(number, []).append(record)
        return ticks

    def stretches(
        self, usable: Callable[[Observation, np.ndarray], bool]
    ) -> Iterator[tuple[int, list[StepRecord], bool]]:
        """Yield uninterrupted stretches of steps: (episode's number, steps, whether the stretch is the episode's last).

        A stretch ends where the loop held, refused, fell back, paused or missed ticks, because the next observation
        does not follow from the last one by a single action. Ticks between two steps of the policy do not end it.

        Args:
            usable: Whether an observation and its executed action (A,) may be part of a stretch.
        """
        for number, ticks in self.by_episode.items():
            stretch: list[StepRecord] = []
            for record in ticks:
                frame, action = record.observation, record.executed
                good = record.outcome in STEPS and frame is not None and action is not None and usable(frame, action)
                if stretch and (record.missed or not (good or record.outcome is Outcome.STANDING)):
                    yield number, stretch, False
                    stretch = []
                if good:
                    stretch.append(record)
            if stretch:
                yield number, stretch, True

    def __str__(self) -> str:
        model = self.about["model"]
        swaps = "".join(
            f", then of {swapped.contract.name} ({swapped.weights_sha256[:12]})"
            for step in self.steps
            if (swapped := step.record.swapped)
        )
        episodes = len({step.episode for step in self.steps})
        outcomes = [episode.success for episode in self.episodes.values() if episode.success is not None]
        return (
            f"{self.path}: {episodes} episodes, {len(self.steps)} ticks of {model['name']} "
            f"({model['weights_sha256'][:12]}){swaps}"
            + (f"; {sum(outcomes)} of {len(outcomes)} succeeded" if outcomes else "")
        )


def are_finite(observation: Observation, executed: np.ndarray) -> bool:
    """Whether all observed and executed numbers are finite; for `Recording.stretches`."""
    return all(np.isfinite(value).all() for value in (executed, *observation.values.values()))


def read_recordings(paths: Sequence[str | Path]) -> Iterator[Recording]:
    """Read recordings one by one by `read_recording`; raise RecordingError if two paths name the same file."""
    places = [Path(path).resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise RecordingError(f"{path} is named twice. A recording counts once, so name each once.")
        yield read_recording(path)


def read_recording(path: str | Path) -> Recording:
    """Read a recording, also one whose process was killed.

    Raises:
        RecordingError: The file cannot be read, was changed, or is no recording of this project.
    """
    mcap = mcap_parts()
    about: Mapping[str, Any] | None = None
    steps: list[RecordedStep] = []
    transforms: list[bytes] = []
    episodes: dict[int, RecordedEpisode] = {}
    is_closed, topics = False, dict[int, str]()
    if Path(path).exists() and not Path(path).is_file():
        raise RecordingError(f"{path} is no regular file. Give the path of a recording.")
    try:
        with open(path, "rb") as file:
            whole = _WholeReads(file, mcap.EndOfFile)
            try:
                for record in records(whole, Path(path).stat().st_size, mcap):
                    if isinstance(record, mcap.Metadata) and record.name == METADATA:
                        about = _about(_json(record.metadata["about"]))
                        if about.get("version") not in READABLE:
                            break
                    elif isinstance(record, mcap.Metadata) and record.name.startswith(EPISODE):
                        fields = {name: _json(value) for name, value in record.metadata.items()}
                        episodes[whole_number(fields["episode"])] = RecordedEpisode(
                            Ending(fields["ended"]), fields["success"]
                        )
                    elif isinstance(record, mcap.Channel):
                        topics[record.id] = record.topic
                    elif isinstance(record, mcap.Message) and topics[record.channel_id] == TOPIC:
                        steps.append(recorded_step(_json(record.data)))
                    elif isinstance(record, mcap.Message) and topics[record.channel_id] == TRANSFORMS:
                        transforms.append(record.data)
                    is_closed = is_closed or _closes(record, about, mcap)
            except mcap.EndOfFile:
                if about is None or _ends_properly(file):
                    raise
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}. Give the path of a recording.") from None
    except (mcap.McapError, struct.error, *DAMAGED) as error:
        if Path(path).suffix != ".mcap":
            raise RecordingError(f"{path} is no recording. Give NAME.mcap, which --record wrote.") from error
        raise RecordingError(
            f"{path} is damaged, or no recording of sami run: {_text(error)}. Copy it again."
        ) from error
    if about is None or about.get("version") not in READABLE:
        version = "none" if about is None else about.get("version")
        raise RecordingError(
            f"{path} has recording version {version}; this sami_runtime reads versions "
            f"{' and '.join(map(str, READABLE))}. Give a file that sami run --record wrote."
        )
    try:
        contract = Contract.model_validate(about["contract"])
    except DAMAGED as error:
        raise RecordingError(f"{path} holds no contract that can be read: {_text(error)}. Copy it again.") from error
    return Recording(Path(path), about, contract, tuple(steps), is_closed, episodes, tuple(transforms))


@contextmanager
def values_of(path: Path) -> Iterator[None]:
    """Convert errors of computing with a recording's values: even a readable file may contain any values.

    Raises:
        RecordingError: The block raised another error than SamiError and OSError; the message is one line.
    """
    try:
        yield
    except (SamiError, OSError):
        raise
    except Exception as error:  # numpy, csv and pyarrow each have errors of their own
        raise RecordingError(
            f"{path} holds values that do not fit its contract: {printable(type(error).__name__)}: {_text(error)}. "
            "Was it changed? Record it again; --debug shows where."
        ) from error


def _closes(record: Any, about: Mapping[str, Any] | None, mcap: Any) -> bool:
    """Whether a record marks the file as complete; in version 1, the end of the data does."""
    if about is not None and about["version"] == 1:
        return isinstance(record, mcap.DataEnd)
    return isinstance(record, mcap.Metadata) and record.name == CLOSED


def _json(text: str | bytes) -> Any:
    """Parse JSON; its texts, which may be hostile, are made safe for a terminal."""
    return plain_strings(json.loads(text, object_pairs_hook=unique))


def _about(value: Any) -> dict[str, Any]:
    """Return the metadata of a recording, after a check of the types that other code relies on."""
    if not isinstance(value, dict):
        raise ValueError("its description of itself is no table")
    if value.get("version") in READABLE:
        if not all(isinstance(value["model"][name], str) for name in ("path", "name", "weights_sha256")):
            raise ValueError("its model has no path, name or weights")
        for name, kind in (("versions", dict), ("providers", list), ("machine", str), ("contract", dict)):
            if not isinstance(value[name], kind):
                raise ValueError(f"its {name} is a {type(value[name]).__name__}")
    return value


def _text(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else str(error)
    return printable(" ".join(text.split()))[:500]


class _WholeReads:
    """A file whose `read` returns all requested bytes, or raises `end`: mcap would accept the half of a number."""

    def __init__(self, file: IO[bytes], end: type[Exception]) -> None:
        self._file, self._end = file, end

    def read(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise self._end("the file ends here")
        return data


def _ends_properly(file: IO[bytes]) -> bool:
    """Whether a file ends with MCAP's magic bytes: then its writer was not killed, and a length in it is damaged."""
    file.seek(-len(MAGIC), os.SEEK_END)
    return file.read() == MAGIC


def records(file: Any, size: int, mcap: Any) -> Iterator[Any]:
    """Yield the records of a file, including those in chunks.

    Args:
        file: The open file, at its beginning.
        size: Size of the file [bytes].
        mcap: See `mcap_parts`.

    Raises:
        McapError, struct.error, ValueError: The file is damaged, or chunks unpack to more bytes than are allowed.
    """
    room = MAX_RECORD_BYTES + MOST_PACKED * size
    reader = mcap.StreamReader(file, validate_crcs=True, emit_chunks=True, record_size_limit=MAX_RECORD_BYTES)
    for record in reader.records:
        if not isinstance(record, mcap.Chunk):
            yield record
            continue
        data = _unpacked(record, min(room, MAX_RECORD_BYTES), mcap)
        room -= len(data)
        yield from mcap.breakup_chunk(dataclasses.replace(record, compression="", data=data), validate_crc=True)


def _unpacked(chunk: Any, most: int, mcap: Any) -> bytes:
    """Unpack the bytes of a chunk; raise ValueError if it is damaged, or unpacks to more than `most` bytes."""
    if chunk.compression == "zstd":
        data = _by_pieces(mcap.zstandard.ZstdDecompressor(max_window_size=MAX_RECORD_BYTES), chunk.data, most)
    elif chunk.compression == "lz4":
        try:
            data = mcap.lz4.LZ4FrameDecompressor().decompress(chunk.data, max_length=most + 1)
        except RuntimeError as error:
            raise ValueError(f"a chunk cannot be unpacked: {error}") from error
    elif chunk.compression == "":
        data = chunk.data
    else:
        raise ValueError(f"a chunk is packed by {chunk.compression!r}, which is not known")
    if len(data) > most or chunk.uncompressed_size > MAX_RECORD_BYTES:
        raise ValueError(f"{len(chunk.data)} bytes of it unpack to more than {most}, the most that is read")
    return data


def _by_pieces(unpacker: Any, data: bytes, most: int) -> bytes:
    """Unpack zstandard data, and stop after `most` bytes: a frame may declare a wrong size."""
    pieces, length = [], 0
    try:
        with unpacker.stream_reader(io.BytesIO(data)) as stream:
            while length <= most and (piece := stream.read(1 << 20)):
                pieces.append(piece)
                length += len(piece)
    except Exception as error:  # zstandard's error has no base class but this
        raise ValueError(f"a chunk cannot be unpacked: {error}") from error
    return b"".join(pieces)


def require_interface(recording: Recording, expected: Iterable[Signal], rate_hz: float, owner: str) -> None:
    """Check that a recording has the rate, and the names, units and elements of the signals, of an `owner`.

    Raises:
        SamiError: It has others; the message has only the differences.
    """
    signals = (*recording.contract.observation, recording.contract.action)
    stored, valid = ({s.name: (f"[{s.unit}]", *s.elements) for s in layout} for layout in (signals, expected))
    absent, extra = [name for name in valid if name not in stored], [name for name in stored if name not in valid]
    faults = [f"it {fact} {enumeration(names)}" for fact, names in (("lacks", absent), ("also has", extra)) if names]
    for name in [name for name, layout in stored.items() if layout != valid.get(name, layout)]:
        pairs = zip_longest(stored[name], valid[name], fillvalue="nothing")
        faults.append(f"{name} has {enumeration([f'{x} instead of {y}' for x, y in pairs if x != y])}")
    if abs(recording.contract.rate_hz - rate_hz) > 1e-6 * rate_hz:
        faults.append(f"it was recorded at {recording.contract.rate_hz:g} Hz instead of {rate_hz:g} Hz")
    if faults:
        raise SamiError(f"{recording.path} does not fit {owner}: {'; '.join(faults)}. Leave it out.")
