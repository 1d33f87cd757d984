"""Robustness curves: what counts behind each kind of gap, against its size."""

from __future__ import annotations

from collections.abc import Sequence

from sami_train.evaluation.robustness import Point
from sami_train.studies.report.charts.figure import Figure, Panel, Row, field, tooltip


def robustness(points: Sequence[Point]) -> Figure:
    """Return a panel for each kind of gap, with 95 % intervals.

    Args:
        points: as `sweep` gives them, the world as it is first.
    """
    clean, *behind = points
    measure = clean.evaluation.measure
    kinds = list(dict.fromkeys(point.kind for point in behind))
    rows: list[Row] = []
    for kind in kinds:
        own = [point for point in behind if point.kind == kind]
        for point in (clean, *own):
            for task_set in clean.evaluation.sets:
                value, interval = point.score(task_set)
                low, high = interval or (value, value)
                rows.append(
                    {
                        "kind": kind,
                        "severity": round(point.severity, 5),
                        "unit": own[0].unit,
                        "set": task_set,
                        "value": round(value, 4),
                        "low": round(low, 4),
                        "high": round(high, 4),
                    }
                )
    scale = {"domain": list(measure.bounds)} if measure.bounds else {"zero": False}
    number = ".2f" if measure.bounds else ",.0f"

    def view(unit: str) -> dict[str, object]:
        return {
            "encoding": {
                "x": field("severity", "quantitative", f"[{unit}]", axis={"tickCount": 4, "format": "~g"}),
                "color": field("set", "nominal", "", sort=None),
            },
            "layer": [
                {
                    "mark": {"type": "area", "opacity": 0.16},
                    "encoding": {"y": field("low", "quantitative", measure.name), "y2": {"field": "high"}},
                },
                {
                    "mark": {"type": "line", "point": {"size": 28}},
                    "encoding": {
                        "y": field("value", "quantitative", measure.name, scale=scale),
                        "tooltip": tooltip("set", "severity", ("value", number), ("low", number), ("high", number)),
                    },
                },
            ],
        }

    units = {row["kind"]: row["unit"] for row in rows}
    panels = tuple(Panel(kind, view(units[kind]), {"kind": kind}) for kind in kinds)
    caption = (
        f"{measure.name.capitalize()} behind one kind of gap at a time, against its size; bands are 95 % intervals "
        "over starts and what their gaps drew."
    )
    return Figure("robustness", caption, panels, tuple(rows), width=220, height=170, columns=5)
