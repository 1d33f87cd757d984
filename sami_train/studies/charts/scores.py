"""Charts of scores by task, by set, during training and with sim-to-real profiles; and of skills by task (paper)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_runtime.model.atlas import label
from sami_train.envs.measure import SUCCESS, Measure
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Feature, Task
from sami_train.evaluation.intervals import interval_of
from sami_train.evaluation.results import Evaluation
from sami_train.evaluation.robustness import RobustnessPoint
from sami_train.runs.record import RunRecord
from sami_train.studies.charts.chart import BAND, FAINT, HEAT, INK, Chart, Panel, Row, colours_of, rows_where

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sami_train.studies.report.episodes import ReportEpisode

HARDLY = 0.1
"""A cell whose success excluding trivial starts is below this is marked: hardly better than doing nothing."""
MOST_WITH_NUMBERS = 7
"""Most columns of a map whose cells have room for numbers."""
MOST_POINTS = 300
"""A learning curve has every n-th line of a longer log, at least this many."""
FRAMES = {"training": "-", "moderate": ":"}
"""Style of the frame of a cell, by task set."""
Cell = tuple[str, Task, dict[str, Any]]
"""Task set, task and results: `value`, `episodes`, and `above_floor` (success excluding trivial starts, or NaN)."""


def two_features(spec: EnvironmentSpec) -> list[Feature]:
    """Return the two features that are the axes of a map; empty if there are not exactly two, or tasks are drawn."""
    features = [feature for feature in spec.tasks.features if isinstance(feature, Feature)]
    return features if len(features) == 2 and not spec.tasks.drawn else []


def heat_maps(
    name: str,
    caption: str,
    spec: EnvironmentSpec,
    cells: Mapping[str, Sequence[Cell]],
    quantity: str,
    bounds: tuple[float, float] | None,
) -> Chart:
    """Return heat maps over two features (paper, appendix), or bars by task if `two_features` returns none.

    Args:
        name: name of the chart.
        caption: caption of the chart; bars have only its first sentence.
        spec: the environment.
        cells: cells by the title of their panel.
        quantity: name of the value.
        bounds: values at the ends of the colour scale; if None, the smallest and the largest value, and no decimals.
    """
    values = [cell[2]["value"] for measured in cells.values() for cell in measured]
    low, high = bounds or (min(values), max(values))
    limits = (low, high) if low < high else (low - 1.0, high + 1.0)
    features = two_features(spec)
    if not features:
        return _bars(name, caption, cells, quantity, limits)
    rows: list[Row] = []
    for panel, measured in cells.items():
        rows += _map_rows(panel, measured, features[0].name, features[1].name)
    number = ".2f" if bounds else ",.0f"
    draw = partial(_draw_map, features=features, quantity=quantity, limits=limits, number=number)
    panels = tuple(Panel(panel, partial(draw, rows=rows_where(rows, panel=panel))) for panel in cells)
    return Chart(name, caption, panels, tuple(rows), width=290, height=260)


def _map_rows(panel: str, cells: Sequence[Cell], across: str, down: str) -> list[Row]:
    """Return a row for each pair of values: the mean over its tasks, weighted by their episodes."""
    groups: dict[tuple[float, float], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell[1][across], cell[1][down]), []).append(cell)
    rows: list[Row] = []
    for (x, y), same in groups.items():
        episodes = sum(facts["episodes"] for _, _, facts in same)
        value, above = (
            sum(facts[column] * facts["episodes"] for _, _, facts in same) / episodes
            for column in ("value", "above_floor")
        )
        mark = "as doing nothing" if above < HARDLY else ""
        row = {"panel": panel, across: x, down: y, "value": round(value, 4), "set": same[0][0]}
        rows.append({**row, "tasks": len(same), "episodes": episodes, "mark": mark})
    return rows


def _draw_map(
    axes: Axes,
    rows: Sequence[Row],
    features: Sequence[Feature],
    quantity: str,
    limits: tuple[float, float],
    number: str,
) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.patches import Rectangle

    across, down = features
    xs, ys = (sorted({row[feature.name] for row in rows}) for feature in features)
    colours = ScalarMappable(Normalize(*limits), HEAT)
    with_numbers = len(xs) <= MOST_WITH_NUMBERS
    for row in rows:
        x, y = xs.index(row[across.name]), ys.index(row[down.name])
        corner = (x - 0.5, y - 0.5)
        ink = "#111111" if row["value"] > sum(limits) / 2 else "#ffffff"  # legible on the cell's colour
        axes.add_patch(Rectangle(corner, 1, 1, color=colours.to_rgba(row["value"]), lw=0.5))
        if row["mark"] == "as doing nothing":
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", ec="#ffffff", alpha=0.4, lw=0))
        if row["set"] in FRAMES:
            line: dict[str, Any] = {"ls": FRAMES[row["set"]], "lw": 1.6 if with_numbers else 0.9}
            axes.add_patch(Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, fill=False, ec=ink, **line))
        if with_numbers:
            axes.text(x, y, format(row["value"], number), ha="center", va="center", color=ink, fontsize=9)
    axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs], fontsize=None if with_numbers else 6)
    axes.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
    axes.set(xlabel=_axis(across), ylabel=_axis(down), xlim=(-0.5, len(xs) - 0.5), ylim=(-0.5, len(ys) - 0.5))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    if not with_numbers:
        axes.figure.colorbar(colours, ax=axes, label=quantity, shrink=0.9, pad=0.02).outline.set_visible(False)
    for task_set, style in FRAMES.items():
        axes.plot([], [], color=INK, ls=style, lw=1.6, label=f"{task_set} task")
    if any(row["mark"] == "as doing nothing" for row in rows):
        axes.add_patch(
            Rectangle((0, 0), 0, 0, hatch="////", fc="#777777", ec="#ffffff", lw=0, label="as doing nothing")
        )


def _axis(feature: Feature) -> str:
    unit = feature.unit if not feature.unit or feature.unit.startswith("(") else f"[{feature.unit}]"
    return f"{feature.name} {unit}".strip()


def _bars(
    name: str, caption: str, cells: Mapping[str, Sequence[Cell]], quantity: str, limits: tuple[float, float]
) -> Chart:
    rows = [
        {"panel": panel, "task": label(task), "set": task_set, "value": facts["value"], "episodes": facts["episodes"]}
        for panel, measured in cells.items()
        for task_set, task, facts in measured
    ]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    colours = colours_of(list(dict.fromkeys(row["set"] for row in rows)))

    def draw(panel: str, axes: Axes) -> None:
        for task_set, colour in colours.items():
            bars = rows_where(rows, panel=panel, set=task_set)
            places = [tasks.index(row["task"]) for row in bars]
            axes.barh(places, [row["value"] for row in bars], color=colour, label=task_set)
        axes.set_yticks(range(len(tasks)), tasks, fontsize=8)
        axes.set(xlabel=quantity, xlim=(min(0.0, limits[0]), limits[1]), ylim=(len(tasks) - 0.5, -0.5))
        axes.grid(axis="y", visible=False)

    panels = tuple(Panel(panel, partial(draw, panel)) for panel in cells)
    height = max(120, min(22 * len(tasks), 700))
    return Chart(name, caption.partition(".")[0] + ".", panels, tuple(rows), height=height)


def by_task(spec: EnvironmentSpec, evaluations: Mapping[str, Evaluation]) -> Chart:
    """Return success or return in each task, a panel for each evaluation; a single one of success has two panels."""
    measure = spec.measure
    cells: dict[str, list[Cell]] = {name: [] for name in evaluations}
    above: list[Cell] = []
    for name, evaluation in evaluations.items():
        for result in evaluation.results:
            value = result.success if measure is SUCCESS else result.ret or 0.0
            beyond = result.nontrivial_success if evaluation.measure is SUCCESS else math.nan
            facts = {"value": value, "episodes": result.episodes, "above_floor": beyond}
            cells[name].append((result.task_set, result.task, facts))
            above.append((result.task_set, result.task, {**facts, "value": beyond}))
    if measure is SUCCESS and len(evaluations) == 1:
        cells = {measure.name: next(iter(cells.values())), "excluding trivial starts": above}
    marks = ""
    if measure is SUCCESS:
        marks = f" Hatching marks success hardly above that of doing nothing. {spec.tasks.remark}".rstrip()
    caption = (
        f"{measure.name.capitalize()} by task. A solid frame is a training task, a dotted one a moderate one, none an "
        f"extreme one.{marks}"
    )
    return heat_maps("outcomes", caption, spec, cells, measure.name, measure.bounds)


def intervals(evaluations: Mapping[str, Evaluation]) -> Chart:
    """Return success or return, a panel for each set: a point and a 95 % interval for each evaluation."""
    rows: list[Row] = []
    for name, evaluation in evaluations.items():
        for task_set in evaluation.sets:
            value = evaluation.score(task_set)
            low, high = interval_of(evaluation, task_set) or (value, value)
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


def skills(spec: EnvironmentSpec, all_episodes: Sequence[ReportEpisode]) -> Chart:
    """Return the probability of each skill by task, a panel per skill: the rarest last, and then only `other`."""
    by_task: dict[tuple[str, str], list[ReportEpisode]] = {}
    for episode in all_episodes:
        by_task.setdefault((episode.task_set, label(episode.task)), []).append(episode)
    cells: dict[str, list[Cell]] = {}
    for skill in sorted(reversed(spec.skills), key=lambda skill: skill.name == "other"):
        shares = cells.setdefault(title_of(skill.name), [])
        for (task_set, _), episodes in by_task.items():
            share = sum(episode.skill == skill.name for episode in episodes) / len(episodes)
            facts = {"value": share, "episodes": len(episodes), "above_floor": math.nan}
            shares.append((task_set, episodes[0].task, facts))
    caption = (
        "Probability of each skill by task. An episode is named after the rarest skill that it needed: any lifting "
        "makes it pick & place; frames as above."
    )
    return heat_maps("skills", caption, spec, cells, "probability", (0.0, 1.0))


def title_of(skill: str) -> str:
    """Return a skill's name in the form for readers."""
    return skill.replace("_and_", " & ").replace("_", " ")


