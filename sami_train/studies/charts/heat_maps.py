"""A value by task: heat maps over two environmental features (paper, appendix), or bars where there are not two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Feature, Task, label
from sami_train.studies.charts.chart import Chart, Panel, Row, rows_where
from sami_train.studies.charts.style import HEAT, INK, colours_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FLOOR = 0.1
"""Success above the floor below which a cell is marked: little more than doing nothing scores."""
MOST_WITH_NUMBERS = 7
"""Most columns that leave room for numbers in the cells."""
FRAMES = {"training": "-", "moderate": ":"}
"""Lines about the cells of a set of tasks."""
Cell = tuple[str, Task, dict[str, Any]]
"""Set and task, and what was measured in it: `value`, `episodes`, `above_floor` (NaN where nothing counts that)."""


def two_features(spec: EnvironmentSpec) -> list[Feature]:
    """Return the features that a map has as its axes; empty where an environment has not two, or draws its tasks."""
    features = [feature for feature in spec.tasks.features if isinstance(feature, Feature)]
    return features if len(features) == 2 and not spec.tasks.drawn else []


def limits_of(values: Sequence[float]) -> tuple[float, float]:
    """Return the smallest and the largest value, which differ."""
    return (min(values), max(values)) if min(values) < max(values) else (min(values) - 1.0, max(values) + 1.0)


def heat_maps(
    name: str,
    caption: str,
    spec: EnvironmentSpec,
    cells: Mapping[str, Sequence[Cell]],
    quantity: str,
    limits: tuple[float, float],
    number: str,
) -> Chart:
    """Return heat maps, or a bar for each task where an environment has not two features that are numbers.

    Args:
        name: of the chart.
        caption: of the chart; bars have its first sentence.
        spec: the environment.
        cells: by the title of the panel.
        quantity: name of the value.
        limits: values at the ends of the colours.
        number: format of a value.
    """
    features = two_features(spec)
    if not features:
        return _bars(name, caption, cells, quantity, limits)
    rows: list[Row] = []
    for panel, measured in cells.items():
        rows += _rows(panel, measured, features[0].name, features[1].name)
    draw = partial(_map, features=features, quantity=quantity, limits=limits, number=number)
    panels = tuple(Panel(panel, partial(draw, rows=rows_where(rows, panel=panel))) for panel in cells)
    return Chart(name, caption, panels, tuple(rows), width=290, height=260)


def _rows(panel: str, cells: Sequence[Cell], across: str, down: str) -> list[Row]:
    """Return a row for each pair of values; tasks that agree in both are averaged, by their episodes."""
    alike: dict[tuple[float, float], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((cell[1][across], cell[1][down]), []).append(cell)
    rows: list[Row] = []
    for (x, y), same in alike.items():
        episodes = [cell[2]["episodes"] for cell in same]

        def mean(column: str, same: Sequence[Cell] = same, episodes: Sequence[int] = episodes) -> float:
            return sum(cell[2][column] * n for cell, n in zip(same, episodes, strict=True)) / sum(episodes)

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
                "mark": "floor" if above < FLOOR else "",
            }
        )
    return rows


def _map(
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
        ink = "#111111" if row["value"] > sum(limits) / 2 else "#ffffff"  # what is read on that colour
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=colours.to_rgba(row["value"]), lw=0.5))
        if row["mark"] == "floor":
            hatched = Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="////", ec="#ffffff", alpha=0.4, lw=0)
            axes.add_patch(hatched)
        if row["set"] in FRAMES:
            width = 1.6 if with_numbers else 0.9
            frame = Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, fill=False, ec=ink, ls=FRAMES[row["set"]], lw=width)
            axes.add_patch(frame)
        if with_numbers:
            axes.text(x, y, format(row["value"], number), ha="center", va="center", color=ink, fontsize=9)
    axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs], fontsize=None if with_numbers else 6)
    axes.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
    axes.set(xlabel=_axis(across), ylabel=_axis(down), xlim=(-0.5, len(xs) - 0.5), ylim=(-0.5, len(ys) - 0.5))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    if not with_numbers:
        axes.figure.colorbar(colours, ax=axes, label=quantity, shrink=0.9, pad=0.02).outline.set_visible(False)
    for task_set, line in FRAMES.items():
        axes.plot([], [], color=INK, ls=line, lw=1.6, label=f"{task_set} task")
    if any(row["mark"] == "floor" for row in rows):
        axes.add_patch(
            Rectangle((0, 0), 0, 0, hatch="////", fc="#777777", ec="#ffffff", lw=0, label="as doing nothing")
        )


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
            axes.barh(
                [tasks.index(row["task"]) for row in bars], [row["value"] for row in bars], color=colour, label=task_set
            )
        axes.set_yticks(range(len(tasks)), tasks, fontsize=8)
        axes.set(xlabel=quantity, xlim=(min(0.0, limits[0]), limits[1]), ylim=(len(tasks) - 0.5, -0.5))
        axes.grid(axis="y", visible=False)

    panels = tuple(Panel(panel, partial(draw, panel)) for panel in cells)
    height = max(120, min(22 * len(tasks), 700))
    return Chart(name, caption.partition(".")[0] + ".", panels, tuple(rows), height=height)


def _axis(feature: Feature) -> str:
    unit = feature.unit if not feature.unit or feature.unit.startswith("(") else f"[{feature.unit}]"
    return f"{feature.name} {unit}".strip()
