"""Every plot of a comparison, as PNG files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_runtime.errors import quantity
from sami_train.envs.catalog import environment
from sami_train.envs.measure import RETURN, SUCCESS, Measure
from sami_train.studies.charts.chart import BAND, GREY, SETTINGS, STYLES, Chart, colour_of, legend_below, panels, shades
from sami_train.studies.charts.scores import Cell, heat_maps, two_features
from sami_train.studies.compare.comparison import Contest, MethodComparison, Standing
from sami_train.studies.compare.groups import Group, shown_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOG = 8
"""The axis of a key is logarithmic if its largest value is at least this many times its smallest."""


def learning_curves(comparison: MethodComparison) -> Figure | None:
    """Plot the training curves: in one panel, or in one per method if a method has several groups; None without any."""
    groups = [group for group in comparison.groups if any(len(run.curve()[0]) for run in group.runs)]
    if not groups:
        return None
    titles = list(dict.fromkeys(group.method.title for group in groups))
    split = len(titles) < len(groups)
    parts = [[g for g in groups if g.method.title == title] for title in titles] if split else [groups]
    figure, row = panels(len(parts), max(7.5, 3.7 * len(parts)), 4.2)
    for axes, members in zip(row, parts, strict=True):
        colours = shades(len(members)) if split else [colour_of(g.method) for g in members]
        for group, colour in zip(members, colours, strict=True):
            _learning_curve(axes, group, " ".join(group.labels.values()) if split else group.label, colour)
        axes.set(xlabel="environment steps [thousands]", ylim=comparison.measure.bounds, xlim=(0, None))
        axes.set_title(members[0].method.title if split else "")
        axes.legend(fontsize=8, loc="lower right")
    row[0].set_ylabel(f"{comparison.measure.name} while exploring")
    return figure


def _learning_curve(axes: Axes, group: Group, label: str, colour: Any) -> None:
    curves = [curve for run in group.runs if len((curve := run.curve())[0])]
    first, last = max(steps[0] for steps, _ in curves), min(steps[-1] for steps, _ in curves)
    at = np.linspace(first, last, 200)
    values = np.stack([np.interp(at, steps, success) for steps, success in curves])
    mean = values.mean(axis=0)
    label = ", ".join([*([label] if label else []), quantity(len(curves), "seed")])
    axes.plot(at / 1000, mean, color=colour, lw=1.8, label=label)
    if len(curves) > 1:
        std = values.std(axis=0, ddof=1)
        axes.fill_between(at / 1000, mean - std, mean + std, color=colour, alpha=0.18, lw=0)


def curves_by_key(comparison: MethodComparison) -> Figure | None:
    """Plot the IQM against `by`, a line per method and other setting, level if it has one value; None without `by`."""
    key = comparison.by
    if key is None:
        return None
    values = list(dict.fromkeys(comparison.value_of(group) for group in comparison.groups))
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    places = {value: float(value) if numeric else float(at) for at, value in enumerate(values)}
    lines: dict[str, list[Group]] = {}
    for group in comparison.groups:
        texts = [text for name, text in group.labels.items() if name != key]
        lines.setdefault(" ".join([group.method.title, *texts]), []).append(group)
    figure, row = panels(len(comparison.task_sets), 11, 4.2, sharey=False)
    for axes, task_set in zip(row, comparison.task_sets, strict=True):
        standings = {s.group.label: s for s in comparison.standings if s.task_set == task_set}
        counts: Counter[str] = Counter()
        for number, (label, members) in enumerate(lines.items()):
            at = [places[comparison.value_of(group)] for group in members]
            title = members[0].method.title
            shift = 3.5 * (number - (len(lines) - 1) / 2)
            _line(axes, label, at, [standings[g.label] for g in members], STYLES[counts[title] % len(STYLES)], shift)
            counts[title] += 1
        if numeric and min(places.values()) > 0 and max(places.values()) >= LOG * min(places.values()):
            axes.set_xscale("log")
        axes.set_xticks(list(places.values()), [shown_value(value) for value in values])
        axes.minorticks_off()
        axes.margins(x=0.08)
        axes.set(title=task_set, xlabel=key)
    row[0].set_ylabel(f"{comparison.measure.name}, IQM")
    legend_below(figure, row[0].get_legend_handles_labels()[0])
    return figure


def _line(axes: Axes, label: str, at: Sequence[float], standings: Sequence[Standing], style: str, shift: float) -> None:
    """Draw a line, shifted by `shift` [points] to the right, so that intervals at one value do not overlap."""
    from matplotlib.transforms import ScaledTranslation

    colour = colour_of(standings[0].group.method)
    transform = axes.transData + ScaledTranslation(shift / 72, 0, axes.figure.dpi_scale_trans)
    iqms = [standing.score.iqm for standing in standings]
    if len(iqms) == 1:
        axes.axhline(iqms[0].value, color=colour, lw=1.2, ls=":")
    heights = [iqm.value for iqm in iqms]
    axes.plot(at, heights, style + "o", color=colour, ms=5, lw=1.8, label=label, transform=transform)
    axes.update_datalim(np.column_stack([at, heights]))
    for x, iqm in zip(at, iqms, strict=True):
        if iqm.bounds:
            axes.plot([x, x], iqm.bounds, color=colour, lw=4, transform=transform, **BAND)
            axes.update_datalim([(x, bound) for bound in iqm.bounds])
    axes.autoscale_view()


MANY = 15
"""Most pairs of groups that a plot shows if none is a pair of the paper's claim."""


