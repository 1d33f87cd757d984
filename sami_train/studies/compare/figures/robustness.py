"""The robustness curves of a policy, as one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sami_train.evaluation.robustness import Point
from sami_train.files import unfinished
from sami_train.studies.compare.figures.style import GREY, SETTINGS, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 5
SET_COLOURS = ("#0072B2", "#D55E00", "#009E73")


def draw_robustness(points: Sequence[Point], path: Path) -> None:
    """Draw a panel for each kind of gap: the score against the severity, with its 95 % interval.

    Args:
        points: as `sweep` gives them, the world as it is first.
        path: the picture.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    clean, *behind = points
    names = list(dict.fromkeys(point.kind for point in behind))
    columns = min(COLUMNS, len(names))
    rows = -(-len(names) // columns)
    task_sets = clean.evaluation.sets
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(2.4 * columns + 0.6, 2.3 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for axes in grid.ravel()[len(names) :]:
            axes.set_visible(False)
        for axes, name in zip(grid.ravel(), names, strict=False):
            _panel(axes, clean, [point for point in behind if point.kind == name], task_sets)
        measure = clean.evaluation.measure
        for axes in grid[:, 0]:
            axes.set_ylabel(measure.name)
            if measure.bounds:
                axes.set_ylim(-0.03, 1.03)
        colours = zip(task_sets, SET_COLOURS, strict=False)
        handles = [Line2D([], [], color=colour, marker="o", ms=4, label=name) for name, colour in colours]
        legend_below(figure, [*handles, Line2D([], [], color=GREY, lw=1, ls=":", label="no gap")])
        with unfinished(path) as beside:
            figure.savefig(beside, format="png")


def _panel(axes: Axes, clean: Point, points: Sequence[Point], task_sets: Sequence[str]) -> None:
    for task_set, colour in zip(task_sets, SET_COLOURS, strict=False):
        scores = [point.score(task_set) for point in (clean, *points)]
        axes.axhline(scores[0][0], color=GREY, lw=1, ls=":")
        axes.errorbar(
            [0.0, *(point.severity for point in points)],
            [value for value, _ in scores],
            list(zip(*(_beside(*score) for score in scores), strict=True)),
            color=colour,
            marker="o",
            ms=4,
            lw=1.5,
            capsize=2,
        )
    axes.set_title(points[0].kind)
    axes.set_xlabel(f"[{points[0].unit}]", fontsize=9)


def _beside(value: float, interval: tuple[float, float] | None) -> tuple[float, float]:
    """Return how far an interval reaches below and above a value; nowhere where there is none."""
    low, high = interval or (value, value)
    return max(0.0, value - low), max(0.0, high - value)
