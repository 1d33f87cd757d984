"""Charts of contexts: maps, what contexts encode by step, and how they evolve, also after a change of the dynamics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_runtime.model.atlas import label, text_of
from sami_train.envs.measure import SUCCESS
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Crippled
from sami_train.files import unfinished
from sami_train.studies.charts import chart as look
from sami_train.studies.charts.chart import Chart, Panel, Row, colours_of, rows_where
from sami_train.studies.charts.scores import title_of
from sami_train.studies.contexts.adaptation import Adaptation
from sami_train.studies.contexts.changed_episodes import Variant
from sami_train.studies.report.episodes import ReportEpisode
from sami_train.studies.report.mapped import Separability, accuracy, usable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_STEPS = 40
"""Most steps at which to measure what contexts encode."""
MOST_DIMENSIONS, MOST_LINES = 8, 6
"""Most dimensions of the context, a panel each; most values of a feature, a line each."""
MARKERS = "osD^"
"""Markers of unordered values, if these are few, in addition to their colours."""
RETURN_GROUPS = ("lowest third", "middle third", "highest third")
COLOURS = {
    Variant.LIVE: "#D55E00",
    Variant.FROZEN: "#0072B2",
    Variant.RESET: "#009E73",
    Variant.START: "#CC79A7",
    Variant.CONSTANT: "#E69F00",
    Variant.UNCHANGED: "#6b6b6b",
}
Labels = Mapping[str, Sequence[str]]
"""A value for each episode, by name of the label."""


def labels_of(spec: EnvironmentSpec, episodes: Sequence[ReportEpisode]) -> dict[str, list[str]]:
    """Return the labels that colour maps: each feature of the task, the skill, and the outcome."""
    names = [feature.name for feature in spec.tasks.features]
    labels = {name: [text_of(episode.task[name]) for episode in episodes] for name in names}
    if spec.skills:
        labels["skill"] = [title_of(episode.skill) for episode in episodes]
    if spec.measure is SUCCESS:
        labels["outcome"] = ["success" if episode.success else "failure" for episode in episodes]
    else:
        returns = np.array([episode.ret for episode in episodes])
        thirds = np.searchsorted(np.quantile(returns, [1 / 3, 2 / 3]), returns)
        labels["return"] = [RETURN_GROUPS[third] for third in thirds]
    return labels


def maps(
    spec: EnvironmentSpec, episodes: Sequence[ReportEpisode], planes: Mapping[str, np.ndarray], labels: Labels
) -> Chart:
    """Return maps of the contexts of final steps of n episodes, a panel for each method and label (see `labels_of`).

    `planes` has the positions of the episodes in the map of each method, (n, 2), see `plane`.
    """
    rows = []
    for number, episode in enumerate(episodes):
        row: dict[str, Any] = {name: values[number] for name, values in labels.items()}
        row["task"] = f"{label(episode.task)} ({episode.task_set})"
        outcome = "success" if episode.success else "failure"
        row["outcome_of_episode"] = outcome if spec.measure is SUCCESS else f"return {episode.ret:.0f}"
        row["steps"] = len(episode.contexts)
        for method, points in planes.items():
            row[f"{method}_x"], row[f"{method}_y"] = (round(float(place), 4) for place in points[number])
        rows.append(row)
    panels = []
    for method in planes:
        for name, values in labels.items():
            if len(set(values)) > 1:
                draw = partial(_scatter, rows=rows, method=method, name=name, values=sorted(set(values), key=_order))
                panels.append(Panel(f"{method}, by {name}", draw))
    caption = (
        "Contexts of the final step of each episode, mapped into the plane. Distances between far groups mean nothing "
        "in such maps, and axes have no unit; the table below measures the contexts themselves."
    )
    return Chart("embeddings", caption, tuple(panels), tuple(rows), width=240, height=240, columns=len(labels))


def _scatter(axes: Axes, rows: Sequence[Row], method: str, name: str, values: Sequence[str]) -> None:
    ordered = all(_order(value)[0] == 0 for value in values)
    for place, (value, colour) in enumerate(colours_of(values, ordered).items()):
        points = rows_where(rows, **{name: value})
        xs, ys = ([row[f"{method}_{axis}"] for row in points] for axis in "xy")
        marker = MARKERS[place] if not ordered and len(values) <= len(MARKERS) else "o"
        axes.plot(xs, ys, marker, color=colour, ms=4, mew=0, alpha=0.75, label=value)
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), xticks=(), yticks=())


def _order(value: str) -> tuple[int, float, str]:
    """Return the sort key of a value: numbers by size, then words."""
    try:
        return 0, float(value), ""
    except ValueError:
        return 1, 0.0, value


def by_step(episodes: Sequence[ReportEpisode], labels: Labels, measured: Sequence[Separability]) -> Chart:
    """Return how well the contexts of each step identify each label; an episode that is over keeps its last context."""
    longest = _usual_longest(episodes)
    steps = sorted({*np.linspace(0, longest - 1, min(longest, MOST_STEPS)).round().astype(int).tolist()})
    rows: list[Row] = []
    for row in measured:
        numbers = np.flatnonzero(usable(labels[row.label])).tolist()
        values = [labels[row.label][number] for number in numbers]
        for step in steps:
            contexts = np.stack([episodes[n].contexts[min(step, len(episodes[n].contexts) - 1)] for n in numbers])
            at = round(accuracy(contexts, values), 4)
            rows.append({"label": row.label, "step": step, "accuracy": at, "chance": round(row.knn_chance_high, 4)})
    colours = colours_of([row.label for row in measured])

    def draw(axes: Axes) -> None:
        for name, colour in colours.items():
            line = rows_where(rows, label=name)
            at = [row["step"] for row in line]
            axes.plot(at, [row["accuracy"] for row in line], color=colour, lw=1.8, label=name)
            axes.plot(at, [row["chance"] for row in line], color=colour, lw=1.2, ls="--")
        axes.set(xlabel="step of the episode", ylabel="accuracy of 10 neighbours", ylim=(0, 1))

    caption = (
        "What the context identifies by step: accuracy of nearest neighbours among contexts of the same step. Dashed: "
        "what 95 of 100 permutations of the labels stay below."
    )
    return Chart("context_tells", caption, (Panel("What it identifies, by step", draw),), tuple(rows), width=440)


def _usual_longest(episodes: Sequence[ReportEpisode]) -> int:
    """Return the 95th percentile of the episodes' lengths [steps]."""
    return int(np.percentile([len(episode.contexts) for episode in episodes], 95))


