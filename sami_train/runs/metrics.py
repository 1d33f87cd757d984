"""Metrics of a run as lines of JSON: appended while it runs, cut back when it resumes from an earlier checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import KVWriter

from sami_train.machine.files import read_json_lines


class MetricsFile(KVWriter):
    """Writes stable-baselines3's logged numbers, one JSON object a line with its `step`.

    Args:
        path: the file.
        upto: keep only lines of at most this many environment steps (a resumed run writes the rest again).
    """

    def __init__(self, path: Path, upto: int = 0) -> None:
        kept = [row for row in read_json_lines(path) if row["step"] <= upto]
        path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        self._file = path.open("a", encoding="utf-8")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Append one line."""
        self._file.write(json.dumps({"step": step, **{k: float(v) for k, v in key_values.items()}}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