def learning(records: Sequence[RunRecord], measure: Measure) -> Chart:
    """Return curves of training success or return, and of the contrast's bound with log K, its upper limit."""
    rows: list[Row] = []
    for record in records:
        for row in record.metrics[:: max(1, len(record.metrics) // MOST_POINTS)]:
            place = {"run": record.name, "step": row["step"]}
            if (value := row.get(measure.exploring)) is not None and value == value:
                rows.append({"panel": "learning", **place, "value": round(value, 4)})
            bound = row.get("contrast/bound", row.get("train/contrast_bound"))
            if bound is not None and bound == bound:
                k = row.get("contrast/k")
                log_k = row.get("train/contrast_log_k") if k is None else float(np.log(k))
                highest = {} if log_k is None else {"log_k": round(log_k, 4)}
                rows.append({"panel": "contrast", **place, "value": round(bound, 4), **highest})
    colours = colours_of([record.name for record in records])

    def draw(panel: str, ylabel: str, ylim: tuple[float, float | None] | None, axes: Axes) -> None:
        from matplotlib.ticker import EngFormatter

        for run, colour in colours.items():
            curve = rows_where(rows, panel=panel, run=run)
            steps = [row["step"] for row in curve]
            if curve:
                axes.plot(steps, [row["value"] for row in curve], color=colour, lw=1.8, label=run)
            if curve and "log_k" in curve[0]:
                axes.plot(steps, [row.get("log_k", np.nan) for row in curve], color=colour, lw=1.2, ls="--")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set(xlabel="environment steps", ylabel=ylabel, ylim=ylim)

    panel_names, name = {row["panel"] for row in rows}, measure.name.capitalize()
    panels = []
    if "learning" in panel_names:
        panels.append(Panel(f"{name} while exploring", partial(draw, "learning", measure.name, measure.bounds)))
    if "contrast" in panel_names:
        panels.append(Panel("Contrastive bound, realised", partial(draw, "contrast", "nats", (0, None))))
    caption = (
        f"{name} while exploring, by environment steps; and the bound that the contrastive loss realised [nats], with "
        "the log K that no bound passes (dashed). A constant encoder has 0."
    )
    return Chart("learning", caption, tuple(panels), tuple(rows), width=420, columns=2)


def robustness(points: Sequence[RobustnessPoint]) -> Chart:
    """Return success or return against the size of each kind of sim-to-real gap, a panel each, with 95 % intervals.

    The points are the result of `evaluation.robustness.sweep`: first the evaluation without a profile.
    """
    clean, *gapped = points
    measure = clean.evaluation.measure
    kinds = list(dict.fromkeys(point.kind for point in gapped))
    rows: list[Row] = []
    for kind in kinds:
        of_kind = [point for point in gapped if point.kind == kind]
        for point in (clean, *of_kind):
            for task_set in clean.evaluation.sets:
                value, interval = point.score(task_set)
                low, high = interval or (value, value)
                place = {"kind": kind, "severity": round(point.severity, 5), "unit": of_kind[0].unit, "set": task_set}
                rows.append({**place, "value": round(value, 4), "low": round(low, 4), "high": round(high, 4)})
    colours = colours_of(clean.evaluation.sets)

    def draw(kind: str, axes: Axes) -> None:
        for task_set, colour in colours.items():
            line = rows_where(rows, kind=kind, set=task_set)
            severities = [row["severity"] for row in line]
            axes.axhline(line[0]["value"], color=FAINT, lw=1, ls=":")
            low, high = [row["low"] for row in line], [row["high"] for row in line]
            axes.fill_between(severities, low, high, color=colour, alpha=0.16, lw=0)
            axes.plot(severities, [row["value"] for row in line], "o-", color=colour, lw=1.8, ms=4, label=task_set)
        axes.set(xlabel=f"[{line[0]['unit']}]", ylabel=measure.name)
        if measure.bounds:
            axes.set_ylim(measure.bounds[0] - 0.03, measure.bounds[1] + 0.03)

    caption = (
        f"{measure.name.capitalize()} with one effect of a profile at a time, by its size; bands are 95 % intervals "
        "over starts and what the profiles drew. Dotted: without a profile."
    )
    panels = tuple(Panel(kind, partial(draw, kind)) for kind in kinds)
    return Chart("robustness", caption, panels, tuple(rows), width=220, height=170, columns=5)
