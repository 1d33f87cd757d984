"""Intervals of what counts by group, and of the probability that one group beats another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sami_train.studies.charts.style import BAND, GREY, colour_of, legend_below, panels
from sami_train.studies.compare.comparison import Contest, MethodComparison, Standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MANY = 15
"""Pairs of groups that are too many to plot all of them."""


def score_intervals(comparison: MethodComparison) -> Figure:
    """IQM with its bootstrap interval, and the mean of each seed with Student's t interval, by group and set."""
    from matplotlib.lines import Line2D

    groups = comparison.groups
    figure, row = panels(len(comparison.task_sets), 11, 1.5 + 0.42 * len(groups))
    for axes, task_set in zip(row, comparison.task_sets, strict=True):
        for place, standing in enumerate(s for s in comparison.standings if s.task_set == task_set):
            _standing(axes, place, standing)
        axes.set(title=task_set, xlabel=comparison.measure.name)
        _name_rows(axes, [group.label for group in groups])
    bar = Line2D([], [], color=GREY, lw=7, alpha=0.4, marker="|", ms=11, mew=2.5, label="IQM, 95 % bootstrap")
    line = Line2D([], [], color=GREY, lw=1.5, marker="o", mfc="white", ms=5, label="mean of each seed, 95 % t")
    legend_below(figure, [bar, line])
    return figure


def improvement_intervals(comparison: MethodComparison) -> Figure | None:
    """P(X > Y) of the pairs that the paper's claim is about, else of all pairs; None where none or too many."""
    contests = comparison.contests
    if not contests and len(comparison.groups) * (len(comparison.groups) - 1) <= 2 * MANY:
        contests = [*comparison.controls, *comparison.other_contests]
    pairs = list(dict.fromkeys((contest.x.label, contest.y.label) for contest in contests))
    if not pairs:
        return None
    figure, row = panels(len(comparison.task_sets), 11, 1.4 + 0.42 * len(pairs))
    for axes, task_set in zip(row, comparison.task_sets, strict=True):
        axes.axvline(0.5, color="black", lw=1, ls="--")
        for place, contest in enumerate(c for c in contests if c.task_set == task_set):
            _contest(axes, place, contest)
        axes.set(title=task_set, xlabel="P(X > Y)", xlim=(-0.03, 1.03), xticks=(0, 0.25, 0.5, 0.75, 1))
        _name_rows(axes, [f"{x}  >  {y}" for x, y in pairs])
    return figure


def _standing(axes: Axes, place: int, standing: Standing) -> None:
    score, colour = standing.score, colour_of(standing.group.method)
    upper, lower = place - 0.14, place + 0.18
    if score.iqm.bounds:
        axes.plot(score.iqm.bounds, [upper] * 2, color=colour, lw=7, **BAND)
    axes.plot([score.iqm.value], [upper], "|", color=colour, ms=11, mew=2.5)
    if score.mean.bounds:
        axes.plot(score.mean.bounds, [lower] * 2, color=colour, lw=1.5)
    means = standing.group.scores(standing.task_set).mean(axis=1)
    axes.plot(means, [lower] * len(means), "o", color="white", mec=colour, ms=5, mew=1.3)


def _contest(axes: Axes, place: int, contest: Contest) -> None:
    colour, better = colour_of(contest.x.method), contest.improvement
    if better.bounds:
        axes.plot(better.bounds, [place] * 2, color=colour, lw=8, **BAND)
    axes.plot([better.value], [place], "|", color=colour, ms=14, mew=2.5)


def _name_rows(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
