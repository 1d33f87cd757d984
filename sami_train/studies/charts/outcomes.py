"""What counts by task and by set, and skills by task (the paper's figures)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sami_train.envs.measure import SUCCESS, Skill
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task, label
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.studies.charts.chart import Chart, Panel, Row, rows_where
from sami_train.studies.charts.heat_maps import Cell, heat_maps, limits_of
from sami_train.studies.charts.style import BAND, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sami_train.studies.report.played import Played


def by_task(spec: EnvironmentSpec, evaluations: Mapping[str, Evaluation]) -> Chart:
    """Return what counts in each task, a panel for each evaluation by name."""
    measure = spec.measure
    cells: dict[str, list[Cell]] = {}
    for name, evaluation in evaluations.items():
        cells[name] = _measured(evaluation, lambda result: result.success if measure is SUCCESS else result.ret or 0.0)
    if measure is SUCCESS and len(evaluations) == 1:
        ((name, evaluation),) = evaluations.items()
        cells = {measure.name: cells[name], "above the floor": _measured(evaluation, lambda result: result.above_floor)}
    limits = measure.bounds or limits_of([cell[2]["value"] for measured in cells.values() for cell in measured])
    number = ".2f" if measure is SUCCESS else ",.0f"
    marks = (
        f" Hatching marks success hardly above that of doing nothing. {spec.tasks.remark}".rstrip()
        if measure is SUCCESS
        else ""
    )
    caption = (
        f"{measure.name.capitalize()} by task. A solid frame is a training task, a dotted one a moderate one, none an "
        f"extreme one.{marks}"
    )
    return heat_maps("outcomes", caption, spec, cells, measure.name, limits, number)


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


def intervals(evaluations: Mapping[str, Evaluation]) -> Chart:
    """Return what counts by set, a panel each: a point and a 95 % interval for each evaluation by name."""
    rows: list[Row] = []
    for name, evaluation in evaluations.items():
        for task_set in evaluation.sets:
            value = evaluation.score(task_set)
            low, high = evaluation.interval(task_set) or (value, value)
            rows.append({"set": task_set, "name": name, "value": value, "low": low, "high": high})
    measure = next(iter(evaluations.values())).measure
    names = list(evaluations)
    colours = colours_of(names)

    def draw(task_set: str, axes: Axes) -> None:
        for row in rows_where(rows, set=task_set):
            place, colour = names.index(row["name"]), colours[row["name"]]
            axes.plot([row["low"], row["high"]], [place, place], color=colour, lw=5, **BAND)
            axes.plot([row["value"]], [place], "o", color=colour, ms=6)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel=measure.name, xlim=measure.bounds, ylim=(len(names) - 0.5, -0.5))
        axes.grid(axis="y", visible=False)

    panels = tuple(Panel(name, partial(draw, name)) for name in dict.fromkeys(row["set"] for row in rows))
    caption = f"{measure.name.capitalize()} by set, with 95 % intervals over the starts of each policy."
    return Chart("scores", caption, panels, tuple(rows), width=300, height=45 + max(30, 20 * len(names)))


def skills(spec: EnvironmentSpec, played: Sequence[Played], name: str = "skills") -> Chart:
    """Probability of each skill by task, a panel for each skill."""
    cells: dict[str, list[Cell]] = {}
    for skill in _by_name(spec.skills):
        shares = []
        for task_set, task, episodes in grouped(played):
            share = sum(episode.skill == skill.name for episode in episodes) / len(episodes)
            shares.append((task_set, task, {"value": share, "episodes": len(episodes), "above_floor": math.nan}))
        cells[title_of(skill.name)] = shares
    caption = (
        "Probability of each skill by task. An episode is named after the rarest skill that it needed: any lifting "
        "makes it pick & place; frames as above."
    )
    return heat_maps(name, caption, spec, cells, "probability", (0.0, 1.0), ".2f")


def title_of(skill: str) -> str:
    """Return a skill's name as a reader has it."""
    return skill.replace("_and_", " & ").replace("_", " ")


def grouped(played: Sequence[Played]) -> list[tuple[str, Task, list[Played]]]:
    """Return set, task and episodes of each task, in order."""
    groups: dict[tuple[str, str], list[Played]] = {}
    for episode in played:
        groups.setdefault((episode.task_set, label(episode.task)), []).append(episode)
    return [(name, episodes[0].task, episodes) for (name, _), episodes in groups.items()]


def _by_name(chosen: Sequence[Skill]) -> list[Skill]:
    """Return the skills in the paper's order: push, pick and place, other."""
    return sorted(chosen, key=lambda skill: (skill.name == "other", skill.column is not None))
