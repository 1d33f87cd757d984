"""What contexts tell: maps of them, what they tell by step, and where they go, also at a change of the dynamics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sami_train.envs.measure import SUCCESS
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Crippled, label, shown
from sami_train.studies.report.charts.figure import FADED, Figure, Panel, Row, field, picked, tooltip
from sami_train.studies.report.charts.outcomes import title_of
from sami_train.studies.report.mapped import Told, accuracy, usable
from sami_train.studies.report.played import Played

MOST_STEPS = 40
"""Steps at which it is measured what a context tells."""
MOST_DIMENSIONS = 8
RETURN_GROUPS = ("lowest third", "middle third", "highest third")
Labels = Mapping[str, Sequence[str]]
"""By name of the label, a value for each episode."""


def labels_of(spec: EnvironmentSpec, played: Sequence[Played]) -> dict[str, list[str]]:
    """Return what maps are coloured by: each feature of the task, the skill, and the outcome."""
    found = {each.name: [shown(episode.task[each.name]) for episode in played] for each in spec.tasks.features}
    if spec.skills:
        found["skill"] = [title_of(episode.skill) for episode in played]
    if spec.measure is SUCCESS:
        found["outcome"] = ["success" if episode.success else "failure" for episode in played]
    else:
        returns = np.array([episode.ret for episode in played])
        thirds = np.searchsorted(np.quantile(returns, [1 / 3, 2 / 3]), returns)
        found["return"] = [RETURN_GROUPS[third] for third in thirds]
    return found


def maps(spec: EnvironmentSpec, played: Sequence[Played], planes: Mapping[str, np.ndarray], labels: Labels) -> Figure:
    """Return maps of the contexts of final steps, a panel for each method and label.

    Args:
        spec: the environment.
        played: (n,) episodes.
        planes: by method, (n, 2).
        labels: see `labels_of`.
    """
    rows = [
        {
            **{name: values[number] for name, values in labels.items()},
            "task": f"{label(episode.task)} ({episode.task_set})",
            "outcome_of_episode": ("success" if episode.success else "failure")
            if spec.measure is SUCCESS
            else f"return {episode.ret:.0f}",
            "steps": len(episode.contexts),
            **{
                f"{method}_{axis}": round(float(points[number][column]), 4)
                for method, points in planes.items()
                for column, axis in enumerate("xy")
            },
        }
        for number, episode in enumerate(played)
    ]
    panels = []
    for method in planes:
        for name, values in labels.items():
            if len(set(values)) < 2:
                continue
            panels.append(Panel(f"{method}, by {name}", _scatter(method, name, sorted(set(values), key=_order)), {}))
    caption = (
        "Contexts of the final step of each episode, mapped into the plane. Distances between far groups mean nothing "
        "in such maps, and axes have no unit; the table below measures the contexts themselves. Pick a value in a "
        "legend to see it alone."
    )
    return Figure("embeddings", caption, tuple(panels), tuple(rows), width=240, height=240, columns=len(labels))


def _scatter(method: str, name: str, values: Sequence[str]) -> dict[str, Any]:
    ordered = _order(values[0])[0] == 0 and all(_order(value)[0] == 0 for value in values)
    shown_as = field(name, "ordinal" if ordered else "nominal", "", sort=list(values))
    empty = {"axis": None, "scale": {"domain": [-1.08, 1.08]}}
    return {
        "params": picked(name),
        "mark": {"type": "point", "filled": True, "size": 30},
        "encoding": {
            "x": {"field": f"{method}_x", "type": "quantitative", **empty},
            "y": {"field": f"{method}_y", "type": "quantitative", **empty},
            "color": shown_as,
            # Two ways of being told apart where there are few names; numbers go from dark to light.
            **({"shape": {**shown_as, "legend": None}} if not ordered and len(values) <= 4 else {}),
            "opacity": {"condition": {"param": "pick", "value": 0.75}, "value": 0.05},
            "tooltip": tooltip("task", *(["skill"] if name == "skill" else []), "outcome_of_episode", "steps"),
        },
    }


def _order(value: str) -> tuple[int, float, str]:
    """Return what sorts values: numbers by size, then words."""
    try:
        return 0, float(value), ""
    except ValueError:
        return 1, 0.0, value


def by_step(played: Sequence[Played], labels: Labels, measured: Sequence[Told]) -> Figure:
    """How well the contexts of a step tell each label, by step; of an episode that is over, the last context."""
    longest = int(np.percentile([len(episode.contexts) for episode in played], 95))
    steps = sorted({*np.linspace(0, longest - 1, min(longest, MOST_STEPS)).round().astype(int).tolist()})
    rows: list[Row] = []
    for one in measured:
        chosen = np.flatnonzero(usable(labels[one.label])).tolist()
        values = [labels[one.label][number] for number in chosen]
        for step in steps:
            contexts = np.stack([played[n].contexts[min(step, len(played[n].contexts) - 1)] for n in chosen])
            at = round(accuracy(contexts, values), 4)
            rows.append({"label": one.label, "step": step, "accuracy": at, "chance": round(one.knn_chance_high, 4)})
    view = {
        "params": picked("label"),
        "encoding": {
            "x": field("step", "quantitative", "step of the episode"),
            "color": field("label", "nominal", "", sort=[one.label for one in measured]),
            "opacity": FADED,
        },
        "layer": [
            {
                "mark": {"type": "line"},
                "encoding": {
                    "y": field("accuracy", "quantitative", "accuracy of 10 neighbours", scale={"domain": [0, 1]}),
                    "tooltip": tooltip("label", "step", ("accuracy", ".2f"), ("chance", ".2f")),
                },
            },
            {
                "mark": {"type": "line", "strokeDash": [4, 4], "strokeWidth": 1.2},
                "encoding": {"y": field("chance", "quantitative", "")},
            },
        ],
    }
    view["layer"][0]["params"] = view.pop("params")  # type: ignore[index]
    caption = (
        "What the context tells by step: accuracy of nearest neighbours among contexts of the same step. Dashed: what "
        "95 of 100 permutations of the labels stay below."
    )
    return Figure("context_tells", caption, (Panel("What it tells, by step", view, {}),), tuple(rows), width=440)


def over_time(spec: EnvironmentSpec, played: Sequence[Played]) -> Figure | None:
    """Mean context by step, a line for each value of the first feature, a panel for each dimension."""
    features = [each for each in spec.tasks.features if not isinstance(each, Crippled)]
    if not features:
        return None
    name = features[0].name
    longest = int(np.percentile([len(episode.contexts) for episode in played], 95))
    every = max(1, longest // 200)
    rows: list[Row] = []
    values = sorted({episode.task[name] for episode in played})
    if len(values) > 6:  # as many lines as eyes can follow
        values = [values[at] for at in np.linspace(0, len(values) - 1, 6).round().astype(int)]
    for value in values:
        own = [episode for episode in played if episode.task[name] == value]
        for step in range(0, longest, every):
            running = [episode.contexts[step] for episode in own if len(episode.contexts) > step]
            if len(running) < min(5, len(own)):
                break
            for dimension, mean in enumerate(np.mean(running, axis=0)[:MOST_DIMENSIONS]):
                told = {"dimension": dimension + 1, "step": step, name: shown(value), "mean": round(float(mean), 4)}
                rows.append({**told, "episodes": len(running)})
    view = {
        "params": picked(name),
        "mark": {"type": "line"},
        "encoding": {
            "x": field("step", "quantitative", "step", axis={"tickCount": 5}),
            "y": field("mean", "quantitative", "", scale={"zero": False}),
            "color": field(name, "ordinal", name, sort=[shown(value) for value in values]),
            "opacity": FADED,
            "tooltip": tooltip(name, "step", ("mean", ".3f"), "episodes"),
        },
    }
    dimensions = sorted({row["dimension"] for row in rows})
    panels = tuple(Panel(f"context {dimension}", view, {"dimension": dimension}) for dimension in dimensions)
    caption = f"Mean context by step, of the episodes that still run, by {name}."
    return Figure("context_over_time", caption, panels, tuple(rows), width=240, height=150)


def at_change(found: Mapping[str, Any]) -> Figure:
    """Distances and means of contexts, by steps since a change; see `contexts_around`."""
    rows: list[Row] = [{"panel": "distance", **row} for row in found["rows"]]
    ways = ("changed", "unchanged")
    rows += [{"panel": "mean", **row} for row in found["means"] if row["dimension"] <= MOST_DIMENSIONS]
    rule = {
        "data": {"values": [{"at": 0}]},
        "mark": {"type": "rule", "strokeDash": [2, 3]},
        "encoding": {"x": {"field": "at", "type": "quantitative"}, "color": {"value": "#8a929c"}},
    }
    x = field("step", "quantitative", "steps since the change", axis={"tickCount": 5})
    distance = {
        "encoding": {"x": x, "color": field("to", "nominal", "", sort=["old dynamics", "new dynamics"])},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.18},
                "encoding": {"y": field("low", "quantitative", "distance"), "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line"},
                "encoding": {
                    "y": field("median", "quantitative", "distance"),
                    "tooltip": tooltip("to", "step", ("median", ".3f"), ("low", ".3f"), ("high", ".3f")),
                },
            },
            rule,
        ],
    }
    mean = {
        "encoding": {"x": x, "color": field("way", "nominal", "", sort=list(ways))},
        "layer": [
            {
                "mark": {"type": "line"},
                "encoding": {
                    "y": field("mean", "quantitative", "", scale={"zero": False}),
                    "tooltip": tooltip("way", "step", ("mean", ".3f")),
                },
            },
            rule,
        ],
    }
    dimensions = sorted({row["dimension"] for row in rows if "dimension" in row})
    panels = [Panel("Distance to the context of ...", distance, {"panel": "distance"})]
    panels += [
        Panel(f"context {dimension}, mean", mean, {"panel": "mean", "dimension": dimension}) for dimension in dimensions
    ]
    caption = (
        f"Context at a change of the dynamics, {found['change']}: {found['reached']} of {found['episodes']} episodes "
        "still ran. First: distance to the context of the same step of the same start where the old dynamics stayed, "
        "and where the new ones were there all along (median, quartiles). Then the mean of each dimension, with and "
        "without the change."
    )
    return Figure("context_at_change", caption, tuple(panels), tuple(rows), width=240, height=170)
