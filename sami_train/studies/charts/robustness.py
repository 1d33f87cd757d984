"""Robustness curves: what counts behind each kind of gap, against its size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sami_train.evaluation.robustness import RobustnessPoint
from sami_train.studies.charts.chart import Chart, Panel, Row, rows_where
from sami_train.studies.charts.style import FAINT, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def robustness(points: Sequence[RobustnessPoint]) -> Chart:
    """Return a panel for each kind of gap, with 95 % intervals.

    Args:
        points: as `sweep` gives them, the world as it is first.
    """
    clean, *behind = points
    measure = clean.evaluation.measure
    kinds = list(dict.fromkeys(point.kind for point in behind))
    rows: list[Row] = []
    for kind in kinds:
        of_kind = [point for point in behind if point.kind == kind]
        for point in (clean, *of_kind):
            for task_set in clean.evaluation.sets:
                value, interval = point.score(task_set)
                low, high = interval or (value, value)
                rows.append(
                    {
                        "kind": kind,
                        "severity": round(point.severity, 5),
                        "unit": of_kind[0].unit,
                        "set": task_set,
                        "value": round(value, 4),
                        "low": round(low, 4),
                        "high": round(high, 4),
                    }
                )
    colours = colours_of(clean.evaluation.sets)

    def draw(kind: str, axes: Axes) -> None:
        for task_set, colour in colours.items():
            line = rows_where(rows, kind=kind, set=task_set)
            severities = [row["severity"] for row in line]
            axes.axhline(line[0]["value"], color=FAINT, lw=1, ls=":")
            low, high = [row["low"] for row in line], [row["high"] for row in line]
            axes.fill_between(severities, low, high, color=colour, alpha=0.16, lw=0)
            axes.plot(severities, [row["value"] for row in line], "o-", color=colour, lw=1.8, ms=4, label=task_set)
        axes.set(xlabel=f"[{line[0]['unit']}]", ylabel=measure.name)
        if measure.bounds:
            axes.set_ylim(measure.bounds[0] - 0.03, measure.bounds[1] + 0.03)

    caption = (
        f"{measure.name.capitalize()} behind one kind of gap at a time, against its size; bands are 95 % intervals "
        "over starts and what their gaps drew. Dotted: without a gap."
    )
    panels = tuple(Panel(kind, partial(draw, kind)) for kind in kinds)
    return Chart("robustness", caption, panels, tuple(rows), width=220, height=170, columns=5)