def score_intervals(comparison: MethodComparison) -> Figure:
    """Plot the IQM with its bootstrap interval, and each seed's mean with Student's t interval, by group and set."""
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
    """Plot P(X > Y) of the paper's pairs, else of all pairs; None if there is no pair or more than `MANY`."""
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


@dataclass(frozen=True)
class Plot:
    """A plot: its file name, the function that draws it, and its caption."""

    name: str
    make: Callable[[MethodComparison], Figure | Chart | None]
    """Returns None if the runs lack the data for the plot."""
    caption: str
    """May contain `{measure}`, which becomes the measure's name."""
    of_returns: str | None = None
    """The caption if the measure is the return; None uses `caption`."""

    def caption_of(self, measure: Measure) -> str:
        """Return the caption for a measure."""
        text = self.of_returns if measure is RETURN and self.of_returns else self.caption
        return text.format(measure=measure.name.capitalize())


def maps_by_task(comparison: MethodComparison) -> Chart | None:
    """Draw a map of the mean over seeds in each task, per group; None unless tasks have two features to map."""
    spec, measure = environment(comparison.env), comparison.measure
    if not two_features(spec):
        return None
    success = measure is SUCCESS
    cells: dict[str, list[Cell]] = {}
    for group in comparison.groups:
        of_group = cells.setdefault(group.label, [])
        for same in zip(*(run.evaluation.results for run in group.runs), strict=True):
            value = np.mean([result.success if success else result.ret for result in same])
            above = np.mean([result.nontrivial_success for result in same]) if success else np.nan
            facts = {"value": value, "episodes": same[0].episodes, "above_floor": above}
            of_group.append((same[0].task_set, same[0].task, facts))
    return replace(heat_maps("heat_maps", "", spec, cells, measure.name, measure.bounds), columns=5)


PLOTS = (
    Plot(
        "intervals.png",
        score_intervals,
        "{measure} by group and set of tasks. Bar: IQM with its 95 % stratified bootstrap interval; circles and thin "
        "line: mean of each seed and the 95 % Student's t interval of their mean.",
    ),
    Plot("improvement.png", improvement_intervals, "P(X > Y), with 95 % stratified bootstrap intervals."),
    Plot(
        "by_key.png", curves_by_key, "IQM against a key of the configuration, with 95 % stratified bootstrap intervals."
    ),
    Plot(
        "learning_curves.png",
        learning_curves,
        "{measure} while exploring, mean over training tasks. Line: mean over seeds; band: one standard deviation.",
        of_returns="{measure} while exploring, mean of the last 100 episodes. Line: mean over seeds; band: one "
        "standard deviation.",
    ),
    Plot(
        "heat_maps.png",
        maps_by_task,
        "{measure} by task, mean over seeds. Hatched: hardly more than doing nothing scores.",
        of_returns="{measure} by task, mean over seeds.",
    ),
)


def draw(comparison: MethodComparison, folder: Path) -> list[Plot]:
    """Draw every plot for which the runs have data into an existing folder; return these in the order of the report."""
    import matplotlib

    plots = []
    with matplotlib.rc_context(SETTINGS):
        for plot in PLOTS:
            figure = plot.make(comparison)
            if figure is not None:
                figure.savefig(folder / plot.name)
                plots.append(plot)
    return plots
