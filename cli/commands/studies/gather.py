"""`sami gather`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...model_file import OwnEnvironment
from .compare import RUNS


def gather(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help=RUNS)],
    out: Annotated[Path, typer.Option(help="File to write, STUDY/runs.jsonl.")],
    env: OwnEnvironment = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Gather the results of runs in one file, a line each, that git can hold and `sami compare` reads."""
    from sami_runtime.files import require_output
    from sami_train.studies.sweep.study import find_runs, write_study

    require_output(out, force, runs)
    records = find_runs(runs)
    write_study(out, records)
    missing = sum(record.evaluation is None for record in records)
    count = f"{len(records)} run{'' if len(records) == 1 else 's'}"
    print(f"wrote {out}: {count}" + (f", {missing} without an evaluation" if missing else ""))
