"""Curves of runs as a terminal shows them: success or return over the steps, in all and by task, from their folders.

Blocks of text, an eighth of a line high each, and no plotting library: they are as wide as the terminal at any moment,
and what is drawn is the same that a run writes into its metrics.jsonl.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from sami_runtime.errors import SamiError
from sami_train.envs.measure import SUCCESS, Measure
from sami_train.locks import holder
from sami_train.runs.folder import RunError, RunFolder
from sami_train.runs.record import read_metrics

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII = " .:-=+*#@"
HIGH = 8
"""Lines of the curve over all tasks."""
LEAST_HIGH = 3
"""Lines that it keeps where a terminal is low; tasks are left out before."""
OVER = 4
"""Lines beside the curves: title, axis, and what stands below."""
LEFT = 10
"""Columns left of the curve over all tasks."""


class WatchedRun:
    """What a run folder tells while the run goes on.

    Args:
        path: the folder.

    Raises:
        RunError: it is no run folder.
    """

    def __init__(self, path: Path) -> None:
        self.folder, self.name = RunFolder.open(path), path.resolve().name
        self.config = self.folder.config()
        self.measure: Measure = _measure(self.config.env)
        self.rows: list[dict[str, Any]] = []
        self.state = ""
        self.read()

    def read(self) -> bool:
        """Read what is new; return whether anything is."""
        rows, state = read_metrics(self.folder.metrics), str(self.folder.facts().get("state", "running"))
        if state == "running" and not holder(self.folder.path / "lock"):
            state = "finished" if self.folder.agent.is_file() else "cut off"
        changed = (len(rows), state) != (len(self.rows), self.state)
        self.rows, self.state = rows, state
        return changed

    @property
    def going(self) -> bool:
        """Whether some process trains in it."""
        return self.state == "running"

    @property
    def steps(self) -> int:
        """Environment steps of the newest line; 0 before the first."""
        return int(self.rows[-1]["step"]) if self.rows else 0

    @property
    def tasks(self) -> list[str]:
        """Columns of its tasks."""
        start = f"{'success' if self.measure is SUCCESS else 'return'}/"
        return [name for name in (self.rows[-1] if self.rows else {}) if name.startswith(start)]

    def curve(self, column: str) -> np.ndarray:
        """Return a column as (n, 2): environment steps, values."""
        found = [(row["step"], row[column]) for row in self.rows if row.get(column) is not None]
        return np.array([pair for pair in found if pair[1] == pair[1]], np.float64).reshape(-1, 2)

    @property
    def title(self) -> str:
        """What it is, and where it stands, in one line."""
        share = min(1.0, self.steps / self.config.steps)
        seconds = float(self.rows[-1].get("time/seconds", 0.0)) if self.rows else 0.0
        took = f", {seconds / 60:.0f} min" if seconds else ""
        left = f", {seconds / 60 * (1 - share) / share:.0f} min left" if self.going and share > 0 and seconds else ""
        return f"{self.name}: {self.state}, {self.steps:,} of {self.config.steps:,} steps ({share:.0%}){took}{left}"

    def line(self) -> str:
        """Return where it stands without a terminal: one line."""
        shown = self.measure.show
        values = [f"{task.partition('/')[2]} {shown(self.curve(task)[-1, 1], coarse=True)}" for task in self.tasks]
        now = self.curve(self.measure.exploring)
        reached = shown(now[-1, 1] if len(now) else None, coarse=True)
        return f"{self.title}; {self.measure.name} while exploring {reached}{'; ' if values else ''}{', '.join(values)}"


def watched(paths: Sequence[Path]) -> list[WatchedRun]:
    """Return runs to look at: run folders, or folders such as a sweep's that hold some.

    Raises:
        RunError: there is none.
    """
    found: list[WatchedRun] = []
    for path in paths:
        if (path / "run.json").is_file():
            found.append(WatchedRun(path))
            continue
        # What is written last when a folder is made.
        inside = sorted(facts.parent for facts in path.glob("*/run.json")) if path.is_dir() else []
        if not inside:
            raise RunError(f"{path} is no run folder, and holds none yet. Give the --out of sami train or sami sweep.")
        found += [WatchedRun(each) for each in inside]
    return found


class Curves:
    """Draws runs in whatever room a terminal has: one with its tasks, several with a line each.

    Args:
        runs: at least one.
        note: a line below.
    """

    def __init__(self, runs: Sequence[WatchedRun], note: str = "") -> None:
        self.runs, self.note = runs, note

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield lines: no wider and no more than there is room for."""
        blocks = BLOCKS if options.encoding.startswith("utf") else ASCII
        height = options.height or options.size.height if console.is_terminal else 10_000
        width = max(20, options.max_width)
        lines = list(
            _one(self.runs[0], width, height, blocks) if len(self.runs) == 1 else _many(self.runs, width, blocks)
        )
        room = max(1, height - (2 if self.note else 1))
        if len(lines) > room:
            lines = [
                *lines[: room - 1],
                Text(f"and {len(lines) - room + 1} lines more: make the terminal higher", "dim"),
            ]
        for line in [*lines, *([Text(self.note, "dim")] if self.note else [])]:
            line.truncate(width)
            line.no_wrap = True
            yield line


