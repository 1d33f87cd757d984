"""Plots of changes in the middle of an episode: where the context goes, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sami_train.files import unfinished
from sami_train.studies.charts.style import BAND, GREY, SETTINGS, legend_below
from sami_train.studies.contexts.adaptation import Adaptation
from sami_train.studies.contexts.changed_episodes import Variant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    Variant.LIVE: "#D55E00",
    Variant.FROZEN: "#0072B2",
    Variant.RESET: "#009E73",
    Variant.START: "#CC79A7",
    Variant.UNCHANGED: "#6b6b6b",
}


def draw(adaptations: Sequence[Adaptation], path: Path) -> None:
    """Write a PNG with a column for each change.

    Above: mean distance of the policy's context from the one from the start, by steps since the change. In the middle,
    where the model has an atlas: the median out-of-distribution score, with the line of the alarm. Below: success
    (return, where there is no goal) of each variant, with bars of one standard error.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with matplotlib.rc_context(SETTINGS):
        scored = any(row.score for row in adaptations[0].rows)
        heights = (1.2, 1.0, 1.0) if scored else (1.2, 1.0)
        figure = Figure(figsize=(max(6.0, 3.0 * len(adaptations)), 0.9 + 2.2 * sum(heights)), layout="constrained")
        grid = figure.subplots(len(heights), len(adaptations), squeeze=False, sharey="row", height_ratios=heights)
        for column, adaptation in zip(grid.T, adaptations, strict=True):
            _gaps(column[0], adaptation)
            if scored:
                _scores(column[1], adaptation)
            _outcomes(column[-1], adaptation)
        lows, highs = zip(*(axes.get_xlim() for axes in grid[-1]), strict=True)
        for axes in grid[-1]:
            axes.set_xlim(min(lows), max(highs))
        # Shared: set once all lines are there.
        grid[0][0].set(ylabel="distance of contexts", ylim=(0, None))
        if scored:
            grid[1][0].set(ylabel="score, alarm above 1", ylim=(0, None))
        legend_below(figure, [Line2D([], [], color=COLOURS[variant], label=variant.value) for variant in Variant])
        with unfinished(path) as beside:
            figure.savefig(beside, format="png")


def _gaps(axes: Axes, adaptation: Adaptation) -> None:
    for row in adaptation.rows:
        if row.variant not in (Variant.START, Variant.UNCHANGED):
            axes.plot(range(len(row.gap)), row.gap, color=COLOURS[row.variant], lw=1.8, label=row.variant.value)
    axes.set(xlabel="steps since the change", xlim=(0, None))
    change = str(adaptation.change).replace(",", ",\n")  # three features in one line are wider than a column
    axes.set_title(f"{change}\n{adaptation.reached} of {adaptation.episodes} episodes", fontsize=9)


def _scores(axes: Axes, adaptation: Adaptation) -> None:
    for row in adaptation.rows:
        if row.score:
            scores = [float("nan") if score is None else score for score in row.score]
            axes.plot(range(len(scores)), scores, color=COLOURS[row.variant], lw=1.8, label=row.variant.value)
    axes.axhline(1.0, color=GREY, lw=1.0, ls="--")
    axes.set(xlabel="steps since the change", xlim=(0, None))


def _outcomes(axes: Axes, adaptation: Adaptation) -> None:
    for at, row in enumerate(reversed(adaptation.rows)):
        mean = row.success or row.ret
        axes.plot(mean.value, at, "o", color=COLOURS[row.variant], ms=5)
        if mean.error is not None:
            axes.plot([mean.value - mean.error, mean.value + mean.error], [at, at], color=GREY, lw=4, **BAND)
    axes.set_yticks(range(len(adaptation.rows)), [row.variant.value for row in reversed(adaptation.rows)])
    axes.set(xlabel="success" if adaptation.rows[0].success else "return", ylim=(-0.5, len(adaptation.rows) - 0.5))
