"""What counts by task, and skills by task, as heat maps over two environmental features (the paper's figures)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sami_train.envs.measure import SUCCESS
from sami_train.envs.skills import Skill
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Feature, Task, label
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.studies.compare.figures.heat_maps import FLOOR
from sami_train.studies.report.charts.figure import Figure, Panel, Row, Spec, field, tooltip
from sami_train.studies.report.played import Played

MOST_WITH_NUMBERS = 7
"""Most columns that leave room for numbers in the cells."""
Cell = tuple[str, Task, dict[str, Any]]
"""Set and task, and what is told of it: `value`, `episodes` and more columns."""


def by_task(spec: EnvironmentSpec, evaluations: Mapping[str, Evaluation]) -> Figure:
    """Return what counts in each task, a panel for each evaluation by name."""
    measure = spec.measure
    cells: dict[str, list[Cell]] = {}
    for name, evaluation in evaluations.items():
        cells[name] = _measured(evaluation, lambda result: result.success if measure is SUCCESS else result.ret or 0.0)
    if measure is SUCCESS and len(evaluations) == 1:
        ((name, evaluation),) = evaluations.items()
        cells = {measure.name: cells[name], "above the floor": _measured(evaluation, lambda result: result.above_floor)}
    low, high = measure.bounds or _limits([cell[2]["value"] for own in cells.values() for cell in own])
    number = ".2f" if measure is SUCCESS else ",.0f"
    marks = (
        " A circle marks what is hardly above the floor (what doing nothing scores), a cross what no policy can do. "
        f"{spec.tasks.why_impossible}"
        if spec.tasks.impossible
        else " A circle marks what is hardly above the floor, which doing nothing scores."
        if measure is SUCCESS
        else ""
    )
    caption = (
        f"{measure.name.capitalize()} by task. A solid frame is a training task, a dashed one a moderate one, none an "
        f"extreme one.{marks}"
    )
    return maps("outcomes", caption, spec, cells, measure.name, (low, high), number)


def _measured(evaluation: Evaluation, value: Callable[[TaskResult], float]) -> list[Cell]:
    above = evaluation.measure is SUCCESS
    return [
        (
            result.task_set,
            result.task,
            {
                "value": value(result),
                "episodes": result.episodes,
                "above_floor": result.above_floor if above else math.nan,
            },
        )
        for result in evaluation.results
    ]


def intervals(evaluations: Mapping[str, Evaluation]) -> Figure:
    """Return what counts by set, a panel each: a point and a 95 % interval for each evaluation by name."""
    rows: list[Row] = []
    for name, evaluation in evaluations.items():
        for task_set in evaluation.sets:
            value = evaluation.score(task_set)
            low, high = evaluation.interval(task_set) or (value, value)
            rows.append({"set": task_set, "name": name, "value": value, "low": low, "high": high})
    measure = next(iter(evaluations.values())).measure
    number = ".3f" if measure is SUCCESS else ",.0f"
    scale = {"domain": list(measure.bounds)} if measure.bounds else {"zero": False}
    view = {
        "encoding": {
            "y": field("name", "nominal", "", sort=None, axis={"labelLimit": 140}),
            "x": field("value", "quantitative", measure.name, scale=scale, axis={"tickCount": 5}),
            "color": field("name", "nominal", "", sort=None, legend=None),
            "tooltip": tooltip("name", ("value", number), ("low", number), ("high", number)),
        },
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.35},
                "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
            },
            {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1}},
        ],
    }
    panels = tuple(Panel(task_set, view, {"set": task_set}) for task_set in dict.fromkeys(row["set"] for row in rows))
    caption = f"{measure.name.capitalize()} by set, with 95 % intervals over the starts of each policy."
    return Figure("scores", caption, panels, tuple(rows), width=260, height=max(60, 26 * len(evaluations)))


def skills(spec: EnvironmentSpec, played: Sequence[Played], name: str = "skills") -> Figure:
    """Probability of each skill by task, a panel for each skill."""
    cells: dict[str, list[Cell]] = {}
    for skill in _by_name(spec.skills):
        own = []
        for task_set, task, episodes in grouped(played):
            share = sum(episode.skill == skill.name for episode in episodes) / len(episodes)
            own.append((task_set, task, {"value": share, "episodes": len(episodes), "above_floor": math.nan}))
        cells[title_of(skill.name)] = own
    caption = (
        "Probability of each skill by task. An episode is named after the rarest skill that it needed: any lifting "
        "makes it pick & place; frames as above."
    )
    return maps(name, caption, spec, cells, "probability", (0.0, 1.0), ".2f")


def title_of(skill: str) -> str:
    """Return a skill's name as a reader has it."""
    return skill.replace("_and_", " & ").replace("_", " ")


def grouped(played: Sequence[Played]) -> list[tuple[str, Task, list[Played]]]:
    """Return set, task and episodes of each task, in order."""
    groups: dict[tuple[str, str], list[Played]] = {}
    for episode in played:
        groups.setdefault((episode.task_set, label(episode.task)), []).append(episode)
    return [(name, own[0].task, own) for (name, _), own in groups.items()]


def maps(
    name: str,
    caption: str,
    spec: EnvironmentSpec,
    cells: Mapping[str, Sequence[Cell]],
    what: str,
    limits: tuple[float, float],
    number: str,
) -> Figure:
    """Return heat maps, or, where an environment has not two features that are numbers, a bar for each task."""
    features = [each for each in spec.tasks.features if isinstance(each, Feature)]
    if len(features) != 2 or spec.tasks.drawn:
        return _bars(name, caption, cells, what, limits, number)
    across, down = features
    rows: list[Row] = []
    for panel, own in cells.items():
        rows += _cells(panel, own, across.name, down.name, spec)
    columns = len({row[across.name] for row in rows})
    view = _heat_map(across, down, what, limits, number, columns <= MOST_WITH_NUMBERS)
    panels = tuple(Panel(panel, view, {"panel": panel}) for panel in cells)
    return Figure(name, caption, panels, tuple(rows), width=290, height=260)