def over_time(spec: EnvironmentSpec, all_episodes: Sequence[ReportEpisode]) -> Chart | None:
    """Return the mean context by step, a panel per dimension, a line per value of the first numeric feature, if any."""
    names = [feature.name for feature in spec.tasks.features if not isinstance(feature, Crippled)]
    if not names:
        return None
    name, longest = names[0], _usual_longest(all_episodes)
    rows: list[Row] = []
    values = sorted({episode.task[name] for episode in all_episodes})
    if len(values) > MOST_LINES:
        values = [values[at] for at in np.linspace(0, len(values) - 1, MOST_LINES).round().astype(int)]
    for value in values:
        episodes = [episode for episode in all_episodes if episode.task[name] == value]
        for step in range(0, longest, max(1, longest // 200)):
            running = [episode.contexts[step] for episode in episodes if len(episode.contexts) > step]
            if len(running) < min(5, len(episodes)):
                break
            for dimension, mean in enumerate(np.mean(running, axis=0)[:MOST_DIMENSIONS]):
                place = {"dimension": dimension + 1, "step": step, name: text_of(value)}
                rows.append({**place, "mean": round(float(mean), 4), "episodes": len(running)})
    colours = colours_of([text_of(value) for value in values], ordered=True)

    def draw(dimension: int, axes: Axes) -> None:
        for value, colour in colours.items():
            line = rows_where(rows, dimension=dimension, **{name: value})
            steps, means = [row["step"] for row in line], [row["mean"] for row in line]
            axes.plot(steps, means, color=colour, lw=1.8, label=f"{name} {value}")
        axes.set(xlabel="step")

    dimensions = sorted({row["dimension"] for row in rows})
    panels = tuple(Panel(f"context {dimension}", partial(draw, dimension)) for dimension in dimensions)
    caption = f"Mean context by step, of the episodes that still run, by {name}."
    return Chart("context_over_time", caption, panels, tuple(rows), width=240, height=150)


def at_change(around: Mapping[str, Any]) -> Chart:
    """Return distances and means of contexts by steps since a change, from the result of `contexts_around`."""
    rows: list[Row] = [{"panel": "distance", **row} for row in around["rows"]]
    rows += [{"panel": "mean", **row} for row in around["means"] if row["dimension"] <= MOST_DIMENSIONS]

    def distance(axes: Axes) -> None:
        for dynamics, colour in colours_of(["old dynamics", "new dynamics"]).items():
            line = rows_where(rows, panel="distance", to=dynamics)
            at = [row["step"] for row in line]
            low, high = [row["low"] for row in line], [row["high"] for row in line]
            axes.fill_between(at, low, high, color=colour, alpha=0.18, lw=0)
            axes.plot(at, [row["median"] for row in line], color=colour, lw=1.8, label=dynamics)
        axes.axvline(0, color=look.FAINT, lw=1, ls=":")
        axes.set(xlabel="steps since the change", ylabel="distance")

    def mean(dimension: int, axes: Axes) -> None:
        for way, colour in colours_of(["changed", "unchanged"]).items():
            line = rows_where(rows, panel="mean", dimension=dimension, way=way)
            axes.plot([row["step"] for row in line], [row["mean"] for row in line], color=colour, lw=1.8, label=way)
        axes.axvline(0, color=look.FAINT, lw=1, ls=":")
        axes.set(xlabel="steps since the change")

    dimensions = sorted({row["dimension"] for row in rows if "dimension" in row})
    panels = [Panel("Distance to the context of ...", distance)]
    panels += [Panel(f"context {dimension}, mean", partial(mean, dimension)) for dimension in dimensions]
    caption = (
        f"Context at a change of the dynamics, {around['change']}: {around['reached']} of {around['episodes']} "
        "episodes still ran. First: distance to the context of the same step of the same start where the old dynamics "
        "stayed, and where the new ones were there all along (median, quartiles). Then the mean of each dimension, "
        "with and without the change."
    )
    return Chart("context_at_change", caption, tuple(panels), tuple(rows), width=240, height=170)


def draw_adaptations(adaptations: Sequence[Adaptation], path: Path) -> None:
    """Write a PNG with a column for each change.

    Top: mean distance between the policy's context and the context of variant START, by steps since the change. Middle,
    if the model has an atlas: the median out-of-distribution score and the alarm's threshold. Bottom: success (or
    return, if that is the measure) of each variant, with bars of one standard error.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with matplotlib.rc_context(look.SETTINGS):
        scored = any(row.score for row in adaptations[0].rows)
        heights = (1.2, 1.0, 1.0) if scored else (1.2, 1.0)
        figure = Figure(figsize=(max(6.0, 3.0 * len(adaptations)), 0.9 + 2.2 * sum(heights)), layout="constrained")
        grid = figure.subplots(len(heights), len(adaptations), squeeze=False, sharey="row", height_ratios=heights)
        for column, adaptation in zip(grid.T, adaptations, strict=True):
            _gaps(column[0], adaptation)
            if scored:
                _scores(column[1], adaptation)
            _outcomes(column[-1], adaptation)
        lows, highs = zip(*(axes.get_xlim() for axes in grid[-1]), strict=True)
        for axes in grid[-1]:
            axes.set_xlim(min(lows), max(highs))
        # Columns share these axes: set them after all lines are drawn.
        grid[0][0].set(ylabel="distance of contexts", ylim=(0, None))
        if scored:
            grid[1][0].set(ylabel="score, alarm above 1", ylim=(0, None))
        handles = [Line2D([], [], color=COLOURS[variant], label=variant.value) for variant in Variant]
        look.legend_below(figure, handles)
        with unfinished(path) as temporary:
            figure.savefig(temporary, format="png")


def _gaps(axes: Axes, adaptation: Adaptation) -> None:
    for row in adaptation.rows:
        if row.variant not in (Variant.START, Variant.UNCHANGED):
            axes.plot(range(len(row.gap)), row.gap, color=COLOURS[row.variant], lw=1.8, label=row.variant.value)
    axes.set(xlabel="steps since the change", xlim=(0, None))
    change = str(adaptation.change).replace(",", ",\n")  # one feature a line: three are wider than a column
    axes.set_title(f"{change}\n{adaptation.reached} of {adaptation.episodes} episodes", fontsize=9)


def _scores(axes: Axes, adaptation: Adaptation) -> None:
    for row in adaptation.rows:
        if row.score:
            scores = [float("nan") if score is None else score for score in row.score]
            axes.plot(range(len(scores)), scores, color=COLOURS[row.variant], lw=1.8, label=row.variant.value)
    axes.axhline(1.0, color=look.GREY, lw=1.0, ls="--")
    axes.set(xlabel="steps since the change", xlim=(0, None))


def _outcomes(axes: Axes, adaptation: Adaptation) -> None:
    for at, row in enumerate(reversed(adaptation.rows)):
        mean = row.success or row.ret
        axes.plot(mean.value, at, "o", color=COLOURS[row.variant], ms=5)
        if mean.error is not None:
            ends = [mean.value - mean.error, mean.value + mean.error]
            axes.plot(ends, [at, at], color=look.GREY, lw=4, **look.BAND)
    axes.set_yticks(range(len(adaptation.rows)), [row.variant.value for row in reversed(adaptation.rows)])
    axes.set(xlabel="success" if adaptation.rows[0].success else "return", ylim=(-0.5, len(adaptation.rows) - 0.5))
