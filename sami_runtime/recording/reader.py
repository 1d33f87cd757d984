"""Reading recordings, whole or cut off."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from sami_runtime.errors import RecordingError
from sami_runtime.loop.pilot import Ending
from sami_runtime.model.contract import Contract
from sami_runtime.recording.format import (
    EPISODE,
    MAGIC,
    METADATA,
    RECORDING_VERSION,
    RecordedEpisode,
    RecordedStep,
    mcap_parts,
    recorded_step,
)

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Largest record that is read, so that a damaged length does not fill the memory."""


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
    episodes: Mapping[int, RecordedEpisode] = field(default_factory=dict)
    """What came of each, by its number; one that did not end well is missing."""

    @property
    def models(self) -> tuple[str, ...]:
        """Files of the models that drove, in their order: more than one where the model was swapped."""
        swaps = [step.record.swapped.path for step in self.steps if step.record.swapped]
        return (self.about["model"]["path"], *swaps)

    def __str__(self) -> str:
        model = self.about["model"]
        swaps = "".join(
            f", then of {swapped.contract.name} ({swapped.weights_sha256[:12]})"
            for step in self.steps
            if (swapped := step.record.swapped)
        )
        episodes = len({step.episode for step in self.steps})
        judged = [came.success for came in self.episodes.values() if came.success is not None]
        return (
            f"{self.path}: {episodes} episodes, {len(self.steps)} ticks of {model['name']} "
            f"({model['weights_sha256'][:12]}){swaps}"
            + (f"; {sum(judged)} of {len(judged)} succeeded" if judged else "")
        )


def read_recording(path: str | Path) -> Recording:
    """Read a recording, also one whose process was killed.

    Raises:
        RecordingError: The file cannot be read, was changed, or is none of ours.
    """
    mcap = mcap_parts()
    about: Mapping[str, Any] | None = None
    steps: list[RecordedStep] = []
    episodes: dict[int, RecordedEpisode] = {}
    closed = False
    try:
        with open(path, "rb") as file:
            whole = _WholeReads(file, mcap.EndOfFile)
            try:
                for record in mcap.StreamReader(whole, validate_crcs=True, record_size_limit=MAX_RECORD_BYTES).records:
                    if isinstance(record, mcap.Metadata) and record.name == METADATA:
                        about = json.loads(record.metadata["about"])
                        if about.get("version") != RECORDING_VERSION:
                            break
                    elif isinstance(record, mcap.Metadata) and record.name == EPISODE:
                        came = {name: json.loads(value) for name, value in record.metadata.items()}
                        episodes[came["episode"]] = RecordedEpisode(Ending(came["ended"]), came["success"])
                    elif isinstance(record, mcap.Message):
                        steps.append(recorded_step(json.loads(record.data)))
                    closed = closed or isinstance(record, mcap.DataEnd)
            except mcap.EndOfFile:
                if about is None or _ends_properly(file):
                    raise
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
    return Recording(Path(path), about, contract, tuple(steps), closed, episodes)


class _WholeReads:
    """A file that gives all the bytes that are asked for, or says that it ends: mcap takes half a number for one."""

    def __init__(self, file: IO[bytes], end: type[Exception]) -> None:
        self._file, self._end = file, end

    def read(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise self._end("the file ends here")
        return data


def _ends_properly(file: IO[bytes]) -> bool:
    """Whether a file ends as a finished one does: then nobody was killed, and a length inside it is damaged."""
    file.seek(-len(MAGIC), os.SEEK_END)
    return file.read() == MAGIC
