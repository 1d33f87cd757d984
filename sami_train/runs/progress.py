"""What a user watches while training: steps a second, time left, success or return by task."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from sami_train.config.schema import TrainConfig
from sami_train.envs.catalog import environment
from sami_train.episodes.episode import TaskRecord

RATE_WINDOW = 30.0
"""Seconds that the shown speed is averaged over."""


class Progress:
    """A live display on a terminal; on anything else a line every half minute.

    Args:
        config: the run.
        done: environment steps done before.
        show: False shows nothing.
    """

    def __init__(self, config: TrainConfig, done: int, show: bool = True) -> None:
        self._total, self._show, self._measure = config.steps, show, environment(config.env).measure
        self._bar = Bar(
            TextColumn(f"[bold]{config.env} {config.method}[/] seed {config.seed}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} steps"),
            TimeElapsedColumn(),
        )
        self._task = self._bar.add_task("train", total=config.steps, completed=done)
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
        self._live.stop()

    def update(self, steps: int, updates: int, record: TaskRecord, contrast: str = "") -> None:
        """Show where the run is.

        Args:
            steps: environment steps done.
            updates: updates done.
            record: of the last episodes.
            contrast: what the contrastive loss reached, in words; empty where there is none.
        """
        now = time.monotonic()
        self._history.append((now, steps, updates))
        while now - self._history[0][0] > RATE_WINDOW:
            self._history.popleft()
        if not self._show:
            return
        then, steps_then, updates_then = self._history[0]
        elapsed = max(now - then, 1e-9)
        speed = (steps - steps_then) / elapsed
        left = f"{max(0, self._total - steps) / speed / 60:.1f} min left; " if speed > 0 else ""
        measure = self._measure
        line = (
            f"{speed:,.0f} steps/s, {(updates - updates_then) / elapsed:,.1f} updates/s, "
            f"{left}"
            f"{measure.name} while exploring {measure.show(record.mean(measure), coarse=True)}"
            f"{'; ' * bool(contrast)}{contrast}"
        )
        by_task = record.by_task(measure).items()
        tasks = "   ".join(f"{name} {measure.show(value, coarse=True)}" for name, value in by_task)
        if self._live.is_started:
            self._bar.update(self._task, completed=min(steps, self._total))
            self._live.update(Group(self._bar, Text(line), Text(tasks, style="dim")))
        elif now - self._last_line > RATE_WINDOW:
            self._last_line = now
            print(f"{steps:,} of {self._total:,} steps; {line}", flush=True)
