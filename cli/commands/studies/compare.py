"""`sami compare` and `sami gather`: compare the results of many runs, and gather them in a text file."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...options import FORCE, JSON, OwnEnvironment
from ...output import COLUMNS, print_table, print_text, text_console

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from sami_train.studies.compare.tables import Table

RUNS = "Run folders, runs.jsonl files, or folders that hold some; PATH:PATTERN takes runs by name, e.g. 'sweeps/k:*-0'."


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help=RUNS)],
    out: Annotated[Path | None, typer.Option(help="Folder for report.md, results.csv and plots.")] = None,
    by: Annotated[
        str | None, typer.Option(metavar="KEY", help="Config key to draw curves against, e.g. contrast.trajectories.")
    ] = None,
    env: OwnEnvironment = None,
) -> None:
    """Compare evaluated runs: success or return by method and setting, with intervals over seeds."""
    from sami_train.studies.compare.comparison import MethodComparison
    from sami_train.studies.compare.groups import read_runs
    from sami_train.studies.compare.tables import as_data, check_out, tables, write_report

    if out is not None:
        check_out(out, replace=FORCE.get())
    with nullcontext() if JSON.get() else text_console(error=True).status("comparing"):
        comparison = MethodComparison(read_runs(runs), by)
        listing = tables(comparison)
        paths = [] if out is None else write_report(comparison, out, ["sami", *sys.argv[1:]])
    if JSON.get():
        print(json.dumps(as_data(comparison), indent=2, allow_nan=False))
        return
    console = text_console()
    for caution in comparison.cautions():
        console.print(f"[bold]![/bold] {caution}", style="yellow", highlight=False)
    for table in listing:
        # From 80 columns on, rich's own widths fit; below, they would break numbers.
        (console.print if console.width >= COLUMNS else print_table)(_rich(table))
        for note in table.notes:
            console.print(note, style="dim", highlight=False, markup=False)
    for path in paths:
        print_text(f"wrote {path}")


def gather(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help=RUNS)],
    out: Annotated[Path, typer.Option(help="File to write, STUDY/runs.jsonl.")],
    env: OwnEnvironment = None,
) -> None:
    """Gather the results of runs in one text file, a line each, which `sami compare` reads."""
    from sami_runtime.files import require_output
    from sami_train.studies.sweep.study import find_runs, write_study

    require_output(out, FORCE.get(), runs, makes_folder=True)
    records = find_runs(runs)
    write_study(out, records)
    missing = sum(record.evaluation is None for record in records)
    count = f"{len(records)} run{'' if len(records) == 1 else 's'}"
    print_text(f"wrote {out}: {count}" + (f", {missing} without an evaluation" if missing else ""))


def _rich(table: Table) -> RichTable:
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(title=table.title, title_justify="left")
    for number, name in enumerate(table.columns):
        # The names of groups differ at their ends, so do not cut names off.
        grid.add_column(Text(name), justify="right" if number else "left", overflow="fold")
    for row in table.rows:
        grid.add_row(*map(Text, row))
    return grid
