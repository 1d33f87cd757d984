"""Draws the learning curves of a task: returns against minutes of one core, and against environment steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.scoreboard.methods import METHODS, Method
from benchmarks.scoreboard.table import Run, by_cell
from sami_train.studies.charts.chart import Chart, Panel, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Abscissae = Callable[[Run], np.ndarray]
"""Returns the horizontal values of a run's curve, (points,)."""


def write_curves(runs: Sequence[Run], out: Path) -> list[Path]:
    """Write TASK/curves.png for each task with runs, and return the paths."""
    paths = []
    for (task, _), cell_runs in by_cell(runs).items():
        path = out / task / "curves.png"
        chart(cell_runs).savefig(path)
        paths.append(path)
    return paths


def chart(runs: Sequence[Run]) -> Chart:
    """Return the chart of a task's runs: a thick line for a method's mean, thin ones for its seeds."""
    from matplotlib.ticker import LogLocator

    def minutes(run: Run) -> np.ndarray:
        return np.array([point["seconds"] / 60.0 for point in run.curve])

    def against_minutes(axes: Axes) -> None:
        _draw(axes, runs, minutes, labelled=True)
        axes.set(xlabel="minutes of one core", ylabel="return", xlim=(0, None))

    def against_steps(axes: Axes) -> None:
        _draw(axes, runs, lambda run: run.steps)
        axes.set(xlabel="environment steps [thousands]", xscale="log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:,g}")
        axes.minorticks_off()

    panels = (Panel("At equal minutes", against_minutes), Panel("At equal steps", against_steps))
    return Chart("curves", "", panels, (), width=420, height=280)


def _draw(axes: Axes, runs: Sequence[Run], abscissae: Abscissae, labelled: bool = False) -> None:
    colours = colours_of(list(METHODS))
    for name, method in METHODS.items():
        curves = [(abscissae(run), run.returns) for run in runs if run.facts["method"] == name]
        if not curves:
            continue
        look = {"color": colours[name], "ls": _style(method)}
        for at, returns in curves:
            axes.plot(at, returns, lw=0.6, alpha=0.5, **look)
        at = np.linspace(max(at[0] for at, _ in curves), min(at[-1] for at, _ in curves), 200)
        mean = np.mean([np.interp(at, *curve) for curve in curves], axis=0)
        axes.plot(at, mean, lw=2.0, label=f"{name} ({len(curves)})" if labelled else None, **look)


def _style(method: Method) -> str:
    """Return solid for this project's methods, dashed for peers, dotted for those that observe the physics."""
    return "-" if method.in_house else ":" if method.reads_task else "--"
