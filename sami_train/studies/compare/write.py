"""A comparison as a folder: report.md, results.csv (one row for each run and task), and plots."""

from __future__ import annotations

import csv
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from sami_train.files import unfinished
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.evaluated import ComparisonError
from sami_train.studies.compare.plots import PLOTS, Plot, draw
from sami_train.studies.compare.tables import Table, number, tables


def check_out(out: Path, replace: bool) -> None:
    """Refuse a folder that cannot take a report.

    Raises:
        ComparisonError: it holds something already and `replace` is False, or is no folder.
        ModuleNotFoundError: matplotlib is not installed.
    """
    import matplotlib.figure  # noqa: F401 - a missing one is told before anything is computed

    if out.exists() and not out.is_dir():
        raise ComparisonError(f"{out} is a file; give --out a folder.")
    if out.is_dir() and any(out.iterdir()) and not replace:
        raise ComparisonError(f"{out} is not empty; choose another --out, or replace an earlier report with --force.")


def write_report(comparison: MethodComparison, out: Path, command: Sequence[str]) -> list[Path]:
    """Write the folder; an earlier report in it is replaced, other files stay.

    Args:
        comparison: what to report.
        out: the folder; see `check_out`.
        command: the words that made it, for the record.

    Returns:
        The files written.
    """
    with TemporaryDirectory() as name:
        made = Path(name)
        plots = draw(comparison, made)
        _write_results(comparison, made / "results.csv")
        (made / "report.md").write_text(_markdown(comparison, plots, command), encoding="utf-8")
        out.mkdir(parents=True, exist_ok=True)
        for plot in PLOTS:
            (out / plot.name).unlink(missing_ok=True)
        order = ["report.md", "results.csv", *(plot.name for plot in plots)]
        for file in order:
            with unfinished(out / file) as beside:
                shutil.copy(made / file, beside)
        return [out / file for file in order]


def _write_results(comparison: MethodComparison, path: Path) -> None:
    left_out = ("task_set", "task", "returns", "successes")
    keys = sorted({key for group in comparison.groups for key in group.settings})
    rows = [
        {
            "run": run.address,
            "group": group.label,
            "method": group.method.name,
            "seed": run.seed,
            **{key: run.config[key] for key in keys},
            "environment_steps": run.steps,
            "gradient_steps": run.updates,
            "training_seconds": run.facts.get("seconds"),
            "commit": run.commit,
            "task_set": result.task_set,
            **result.task,
            **{name: value for name, value in result.row(comparison.measure).items() if name not in left_out},
        }
        for group in comparison.groups
        for run in group.runs
        for result in run.evaluation.results
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _markdown(comparison: MethodComparison, plots: Sequence[Plot], command: Sequence[str]) -> str:
    lines = [f"# Comparison on `{comparison.env}`", "", "```", shlex.join(command), "```", ""]
    lines += [f"* {caution}" for caution in comparison.cautions()] + [""]
    for table in tables(comparison):
        lines += _table(table)
    for plot in plots:
        caption = plot.caption_of(comparison.measure)
        lines += [f"![{caption}]({plot.name})", "", caption, ""]
    return "\n".join(lines + _table(_runs(comparison)))


def _table(table: Table) -> list[str]:
    lines = [f"## {table.title}", "", f"| {' | '.join(table.columns)} |", "|---" * len(table.columns) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in table.rows]
    return [*lines, "", *(f"* {note}" for note in table.notes), *([""] if table.notes else [])]


def _runs(comparison: MethodComparison) -> Table:
    rows: list[tuple[str, ...]] = []
    total = 0.0
    for group in comparison.groups:
        for run in group.runs:
            seconds = run.facts.get("seconds")
            total += seconds or 0.0
            rows.append(
                (
                    group.label,
                    str(run.seed),
                    f"{run.steps:,}",
                    "-" if run.updates is None else f"{run.updates:,}",
                    number(None if seconds is None else seconds / 60, 1),
                    str(run.facts.get("machine", {}).get("cpus", "-")),
                    run.commit,
                    *(comparison.measure.show(float(run.scores(name).mean())) for name in comparison.task_sets),
                    run.address,
                )
            )
    columns = (
        "group",
        "seed",
        "environment steps",
        "updates",
        "minutes",
        "cores",
        "commit",
        *comparison.task_sets,
        "run",
    )
    return Table("Runs", columns, rows, [f"Training took {total / 3600:.1f} hours in all, one run after another."])
