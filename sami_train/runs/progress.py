"""Progress of a run: the display on the terminal, metrics.jsonl, and TensorBoard."""

from __future__ import annotations

import json
import math
import sys
import textwrap
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text
from stable_baselines3.common.logger import KVWriter, TensorBoardOutputFormat

from sami_train.config.schema import TrainConfig
from sami_train.envs.catalog import environment
from sami_train.episodes.episode import TaskRecord
from sami_train.files import append, write_json_lines, writing
from sami_train.runs.folder import read_metrics

NARROW = 80
"""Columns of a progress line where the output is no terminal."""
RATE_WINDOW = 30.0
"""Seconds over which the displayed speed is averaged."""


class Progress:
    """A live display on a terminal; a line every half minute on other outputs.

    A resumed run starts at `done` environment steps; without `show` nothing is printed.
    """

    def __init__(self, config: TrainConfig, steps: int, show: bool = True) -> None:
        self._total, self._show, self._measure = config.steps, show, environment(config.env).measure
        self._warmup = config.exploration.warmup_steps
        self._bar = Bar(
            TextColumn(f"[bold]{config.env} {config.method}[/] seed {config.seed}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} steps"),
            TimeElapsedColumn(),
        )
        self._task = self._bar.add_task("train", total=config.steps, completed=steps)
        self._live = Live(self._bar, refresh_per_second=2)
        self._history: deque[tuple[float, int, int]] = deque()
        self._last_line = time.monotonic()

    def __enter__(self) -> Progress:
        if self._show and self._live.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # the terminal may have been closed
            self._live.stop()

    def update(self, steps: int, updates: int, record: TaskRecord, contrast: str = "") -> None:
        """Display the run's steps and updates so far, its recent episodes, and a summary of the contrastive loss."""
        now = time.monotonic()
        self._history.append((now, steps, updates))
        while now - self._history[0][0] > RATE_WINDOW:
            self._history.popleft()
        if not self._show:
            return
        start, steps_then, updates_then = self._history[0]
        elapsed = max(now - start, 1e-9)
        speed = (steps - steps_then) / elapsed
        is_known = speed > 0 and steps < self._total  # beyond it only updates are left
        remaining = f"{(self._total - steps) / speed / 60:.1f} min left; " if is_known else ""
        measure = self._measure
        mean = record.mean(measure)
        text = "- (no episode has ended yet)" if mean is None or math.isnan(mean) else measure.show(mean, coarse=True)
        warmup = f"warm-up, no updates before step {self._warmup:,}; " if steps < self._warmup else ""
        line = (
            f"{warmup}{speed:,.0f} steps/s, {(updates - updates_then) / elapsed:,.1f} updates/s, {remaining}"
            f"{measure.name} while exploring {text}"
            f"{'; ' * bool(contrast)}{contrast}"
        )
        by_task = record.by_task(measure).items()
        tasks = "   ".join(f"{name} {measure.show(value, coarse=True)}" for name, value in by_task)
        if self._live.is_started:
            self._bar.update(self._task, completed=min(steps, self._total))
            self._live.update(Group(self._bar, Text(line), Text(tasks, style="dim")))
        elif now - self._last_line > RATE_WINDOW:
            self._last_line = now
            line = f"{min(steps, self._total):,} of {self._total:,} steps; {line}"
            print(textwrap.fill(line, NARROW, subsequent_indent="  "), flush=True)


class MetricsFile(KVWriter):
    """Writes stable-baselines3's logged numbers as one JSON object a line, with their `step`.

    A resumed run first deletes the lines after step `logged_at`, its checkpoint's last line, and writes them again.
    """

    def __init__(self, path: Path, logged_at: int = 0) -> None:
        write_json_lines(path, [row for row in read_metrics(path) if row["step"] <= logged_at])
        self._path = path
        self._file = path.open("ab", buffering=0)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Append one line."""
        line = json.dumps({"step": step, **{k: float(v) for k, v in key_values.items()}}) + "\n"
        with writing(self._path):
            append(self._file, line.encode())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Dashboard(KVWriter):
    """Writes the same numbers to `tensorboard/` in the run's folder; if that fails, training goes on without it."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._file: TensorBoardOutputFormat | None = None
        try:
            self._file = TensorBoardOutputFormat(str(run / "tensorboard"))
        except OSError as error:
            self._give_up(error)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write numbers; after the first failure, which prints a warning to stderr, write no more."""
        if self._file is None:
            return
        try:
            self._file.write(key_values, key_excluded, step)
        except Exception as error:  # TensorBoard's writer thread can raise any exception here
            self._give_up(error)

    def close(self) -> None:
        """Close the files; errors are ignored, because metrics.jsonl has the same numbers."""
        if self._file is not None:
            with suppress(Exception):
                self._file.close()

    def _give_up(self, error: Exception) -> None:
        self._file = None
        print(
            f"warning: {self._run / 'tensorboard'} cannot be written: {error}. Training continues; metrics.jsonl has "
            "the same numbers.",
            file=sys.stderr,
            flush=True,
        )