def _one(run: WatchedRun, width: int, height: int, blocks: str) -> Iterator[Text]:
    yield Text(run.title, "bold")
    tasks = run.tasks
    high = min(HIGH, max(LEAST_HIGH, height - len(tasks) - OVER))
    total, whole = run.config.steps, run.curve(run.measure.exploring)
    if not len(whole):
        yield Text("nothing measured yet: the first line of a run's metrics comes after 10,000 steps", "dim")
        return
    low, top = _bounds(run.measure, [whole])
    bars = _bars(whole, width - LEFT - 1, total, low, top, high * (len(blocks) - 1))
    shown = run.measure.show
    for level in range(high - 1, -1, -1):
        mark = shown(top, coarse=True) if level == high - 1 else shown(low, coarse=True) if level == 0 else ""
        cells = "".join(_block(bar - level * (len(blocks) - 1), blocks) for bar in bars)
        yield Text.assemble((f"{mark:>{LEFT - 1}} ", "dim"), (cells, "cyan"))
    axis = f"0{f'{total:,} steps':>{max(1, width - LEFT - 2)}}"
    yield Text(" " * LEFT + axis, "dim")
    names = {task: task.partition("/")[2] for task in tasks}
    column = min(max(map(len, names.values()), default=0), width // 3)
    low, top = _bounds(run.measure, [run.curve(task) for task in tasks] or [whole])
    for task in tasks:
        yield _sparkline(names[task], column, run.curve(task), run, width, (low, top), blocks)


def _many(runs: Sequence[WatchedRun], width: int, blocks: str) -> Iterator[Text]:
    states = {state: sum(run.state == state for run in runs) for state in dict.fromkeys(run.state for run in runs)}
    yield Text(f"{len(runs)} runs: {', '.join(f'{count} {state}' for state, count in states.items())}", "bold")
    column = min(max(len(run.name) for run in runs), width // 2)
    for measure in dict.fromkeys(run.measure for run in runs):
        alike = [run for run in runs if run.measure is measure]
        bounds = _bounds(measure, [run.curve(measure.exploring) for run in alike])
        for run in alike:
            yield _sparkline(run.name, column, run.curve(measure.exploring), run, width, bounds, blocks)


def _sparkline(
    name: str, column: int, curve: np.ndarray, run: WatchedRun, width: int, bounds: tuple[float, float], blocks: str
) -> Text:
    """Return a name, a curve of one line's height, and its newest value."""
    value = run.measure.show(curve[-1, 1] if len(curve) else None, coarse=True)
    bars = _bars(curve, max(1, width - column - 12), run.config.steps, *bounds, len(blocks) - 1)
    cells = "".join(_block(bar, blocks) for bar in bars)
    return Text.assemble((f"{name[:column]:<{column}} ", ""), (cells, "cyan" if run.going else "green"), f" {value:>9}")


def _bars(curve: np.ndarray, width: int, total: float, low: float, top: float, high: int) -> list[int]:
    """Return how many eighths of a line each column is high, (width,): 0 where nothing was measured yet."""
    if not len(curve):
        return [0] * width
    total = min(total, 1e18)  # numpy takes no longer ones
    with np.errstate(over="ignore", invalid="ignore"):  # a policy that fell apart has any return
        steps = (np.arange(width) + 1) * max(total, curve[-1, 0]) / width
        values = np.interp(steps, curve[:, 0], curve[:, 1])
        bars = 1 + np.round((high - 1) * (values - low) / max(top - low, 1e-12)).astype(int)
    reached = steps - max(total, curve[-1, 0]) / width < curve[-1, 0]
    return [int(bar) if seen else 0 for bar, seen in zip(np.clip(bars, 1, high), reached, strict=True)]


def _block(eighths: int, blocks: str) -> str:
    return blocks[min(max(eighths, 0), len(blocks) - 1)]


def _bounds(measure: Measure, curves: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the values at the bottom and the top: those that are possible, or those that there are."""
    if measure.bounds is not None:
        return measure.bounds
    values = np.concatenate([curve[:, 1] for curve in curves])
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


def _measure(env: str) -> Measure:
    from sami_train.envs.catalog import environment

    try:
        return environment(env).measure
    except SamiError as error:
        raise RunError(f"the run's environment is not found: {error}") from error
