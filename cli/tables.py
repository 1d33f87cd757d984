"""Tables that commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from sami_train.evaluate import Evaluation


def evaluation_table(result: Evaluation, task_set: str) -> Table:
    """Success by task of one task set, with its mean."""
    rows = result.of(task_set)
    features = list(rows[0].task)
    table = Table(title=f"{task_set} ({rows[0].episodes} episodes per task)", title_justify="left")
    for name in (*features, "success", "above floor", "lifted", "steps"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            *(f"{row.task[name]:g}" for name in features),
            f"{row.success:.2f}",
            f"{row.above_floor:.2f}",
            f"{row.lifted:.2f}",
            f"{row.steps:.1f}",
        )
    table.add_section()
    mean = [f"{result.success(task_set):.3f}", f"{result.above_floor(task_set):.3f}"]
    table.add_row("mean", *[""] * (len(features) - 1), *mean, style="bold")
    return table
