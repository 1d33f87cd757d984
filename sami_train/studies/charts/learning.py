"""How runs learnt: what counts while exploring, and what the contrastive loss reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sami_train.envs.measure import Measure
from sami_train.runs.folder import RunRecord
from sami_train.studies.charts.chart import Chart, Panel, Row, rows_where
from sami_train.studies.charts.style import colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 300
"""Of a curve; of more lines of a log, every n-th."""


def learning(records: Sequence[RunRecord], measure: Measure) -> Chart:
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
    colours = colours_of([record.name for record in records])

    def lines(axes: Axes, panel: str) -> None:
        from matplotlib.ticker import EngFormatter

        for run, colour in colours.items():
            curve = rows_where(rows, panel=panel, run=run)
            steps = [row["step"] for row in curve]
            if curve:
                axes.plot(steps, [row["value"] for row in curve], color=colour, lw=1.8, label=run)
            if curve and "log_k" in curve[0]:
                axes.plot(steps, [row.get("log_k", np.nan) for row in curve], color=colour, lw=1.2, ls="--")
        axes.set_xlabel("environment steps")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))

    def exploring(axes: Axes) -> None:
        lines(axes, "learning")
        axes.set(ylabel=measure.name, ylim=measure.bounds)

    def contrast(axes: Axes) -> None:
        lines(axes, "contrast")
        axes.set(ylabel="nats", ylim=(0, None))

    drawn = {row["panel"] for row in rows}
    panels = []
    if "learning" in drawn:
        panels.append(Panel(f"{measure.name.capitalize()} while exploring", exploring))
    if "contrast" in drawn:
        panels.append(Panel("Contrastive bound, realised", contrast))
    caption = (
        f"{measure.name.capitalize()} while exploring, by environment steps; and the bound that the contrastive loss "
        "realised [nats], with the log K that no bound passes (dashed). A constant encoder has 0."
    )
    return Chart("learning", caption, tuple(panels), tuple(rows), width=420, columns=2)
