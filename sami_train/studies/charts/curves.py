"""What counts while learning, and against a key of the configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_train.studies.charts.style import BAND, STYLES, colour_of, legend_below, panels, shades
from sami_train.studies.compare.comparison import MethodComparison, Standing
from sami_train.studies.compare.groups import Group, shown_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOG = 8
"""Ratio of the largest to the smallest value of a key from which its axis is logarithmic."""


def learning_curves(comparison: MethodComparison) -> Figure | None:
    """Return what counts while exploring; one panel, or one for each method where a method has several groups."""
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
            _learning_curve(axes, group, " ".join(group.shown.values()) if split else group.label, colour)
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
    label = ", ".join([*([label] if label else []), f"{len(curves)} seed{'s' if len(curves) > 1 else ''}"])
    axes.plot(at / 1000, mean, color=colour, lw=1.8, label=label)
    if len(curves) > 1:
        std = values.std(axis=0, ddof=1)
        axes.fill_between(at / 1000, mean - std, mean + std, color=colour, alpha=0.18, lw=0)


def curves_by_key(comparison: MethodComparison) -> Figure | None:
    """IQM against the key: a line for each method and each other setting; level where only one value was run."""
    key = comparison.by
    if key is None:
        return None
    values = list(dict.fromkeys(comparison.value_of(group) for group in comparison.groups))
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    places = {value: float(value) if numeric else float(at) for at, value in enumerate(values)}
    lines: dict[str, list[Group]] = {}
    for group in comparison.groups:
        lines.setdefault(group.name(without=key), []).append(group)
    figure, row = panels(len(comparison.task_sets), 11, 4.2, sharey=False)
    for axes, task_set in zip(row, comparison.task_sets, strict=True):
        standings = {s.group.label: s for s in comparison.standings if s.task_set == task_set}
        drawn: Counter[str] = Counter()
        for number, (label, members) in enumerate(lines.items()):
            at = [places[comparison.value_of(group)] for group in members]
            title = members[0].method.title
            aside = 3.5 * (number - (len(lines) - 1) / 2)
            _line(axes, label, at, [standings[g.label] for g in members], STYLES[drawn[title] % len(STYLES)], aside)
            drawn[title] += 1
        if numeric and min(places.values()) > 0 and max(places.values()) >= LOG * min(places.values()):
            axes.set_xscale("log")
        axes.set_xticks(list(places.values()), [shown_value(value) for value in values])
        axes.minorticks_off()
        axes.margins(x=0.08)
        axes.set(title=task_set, xlabel=key)
    row[0].set_ylabel(f"{comparison.measure.name}, IQM")
    legend_below(figure, row[0].get_legend_handles_labels()[0])
    return figure


def _line(axes: Axes, label: str, at: Sequence[float], standings: Sequence[Standing], style: str, aside: float) -> None:
    """Draw a line, some points aside, so that intervals at one value do not hide each other."""
    from matplotlib.transforms import ScaledTranslation

    colour = colour_of(standings[0].group.method)
    moved = axes.transData + ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
    iqms = [standing.score.iqm for standing in standings]
    if len(iqms) == 1:
        axes.axhline(iqms[0].value, color=colour, lw=1.2, ls=":")
    heights = [iqm.value for iqm in iqms]
    axes.plot(at, heights, style + "o", color=colour, ms=5, lw=1.8, label=label, transform=moved)
    axes.update_datalim(np.column_stack([at, heights]))
    for x, iqm in zip(at, iqms, strict=True):
        if iqm.bounds:
            axes.plot([x, x], iqm.bounds, color=colour, lw=4, transform=moved, **BAND)
            axes.update_datalim([(x, bound) for bound in iqm.bounds])
    axes.autoscale_view()
