"""Reads logs of deployed policies: raw signals of the robot, and what the network was fed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adoption.hypotheses import Array
from sami_runtime.errors import SignalError
from sami_runtime.model.contract import Contract
from sami_runtime.recording.reader import STEPS, read_recording, require_interface, values_of

OBSERVATION, EPISODE, JOINTS = "obs", "episode", "joints"
JOINT_SIGNALS = ("joint_positions", "joint_velocities")
WIDTHS = {
    "quaternion": 4,
    **dict.fromkeys(("gravity", "angular_velocity", "angular_velocity_world"), 3),
    **dict.fromkeys(("linear_velocity", "linear_velocity_world"), 3),
}
MOST_BYTES = 2**30


@dataclass(frozen=True)
class PolicyLog:
    """Signals of one or several episodes, with a row for each of T steps of the policy."""

    path: Path
    raw: Mapping[str, Array]
    """By name, (T, n): `quaternion` (w first), `angular_velocity` (body's frame), `angular_velocity_world`,
    `linear_velocity`, `linear_velocity_world`, `joint_positions`, `joint_velocities`, `command`; `actions`, the
    network's outputs; `targets`, the executed actions; other signals of the recipe under their own names."""
    observation: Array | None
    """(T, D): what the network was fed; None for a recording, whose model file computes it internally."""
    step: NDArray[np.int64]
    """(T,): index of the row in its episode."""

    def __len__(self) -> int:
        return len(self.step)


def read_log(path: str | Path, contract: Contract) -> PolicyLog:
    """Read a log.

    Args:
        path: `NAME.npz`, or a recording, `NAME.mcap`.
        contract: Of the policy; if an `.npz` has an array `joints`, its columns are put into the action's order.

    Raises:
        SignalError: The log cannot be read, is empty, or has an array that is missing, misshapen or not finite.
        RecordingError, SamiError: The recording cannot be read, or is of a policy with other signals.
    """
    path = Path(path)
    return _read_recording(path, contract) if path.suffix == ".mcap" else read_arrays(path, contract.action.elements)


def read_arrays(path: Path, joints: tuple[str, ...]) -> PolicyLog:
    """Read an `.npz` of a policy of these joints; raises SignalError as `read_log` does."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
                raise ValueError(f"it holds more than {MOST_BYTES} bytes")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SignalError(f"{path} cannot be read: {error}. Give a log of numpy.savez, or a recording.") from None
    if OBSERVATION not in arrays:
        names = ", ".join(sorted(arrays)) or "nothing"
        raise SignalError(f"{path} has no array {OBSERVATION!r}, what the network was fed; it has {names}. Log it.")
    count = len(np.atleast_1d(arrays[OBSERVATION]))
    columns = tuple(map(str, np.ravel(arrays.pop(JOINTS, ()))))
    order = _order(columns, joints, path) if columns else []
    widths = WIDTHS | (dict.fromkeys(JOINT_SIGNALS, len(columns)) if columns else {})
    episode = np.asarray(arrays.pop(EPISODE, np.zeros(count, np.int64)))
    raw = {name: _rows(value, name, count, widths, path) for name, value in arrays.items()}
    if columns:
        raw |= {name: raw[name][:, order] for name in JOINT_SIGNALS if name in raw}
    if episode.shape != (count,):
        raise SignalError(f"{path}: {EPISODE} has shape {episode.shape}; expected ({count},), the episode of each row.")
    return PolicyLog(path, raw, raw.pop(OBSERVATION), _steps(episode))


def _rows(value: NDArray[Any], name: str, count: int, widths: Mapping[str, int], path: Path) -> Array:
    if value.dtype.kind not in "fiub" or value.ndim > 2 or not value.ndim or len(value) != count:
        layout = "rows (T, D) of one robot" if name == OBSERVATION else f"{count} rows of numbers, as {OBSERVATION} has"
        raise SignalError(f"{path}: {name} has type {value.dtype} and shape {value.shape}; expected {layout}.")
    rows = np.asarray(value, np.float64).reshape(count, -1)
    if (width := widths.get(name, rows.shape[1])) != rows.shape[1]:
        raise SignalError(f"{path}: {name} has {rows.shape[1]} numbers a row; expected {width}.")
    if not np.isfinite(rows).all():
        row = int(np.argwhere(~np.isfinite(rows))[0, 0])
        raise SignalError(f"{path}: {name} is not finite in row {row}. Leave such rows out.")
    return rows


def _order(names: tuple[str, ...], joints: tuple[str, ...], path: Path) -> list[int]:
    """Return the index of each of the policy's joints among those of the log; a suffix `_joint` is ignored."""
    plain = [name.removesuffix("_joint") for name in names]
    missing = [joint for joint in joints if joint.removesuffix("_joint") not in plain]
    if missing:
        raise SignalError(f"{path}: {JOINTS} lacks {', '.join(missing)}; it has {', '.join(names)}. Add them.")
    return [plain.index(joint.removesuffix("_joint")) for joint in joints]


def _steps(episode: NDArray[np.generic]) -> NDArray[np.int64]:
    index = np.arange(len(episode))
    is_first = np.concatenate([[True], episode[1:] != episode[:-1]])
    return np.asarray(index - np.maximum.accumulate(np.where(is_first, index, 0)))


def _read_recording(path: Path, contract: Contract) -> PolicyLog:
    """Return the recorded signals, and the raw signals that the adapter put into `info` under their names."""
    recording = read_recording(path)
    layout = (*contract.observation, contract.action)
    require_interface(recording, layout, contract.rate_hz, f"policy {contract.name!r}")
    with values_of(path):
        steps = [
            (s.episode, s.record)
            for s in recording.steps
            if s.record.outcome in STEPS and s.record.observation is not None and s.record.executed is not None
        ]
        if not steps:
            raise SignalError(f"{path} has no step at which the policy acted. Record a run.")
        raw: dict[str, Array] = {}
        first = steps[0][1]
        assert first.observation is not None
        for name in first.observation.values:
            raw[name] = np.array([r.observation.values[name] for _, r in steps if r.observation], np.float64)
        for name in ("actions", *WIDTHS, *JOINT_SIGNALS):
            if all(name in record.info for _, record in steps):
                raw[name] = np.array([record.info[name] for _, record in steps], np.float64)
        raw["targets"] = np.array([record.executed for _, record in steps], np.float64)
    return PolicyLog(path, raw, None, _steps(np.array([episode for episode, _ in steps])))
