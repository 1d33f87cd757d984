"""Metrics of a run as lines of JSON: appended while it runs, cut back when it resumes from an earlier checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import KVWriter

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
        kept = [row for row in read_metrics(path) if row["step"] <= logged_at]
        write_json_lines(path, kept)
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
