"""Prints the tables: returns at equal minutes and at equal steps, with seeds, intervals and lost comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scoreboard.methods import METHODS

RESULTS = Path(__file__).parents[2] / "results" / "scoreboard"
PROTOCOL = 30.0
"""Budget of the protocol [min]; a table with a smaller budget allows no conclusion."""
STEPS = (10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
"""Numbers of environment steps at which the table compares the curves."""
REPLICATES = 2000
Scores = Mapping[str, np.ndarray]
"""Scores (n, 1) of n seeds, by method."""
Intervals = Callable[[Scores], dict[str, tuple[float, float, float]]]
"""Returns the interquartile mean and the ends of its 95 % interval, by method."""


@dataclass(frozen=True)
class Run:
    """A finished run."""

    facts: Mapping[str, Any]
    curve: Sequence[Mapping[str, Any]]

    @property
    def cell(self) -> tuple[str, float]:
        """Task and minutes; only runs with the same task and minutes are comparable."""
        return str(self.facts["task"]), float(self.facts["minutes"])

    def final(self, name: str) -> float:
        """Return the mean return over a set of physics at the end of the run."""
        return float(np.mean(self.curve[-1]["returns"][name]))

    @property
    def steps(self) -> np.ndarray:
        """Environment steps at each evaluation, (points,)."""
        return np.array([point["steps"] for point in self.curve])

    @property
    def returns(self) -> np.ndarray:
        """Mean returns over the physics of the learning curve, (points,)."""
        name = next(iter(self.curve[-1]["returns"]))
        return np.array([np.mean(point["returns"][name]) for point in self.curve])

    def at_steps(self, steps: int) -> float | None:
        """Return the mean return at a number of steps, interpolated on the curve; None beyond its ends."""
        first, last = self.steps[[0, -1]]
        return float(np.interp(steps, self.steps, self.returns)) if first <= steps <= last else None


def read_runs(folder: Path) -> list[Run]:
    """Return every finished run of a folder; raise ValueError for a run without an evaluation."""
    runs = []
    for path in sorted(folder.glob("*/*.jsonl")):
        facts, *curve = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if not curve:
            raise ValueError(f"{path} has no evaluation; remove it, and make the run again.")
        runs.append(Run(facts, curve))
    return runs


def by_cell(runs: Sequence[Run]) -> dict[tuple[str, float], list[Run]]:
    """Return the comparable runs by task and minutes, in order."""
    return {cell: [run for run in runs if run.cell == cell] for cell in sorted({run.cell for run in runs})}


def by_rliable(scores: Scores) -> dict[str, tuple[float, float, float]]:
    """Return IQM and 95 % stratified bootstrap over seeds, as rliable computes them.

    rliable draws from numpy's global generator, whatever its `random_state` is. Each method begins with the same seed,
    so that its interval depends on no other method.
    """
    from rliable import library, metrics

    intervals = {}
    for name, values in scores.items():
        np.random.seed(0)
        points, ends = library.get_interval_estimates(
            {name: values}, lambda sample: np.array([metrics.aggregate_iqm(sample)]), reps=REPLICATES
        )
        intervals[name] = (float(points[name][0]), float(ends[name][0, 0]), float(ends[name][1, 0]))
    return intervals


def tables(runs: Sequence[Run], intervals: Intervals = by_rliable) -> Iterator[str]:
    """Yield the lines of every table, in Markdown: one for each task and budget, without pooling over tasks."""
    if not runs:
        yield "No run is finished."
    for (task, minutes), cell_runs in by_cell(runs).items():
        yield from (*_minutes_table(task, minutes, cell_runs, intervals), "", *_steps_table(cell_runs), "")


def _minutes_table(task: str, minutes: float, runs: Sequence[Run], intervals: Intervals) -> Iterator[str]:
    by_method = {name: [run for run in runs if run.facts["method"] == name] for name in METHODS}
    sets = list(runs[0].curve[-1]["returns"])
    fewest = min(len(group) for name, group in by_method.items() if not METHODS[name].control)
    yield f"### {task}, {minutes:g} minutes of one core"
    yield ""
    if minutes < PROTOCOL or fewest < 3:
        yield f"**No conclusion**: {minutes:g} of {PROTOCOL:g} minutes, a method has {fewest} seeds."
        yield ""
    yield f"| method | seeds | steps | {' | '.join(f'return, {name}' for name in sets)} |"
    yield f"|---|---|---|{'---|' * len(sets)}"
    means = {name: {method: _scores(group, name) for method, group in by_method.items() if group} for name in sets}
    middles = {name: _with_intervals(scores, intervals) for name, scores in means.items()}
    for method, group in by_method.items():
        if not group:
            yield f"| {method} | 0 | missing | {' | '.join(['missing'] * len(sets))} |"
            continue
        steps = [run.curve[-1]["steps"] for run in group]
        span = "-".join(f"{end:,}" for end in dict.fromkeys((min(steps), max(steps))))
        cells = [_text(middles[name][method]) for name in sets]
        yield f"| {method} | {len(group)} | {span} | {' | '.join(cells)} |"
    yield ""
    yield from _ended_by_steps(by_method)
    yield "| of this project | judged in | loses to | is above |"
    yield "|---|---|---|---|"
    for name in sets:
        yield from _losses(name, middles[name])


def _ended_by_steps(by_method: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    """Yield a sentence with the number of runs, by method, that a number of steps ended instead of time."""
    counts = {
        method: sum(run.facts.get("budget_steps") is not None for run in group) for method, group in by_method.items()
    }
    listed = [f"{method} {count}" for method, count in counts.items() if count]
    if listed:
        yield f"Runs ended by steps instead of minutes: {', '.join(listed)}."
        yield ""


def _scores(group: Sequence[Run], name: str) -> np.ndarray:
    return np.array([[run.final(name)] for run in group])


Middle = tuple[float, float | None, float | None]


def _with_intervals(scores: Scores, intervals: Intervals) -> dict[str, Middle]:
    """Return interquartile mean and interval by method; the ends are None for a single seed."""
    several = {method: values for method, values in scores.items() if len(values) > 1}
    single: dict[str, Middle] = {m: (float(v[0, 0]), None, None) for m, v in scores.items() if len(v) == 1}
    return {**single, **(intervals(several) if several else {})}


def _text(middle: Middle) -> str:
    value, low, high = middle
    return f"{value:,.0f}" + ("" if low is None else f" [{low:,.0f}, {high:,.0f}]")


def _losses(name: str, middles: Mapping[str, Middle]) -> Iterator[str]:
    """Yield rows with the peers that score above each method of this project, and the peers that do not."""
    for method, (value, *_) in middles.items():
        if not METHODS[method].in_house:
            continue
        peers = {other: middle[0] for other, middle in middles.items() if not METHODS[other].in_house}
        above = [other for other, score in peers.items() if score > value]
        below = [other for other, score in peers.items() if score <= value]
        yield f"| {method} ({value:,.0f}) | {name} | {', '.join(above) or 'none'} | {', '.join(below) or 'none'} |"


def _steps_table(runs: Sequence[Run]) -> Iterator[str]:
    """Yield mean returns at equal environment steps, for numbers of steps that at least two methods reached."""
    by_steps: dict[int, dict[str, list[float]]] = {}
    for steps in STEPS:
        for run in runs:
            value = run.at_steps(steps)
            if value is not None:
                by_steps.setdefault(steps, {}).setdefault(run.facts["method"], []).append(value)
    columns = [steps for steps, by_method in by_steps.items() if len(by_method) > 1]
    if not columns:
        yield "No two methods have been through the same number of steps."
        return
    yield f"| at equal steps, from the same curves | {' | '.join(f'{steps:,}' for steps in columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for method in METHODS:
        values = [by_steps[steps].get(method) for steps in columns]
        if any(values):
            cells = ["-" if value is None else f"{np.mean(value):,.0f} ({len(value)})" for value in values]
            yield f"| {method} | {' | '.join(cells)} |"
