"""Every plot of a comparison, as PNG files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sami_train.envs.catalog import environment
from sami_train.envs.measure import RETURN, SUCCESS, Measure
from sami_train.studies.charts.chart import Chart
from sami_train.studies.charts.curves import curves_by_key, learning_curves
from sami_train.studies.charts.heat_maps import heat_maps, limits_of, two_features
from sami_train.studies.charts.intervals import improvement_intervals, score_intervals
from sami_train.studies.charts.style import SETTINGS
from sami_train.studies.compare.comparison import MethodComparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plot:
    """A file, what draws it, and what it shows."""

    name: str
    make: Callable[[MethodComparison], Figure | Chart | None]
    """None where the runs do not allow it."""
    caption: str
    """With `{measure}` where the name of what counts belongs."""
    of_returns: str | None = None
    """The caption where the return counts; None where it is the same."""

    def caption_of(self, measure: Measure) -> str:
        """Return what it shows where policies are judged so."""
        text = self.of_returns if measure is RETURN and self.of_returns else self.caption
        return text.format(measure=measure.name.capitalize())


def maps_by_task(comparison: MethodComparison) -> Chart | None:
    """Mean over seeds in each task, a map for each group; None where an environment has no map."""
    spec, measure = environment(comparison.env), comparison.measure
    if not two_features(spec):
        return None
    cells = {}
    for group in comparison.groups:
        by_task = zip(*(run.evaluation.results for run in group.runs), strict=True)
        cells[group.label] = [
            (
                same[0].task_set,
                same[0].task,
                {
                    "value": np.mean([result.success if measure is SUCCESS else result.ret for result in same]),
                    "episodes": same[0].episodes,
                    "above_floor": np.mean([result.above_floor for result in same]) if measure is SUCCESS else np.nan,
                },
            )
            for same in by_task
        ]
    limits = measure.bounds or limits_of([cell[2]["value"] for measured in cells.values() for cell in measured])
    number = ".2f" if measure is SUCCESS else ",.0f"
    return replace(heat_maps("heat_maps", "", spec, cells, measure.name, limits, number), columns=5)


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
    """Draw what the runs allow into an existing folder.

    Returns:
        What was drawn, in the order of reading.
    """
    import matplotlib

    drawn = []
    with matplotlib.rc_context(SETTINGS):
        for plot in PLOTS:
            figure = plot.make(comparison)
            if figure is not None:
                figure.savefig(folder / plot.name)
                drawn.append(plot)
    return drawn
