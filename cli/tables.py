"""Tables that commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from sami_train.evaluate import Evaluation


def evaluation_table(result: Evaluation, task_set: str) -> Table:
    """What was measured in each task of one set, with the mean."""
    from sami_train.envs.catalog import environment
    from sami_train.tasks import shown

    rows, goal = result.of(task_set), environment(result.env).goal is not None
    features = list(rows[0].task)
    table = Table(title=f"{task_set} ({rows[0].episodes} episodes per task)", title_justify="left")
    told = ("success", "above floor", "lifted", "steps") if goal else ("return", "steps")
    for name in (*features, *told):
        table.add_column(name, justify="right")
    for row in rows:
        numbers = [f"{row.success:.2f}", f"{row.above_floor:.2f}", f"{row.lifted:.2f}"] if goal else [f"{row.ret:.1f}"]
        table.add_row(*(shown(row.task[name]) for name in features), *numbers, f"{row.steps:.1f}")
    table.add_section()
    mean = (
        [f"{result.success(task_set):.3f}", f"{result.above_floor(task_set):.3f}"]
        if goal
        else [f"{result.ret(task_set):.1f}"]
    )
    table.add_row("mean", *[""] * (len(features) - 1), *mean, style="bold")
    return table
