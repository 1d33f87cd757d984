"""Every plot of a comparison, as PNG files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sami_train.envs.measure import RETURN, Measure
from sami_train.studies.compare.comparison import Comparison
from sami_train.studies.compare.figures.curves import curves_by_key, learning_curves
from sami_train.studies.compare.figures.heat_maps import heat_maps
from sami_train.studies.compare.figures.intervals import improvement_intervals, score_intervals
from sami_train.studies.compare.figures.style import SETTINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plot:
    """A file, what draws it, and what it shows."""

    name: str
    make: Callable[[Comparison], Figure | None]
    """None where the runs do not allow it."""
    caption: str
    """With `{measure}` where the name of what counts belongs."""
    of_returns: str | None = None
    """The caption where the return counts; None where it is the same."""

    def caption_of(self, measure: Measure) -> str:
        """Return what it shows where policies are judged so."""
        text = self.of_returns if measure is RETURN and self.of_returns else self.caption
        return text.format(measure=measure.name.capitalize())


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
        heat_maps,
        "{measure} by task, mean over seeds. Hatched: hardly more than doing nothing scores.",
        of_returns="{measure} by task, mean over seeds.",
    ),
)


def draw(comparison: Comparison, folder: Path) -> list[Plot]:
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
