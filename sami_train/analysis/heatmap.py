"""Success by task as heat maps over two environmental features, one for each group (paper, appendix)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_train.envs.catalog import environment
from sami_train.tasks import Feature

from .comparison import Comparison
from .groups import Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLOOR = 0.1
"""Success above the floor below which a cell is marked: little more than doing nothing scores."""
ACROSS = 5
"""Most maps in a row."""


def heat_maps(comparison: Comparison) -> Figure | None:
    """Mean success over seeds in each task; None where tasks are not set by two features."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    features = [item for item in environment(comparison.env).tasks.features if isinstance(item, Feature)]
    if len(features) != 2:
        return None
    across, down = features
    groups = comparison.groups
    rows = math.ceil(len(groups) / ACROSS)
    columns = math.ceil(len(groups) / rows)
    figure = Figure(figsize=(max(5.0, 0.9 + 2.5 * columns), 1.1 + 3.1 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes, group in zip(grid.flat, groups, strict=False):
        image = _map(axes, group, across.name, down.name)
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    figure.colorbar(image, ax=grid, label="success", shrink=0.8, pad=0.02)
    for at, axes in enumerate(grid.flat[: len(groups)]):
        if at + columns >= len(groups):
            axes.set_xlabel(_axis(across.name, across.unit))
        if at % columns == 0:
            axes.set_ylabel(_axis(down.name, down.unit))
    figure.legend(
        handles=[
            Patch(facecolor="none", edgecolor="black", lw=2, label="training task"),
            Patch(facecolor="none", edgecolor="black", lw=1.2, ls=":", label="moderate"),
            Patch(
                facecolor="#dddddd", edgecolor="black", hatch="////", lw=0, label=f"less than {FLOOR:g} above the floor"
            ),
        ],
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    return figure


def _map(axes: Axes, group: Group, across: str, down: str) -> Any:
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    results = [run.evaluation.results for run in group.runs]
    tasks = results[0]
    xs = sorted({result.task[across] for result in tasks})
    ys = sorted({result.task[down] for result in tasks})
    success = np.full((len(ys), len(xs)), np.nan)
    frames = []
    for at, result in enumerate(tasks):
        x, y = xs.index(result.task[across]), ys.index(result.task[down])
        success[y, x] = np.mean([run[at].success for run in results])
        if np.mean([run[at].above_floor for run in results]) < FLOOR:
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="////", ec="white", alpha=0.45, lw=0))
        frames.append((x, y, result.task_set))
    image = axes.imshow(success, vmin=0, vmax=1, cmap="cividis", origin="lower", aspect="auto")
    for x, y, task_set in frames:
        style = {"training": ("-", 2.2), "moderate": (":", 1.4)}.get(task_set)
        if style:
            frame = Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, fill=False, ls=style[0], lw=style[1])
            frame.set_edgecolor(_ink(success[y, x]))
            axes.add_patch(frame)
        text = axes.text(x, y, f"{success[y, x]:.2f}", ha="center", va="center", color=_ink(success[y, x]), fontsize=9)
        text.set_path_effects([withStroke(linewidth=3, foreground=image.to_rgba(success[y, x]))])
    axes.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])
    axes.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
    axes.grid(visible=False)
    axes.set_title(group.label, fontsize=10)
    return image


def _ink(success: float) -> str:
    """What is read on the colour of a success."""
    return "black" if success > 0.5 else "white"


def _axis(name: str, unit: str) -> str:
    return f"{name} {unit}" if unit.startswith("(") else f"{name} [{unit}]"
