"""Plots of changes in the middle of an episode: where the context goes, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sami_train.adaptation import Adaptation
from sami_train.changed_episodes import Variant

from .style import BAND, GREY, SETTINGS, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    Variant.LIVE: "#D55E00",
    Variant.FROZEN: "#0072B2",
    Variant.RESET: "#009E73",
    Variant.START: "#CC79A7",
    Variant.UNCHANGED: "#6b6b6b",
}


def draw(found: Sequence[Adaptation], path: Path) -> None:
    """Write a PNG with a column for each change.

    Above: mean distance of the policy's context from the one from the start, by steps since the change. Below: success
    (return, where there is no goal) of each variant, with bars of one standard error.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(max(6.0, 3.0 * len(found)), 5.6), layout="constrained")
        grid = figure.subplots(2, len(found), squeeze=False, sharey="row", height_ratios=(1.2, 1.0))
        for (above, below), each in zip(grid.T, found, strict=True):
            _gaps(above, each)
            _outcomes(below, each)
        lows, highs = zip(*(axes.get_xlim() for axes in grid[1]), strict=True)
        for axes in grid[1]:
            axes.set_xlim(min(lows), max(highs))
        grid[0][0].set(ylabel="distance of contexts", ylim=(0, None))  # shared: set once all lines are there
        _legend(figure, grid[0][0])
        figure.savefig(path)


def _gaps(axes: Axes, found: Adaptation) -> None:
    for row in found.rows:
        if row.variant not in (Variant.START, Variant.UNCHANGED):
            axes.plot(range(len(row.gap)), row.gap, color=COLOURS[row.variant], lw=1.8, label=row.variant.value)
    axes.set(xlabel="steps since the change", xlim=(0, None))
    change = str(found.change).replace(",", ",\n")  # three features in one line are wider than a column
    axes.set_title(f"{change}\n{found.reached} of {found.episodes} episodes", fontsize=9)


def _outcomes(axes: Axes, found: Adaptation) -> None:
    for at, row in enumerate(reversed(found.rows)):
        mean = row.success or row.ret
        axes.plot(mean.value, at, "o", color=COLOURS[row.variant], ms=5)
        if mean.error is not None:
            axes.plot([mean.value - mean.error, mean.value + mean.error], [at, at], color=GREY, lw=4, **BAND)
    axes.set_yticks(range(len(found.rows)), [row.variant.value for row in reversed(found.rows)])
    axes.set(xlabel="success" if found.rows[0].success else "return", ylim=(-0.5, len(found.rows) - 0.5))


def _legend(figure: Figure, axes: Axes) -> None:
    legend_below(figure, axes.get_legend_handles_labels()[0])
