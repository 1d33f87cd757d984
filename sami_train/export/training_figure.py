"""The card's figure: how a training went."""

from __future__ import annotations

from pathlib import Path

from sami_train.envs.measure import Measure
from sami_train.files import unfinished
from sami_train.runs.record import RunRecord

MOST_NAMED = 9
"""Most tasks whose curves a plot names; of more, only the mean is."""


def draw_training(run: RunRecord, measure: Measure, path: Path) -> bool:
    """Draw what counts while exploring over minutes; False where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    rows = [row for row in run.metrics if "time/seconds" in row and measure.exploring in row]
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    minutes = [row["time/seconds"] / 60 for row in rows]
    prefix = f"{measure.name}/"
    names = sorted({key for row in rows for key in row if key.startswith(prefix)})
    for name in names:
        task = name.removeprefix(prefix) if len(names) <= MOST_NAMED else "_"
        axes.plot(minutes, [row.get(name, float("nan")) for row in rows], lw=1, alpha=0.6, label=task)
    axes.plot(minutes, [row[measure.exploring] for row in rows], "k", lw=2, label="mean")
    shorter = run.train_config().collection.episode_steps
    label = f"{measure.name} while exploring" + (f",\nepisodes of {shorter} steps" if shorter else "")
    axes.set(xlabel="minutes", ylabel=label, ylim=measure.bounds)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="lower right")
    with unfinished(path) as beside:
        figure.savefig(beside, dpi=110, format="png")
    return True
