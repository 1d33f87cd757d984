"""Tables that commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from sami_train.evaluation.results import Evaluation


def evaluation_table(result: Evaluation, task_set: str) -> Table:
    """Return what was measured in each task of one set, with the mean."""
    from sami_train.envs.catalog import environment
    from sami_train.envs.measure import SUCCESS
    from sami_train.envs.tasks import shown

    rows, measure = result.of(task_set), result.measure
    features = list(rows[0].task)
    columns: tuple[str, ...]
    cells: list[tuple[str, ...]]
    if measure is SUCCESS:
        title, columns = f"{rows[0].episodes} episodes per task", ("success", "above floor", *rows[0].shares, "steps")
        cells = [
            (
                f"{row.success:.2f}",
                measure.show(row.above_floor, coarse=True),
                *(f"{share:.2f}" for share in row.shares.values()),
            )
            for row in rows
        ]
        means = [measure.show(result.success(task_set)), measure.show(result.above_floor(task_set))]
    else:
        total = sum(row.episodes for row in rows)
        title, columns = f"{total} episodes, tasks in turn", ("episodes", "return", "steps")
        cells = [(str(row.episodes), measure.show(row.ret)) for row in rows]
        error = measure.show(result.ret_error(task_set))
        means = [str(total), f"{measure.show(result.ret(task_set))} ± {error}"]
    if task_set in environment(result.env).tasks.drawn:
        title += f"; these {len(environment(result.env).tasks.sets[task_set])} tasks stand for all that may be drawn"
    table = Table(title=f"{task_set} ({title})", title_justify="left")
    for name in (*(features or ["task"]), *columns):
        table.add_column(name, justify="right")
    for row, numbers in zip(rows, cells, strict=True):
        task = [shown(row.task[name]) for name in features] or ["the one"]
        table.add_row(*task, *numbers, f"{row.steps:.1f}")
    table.add_section()
    table.add_row("mean", *[""] * (len(features) - 1), *means, style="bold")
    if measure is not SUCCESS:
        table.caption = "±: standard error over the episodes of this policy; other seeds differ by more."
    return table
