"""How runs learnt: what counts while exploring, and what the contrastive loss reached."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sami_train.envs.measure import Measure
from sami_train.runs.record import RunRecord
from sami_train.studies.report.charts.figure import FADED, Figure, Panel, Row, Spec, field, picked, tooltip

MOST_POINTS = 300
"""Of a curve; of more lines of a log, every n-th."""


def learning(records: Sequence[RunRecord], measure: Measure) -> Figure:
    """Curves of what counts while exploring, and of the contrast's bound with log K, which no bound passes."""
    rows: list[Row] = []
    for record in records:
        for row in record.metrics[:: max(1, len(record.metrics) // MOST_POINTS)]:
            if (value := row.get(measure.exploring)) is not None and value == value:
                rows.append({"panel": "learning", "run": record.name, "step": row["step"], "value": round(value, 4)})
            bound = row.get("contrast/bound", row.get("train/contrast_bound"))
            if bound is not None and bound == bound:
                k = row.get("contrast/k")
                log_k = row.get("train/contrast_log_k") if k is None else float(np.log(k))
                rows.append(
                    {"panel": "contrast", "run": record.name, "step": row["step"], "value": round(bound, 4)}
                    | ({} if log_k is None else {"log_k": round(log_k, 4)})
                )
    drawn = {row["panel"] for row in rows}
    number = ".2f" if measure.bounds else ",.0f"
    panels = []
    if "learning" in drawn:
        said = f"{measure.name.capitalize()} while exploring"
        panels.append(Panel(said, _lines(measure.name, number, measure.bounds), {"panel": "learning"}))
    if "contrast" in drawn:
        panels.append(Panel("Contrastive bound, realised", _bound(), {"panel": "contrast"}))
    caption = (
        f"{measure.name.capitalize()} while exploring, by environment steps; and the bound that the contrastive loss "
        "realised [nats], with the log K that no bound passes (dashed). A constant encoder has 0."
    )
    return Figure("learning", caption, tuple(panels), tuple(rows), width=420, columns=2)


def _x() -> dict[str, object]:
    return field("step", "quantitative", "environment steps", axis={"format": "~s", "tickCount": 6})


def _lines(what: str, number: str, bounds: tuple[float, float] | None) -> Spec:
    scale = {"domain": list(bounds)} if bounds else {"zero": False}
    return {
        "params": picked("run"),
        "mark": {"type": "line", "clip": True},
        "encoding": {
            "x": _x(),
            "y": field("value", "quantitative", what, scale=scale),
            "color": field("run", "nominal", ""),
            "opacity": FADED,
            "tooltip": tooltip("run", ("step", ",.0f"), ("value", number)),
        },
    }


def _bound() -> Spec:
    return {
        "encoding": {"x": _x(), "color": field("run", "nominal", "")},
        "layer": [
            {
                "params": picked("run"),
                "mark": {"type": "line"},
                "encoding": {
                    "y": field("value", "quantitative", "nats"),
                    "opacity": FADED,
                    "tooltip": tooltip("run", ("step", ",.0f"), ("value", ".2f"), ("log_k", ".2f")),
                },
            },
            {
                "mark": {"type": "line", "strokeDash": [4, 4], "strokeWidth": 1.2, "opacity": 0.7},
                "encoding": {"y": field("log_k", "quantitative", "nats")},
            },
        ],
    }
