"""Metrics of a run as lines of JSON: appended while it runs, cut back when it resumes from an earlier checkpoint."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import KVWriter, TensorBoardOutputFormat

from sami_train.files import append, write_json_lines, writing
from sami_train.runs.record import read_metrics


class MetricsFile(KVWriter):
    """Writes stable-baselines3's logged numbers, one JSON object a line with its `step`.

    Args:
        path: the file.
        logged_at: environment steps of the last line to keep. A run that resumes writes again what came after the
            last line that its checkpoint knows of.

    Raises:
        SamiError: the disk is full or must not be written to; what was there stays.
    """

    def __init__(self, path: Path, logged_at: int = 0) -> None:
        rows = [row for row in read_metrics(path) if row["step"] <= logged_at]
        write_json_lines(path, rows)
        self._path = path
        self._file = path.open("ab", buffering=0)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Append one line.

        Raises:
            SamiError: the disk is full.
        """
        line = json.dumps({"step": step, **{k: float(v) for k, v in key_values.items()}}) + "\n"
        with writing(self._path):
            append(self._file, line.encode())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Dashboard(KVWriter):
    """Writes the same for TensorBoard, for as long as that can be written; training goes on without it.

    Args:
        run: the run's folder; the files go into `tensorboard/`.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._file: TensorBoardOutputFormat | None = None
        try:
            self._file = TensorBoardOutputFormat(str(run / "tensorboard"))
        except OSError as error:
            self._give_up(error)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write numbers; the first failure is the last try, with a warning on stderr."""
        if self._file is None:
            return
        try:
            self._file.write(key_values, key_excluded, step)
        except Exception as error:  # TensorBoard's thread hands on whatever it met
            self._give_up(error)

    def close(self) -> None:
        """Close the files; what their last lines say is in the metrics, too."""
        if self._file is not None:
            with suppress(Exception):
                self._file.close()

    def _give_up(self, error: Exception) -> None:
        self._file = None
        print(
            f"warning: {self._run / 'tensorboard'} cannot be written: {error}. Training goes on; metrics.jsonl has the "
            "same numbers, and `sami watch` shows them.",
            file=sys.stderr,
            flush=True,
        )
