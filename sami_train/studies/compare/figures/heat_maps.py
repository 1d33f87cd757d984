"""What counts by task as heat maps over two environmental features, one for each group (paper, appendix)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_train.envs.catalog import environment
from sami_train.envs.measure import RETURN, SUCCESS
from sami_train.envs.tasks import Feature
from sami_train.evaluation.results import TaskResult
from sami_train.studies.compare.comparison import Comparison
from sami_train.studies.compare.groups import Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLOOR = 0.1
"""Success above the floor below which a cell is marked: little more than doing nothing scores."""
ACROSS = 5
"""Most maps in a row."""
MOST_WITH_NUMBERS = 6
"""Most columns that leave room for numbers in the cells."""


def heat_maps(comparison: Comparison) -> Figure | None:
    """Mean over seeds in each task, or in all tasks that agree in two features.

    None where there are not two, or tasks are drawn, which agree in none.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    space = environment(comparison.env).tasks
    features = [item for item in space.features if isinstance(item, Feature)]
    if len(features) != 2 or space.drawn:
        return None
    across, down = features
    groups = comparison.groups
    rows = math.ceil(len(groups) / ACROSS)
    columns = math.ceil(len(groups) / rows)
    figure = Figure(figsize=(max(5.0, 0.9 + 2.5 * columns), 1.1 + 3.1 * rows), layout="constrained")
    limits = comparison.measure.bounds or _limits(groups)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes, group in zip(grid.flat, groups, strict=False):
        image = _map(axes, group, across.name, down.name, limits)
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    figure.colorbar(image, ax=grid, label=comparison.measure.name, shrink=0.8, pad=0.02)
    for at, axes in enumerate(grid.flat[: len(groups)]):
        if at + columns >= len(groups):
            axes.set_xlabel(_axis(across.name, across.unit))
        if at % columns == 0:
            axes.set_ylabel(_axis(down.name, down.unit))
    hatched = f"less than {FLOOR:g} above the floor"
    figure.legend(
        handles=[
            Patch(facecolor="none", edgecolor="black", lw=2, label="training task"),
            Patch(facecolor="none", edgecolor="black", lw=1.2, ls=":", label="moderate"),
            *(
                [Patch(facecolor="#dddddd", edgecolor="black", hatch="////", lw=0, label=hatched)]
                if comparison.measure is SUCCESS
                else []
            ),
        ],
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    return figure


def _map(axes: Axes, group: Group, across: str, down: str, limits: tuple[float, float]) -> Any:
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    results, measure = [run.evaluation.results for run in group.runs], group.runs[0].evaluation.measure
    xs = sorted({result.task[across] for result in results[0]})
    ys = sorted({result.task[down] for result in results[0]})
    sums, weights = np.zeros((2, len(ys), len(xs)))
    frames = []
    for at, result in enumerate(results[0]):
        x, y = xs.index(result.task[across]), ys.index(result.task[down])
        # Tasks that differ only in crippled parts share a cell, as do those that are in two sets.
        sums[y, x] += result.episodes * np.mean([_score(run[at], measure is RETURN) for run in results])
        weights[y, x] += result.episodes
        if measure is SUCCESS and np.mean([run[at].above_floor for run in results]) < FLOOR:
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="////", ec="white", alpha=0.45, lw=0))
        frames.append((x, y, result.task_set))
    scores = np.divide(sums, weights, out=np.full(sums.shape, np.nan), where=weights > 0)
    image = axes.imshow(scores, vmin=limits[0], vmax=limits[1], cmap="cividis", origin="lower", aspect="auto")
    for x, y, task_set in dict.fromkeys(frames):
        ink = "black" if scores[y, x] > np.mean(limits) else "white"  # what is read on that colour
        style = {"training": ("-", 2.2), "moderate": (":", 1.4)}.get(task_set)
        if style:
            width = style[1] if len(xs) <= MOST_WITH_NUMBERS else style[1] / 2
            frame = Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, fill=False, ls=style[0], lw=width)
            frame.set_edgecolor(ink)
            axes.add_patch(frame)
        if len(xs) <= MOST_WITH_NUMBERS:
            shown = measure.show(scores[y, x], coarse=True)
            text = axes.text(x, y, shown, ha="center", va="center", color=ink, fontsize=9)
            text.set_path_effects([withStroke(linewidth=3, foreground=image.to_rgba(scores[y, x]))])
    axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs], fontsize=None if len(xs) <= MOST_WITH_NUMBERS else 6)
    axes.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
    axes.grid(visible=False)
    axes.set_title(group.label, fontsize=10)
    return image


def _score(result: TaskResult, by_return: bool) -> float:
    return float(result.ret or 0.0) if by_return else result.success


def _limits(groups: Sequence[Group]) -> tuple[float, float]:
    """Return the lowest and highest mean return of a task."""
    by_group = [[[result.ret for result in run.evaluation.results] for run in group.runs] for group in groups]
    means = np.concatenate([np.mean(np.array(returns, float), axis=0) for returns in by_group])
    return float(means.min()), float(means.max())


def _axis(name: str, unit: str) -> str:
    return f"{name} {unit}".rstrip() if not unit or unit.startswith("(") else f"{name} [{unit}]"