def _cells(panel: str, cells: Sequence[Cell], across: str, down: str, spec: EnvironmentSpec) -> list[Row]:
    """Return a row for each pair of values; tasks that agree in both are averaged, by their episodes."""
    alike: dict[tuple[float, float], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((cell[1][across], cell[1][down]), []).append(cell)
    rows: list[Row] = []
    for (x, y), same in alike.items():
        episodes = [cell[2]["episodes"] for cell in same]

        def mean(column: str, same: Sequence[Cell] = same, episodes: Sequence[int] = episodes) -> float:
            return sum(cell[2][column] * n for cell, n in zip(same, episodes, strict=True)) / sum(episodes)

        impossible = all(dict(cell[1]) in [dict(task) for task in spec.tasks.impossible] for cell in same)
        above = mean("above_floor")
        rows.append(
            {
                "panel": panel,
                across: x,
                down: y,
                "value": round(mean("value"), 4),
                "set": same[0][0],
                "tasks": len(same),
                "episodes": sum(episodes),
                "mark": "impossible" if impossible else "floor" if above < FLOOR else "",
            }
        )
    return rows


def _heat_map(
    across: Feature, down: Feature, what: str, limits: tuple[float, float], number: str, with_numbers: bool
) -> Spec:
    low, high = limits
    # What can be read on that colour: the scheme is dark below.
    ink = {"condition": {"test": f"datum.value > {low + 0.5 * (high - low)}", "value": "#111"}, "value": "#fff"}
    axis = {"labelAngle": 0, "domain": False, "ticks": False, "grid": False, "format": "~g"}
    colour = {
        **field("value", "quantitative", what),
        "scale": {"domain": [low, high]},
        "legend": None if with_numbers else {"gradientLength": 160, "format": "~s"},
    }
    frame: Callable[[str, dict[str, Any]], Spec] = lambda task_set, dash: {  # noqa: E731
        "transform": [{"filter": f"datum.set === '{task_set}'"}],
        "mark": {"type": "rect", "fill": None, "strokeWidth": 2 if with_numbers else 1.2, **dash},
        "encoding": {"stroke": ink},
    }
    told = tooltip(across.name, down.name, "set", ("value", number), "episodes", "mark")
    layers: list[Spec] = [
        {"mark": {"type": "rect", "cornerRadius": 2}, "encoding": {"color": colour, "tooltip": told}},
        frame("training", {}),
        frame("moderate", {"strokeDash": [3, 3]}),
    ]
    if with_numbers:
        layers.append(
            {
                "mark": {"type": "text", "fontSize": 12, "baseline": "middle"},
                "encoding": {
                    "text": {"field": "value", "type": "quantitative", "format": number},
                    "color": ink,
                    "tooltip": told,
                },
            }
        )
    layers.append(
        {
            "transform": [{"filter": "datum.mark !== ''"}],
            "mark": {
                "type": "text",
                "fontSize": 14 if with_numbers else 9,
                "dy": 15 if with_numbers else 0,
                "baseline": "middle",
            },
            "encoding": {"text": {"condition": {"test": "datum.mark === 'floor'", "value": "○"}, "value": "✕"}}
            | {"color": ink},
        }
    )
    return {
        "encoding": {
            "x": field(across.name, "ordinal", _axis(across), axis=axis, scale={"paddingInner": 0.05}),
            "y": field(down.name, "ordinal", _axis(down), sort="descending", axis=axis, scale={"paddingInner": 0.05}),
        },
        "layer": layers,
    }


def _bars(
    name: str,
    caption: str,
    cells: Mapping[str, Sequence[Cell]],
    what: str,
    limits: tuple[float, float],
    number: str,
) -> Figure:
    rows = [
        {"panel": panel, "task": label(task), "set": task_set, "value": told["value"], "episodes": told["episodes"]}
        for panel, own in cells.items()
        for task_set, task, told in own
    ]
    view = {
        "mark": {"type": "bar"},
        "encoding": {
            "y": field("task", "nominal", "", sort=None, axis={"labelLimit": 150}),
            "x": field("value", "quantitative", what, scale={"domain": [min(0.0, limits[0]), limits[1]]}),
            "color": field("set", "nominal", "", sort=None),
            "tooltip": tooltip("task", "set", ("value", number), "episodes"),
        },
    }
    tasks = len({row["task"] for row in rows})
    panels = tuple(Panel(panel, view, {"panel": panel}) for panel in cells)
    return Figure(name, caption.partition(".")[0] + ".", panels, tuple(rows), height=max(120, min(22 * tasks, 700)))


def _limits(values: Sequence[float]) -> tuple[float, float]:
    return (min(values), max(values)) if min(values) < max(values) else (min(values) - 1.0, max(values) + 1.0)


def _axis(feature: Feature) -> str:
    unit = feature.unit if not feature.unit or feature.unit.startswith("(") else f"[{feature.unit}]"
    return f"{feature.name} {unit}".strip()


def _by_name(chosen: Sequence[Skill]) -> list[Skill]:
    """Return the skills in the paper's order: push, pick and place, other."""
    return sorted(chosen, key=lambda skill: (skill.name == "other", skill.column is not None))
