"""`sami convert`: a recording as a table, or as a LeRobot dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    file: Annotated[Path, typer.Argument(help="Recording, NAME.mcap.")],
    csv: Annotated[
        Path | None, typer.Option(metavar="OUT", help="A row for each tick, a column for each number: NAME.csv.")
    ] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="OUT", help="The same as NAME.parquet.")] = None,
    lerobot: Annotated[
        Path | None, typer.Option(metavar="OUT", help="A folder: a LeRobot dataset, version 3.0, of the steps.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace tables that exist; never a folder.")] = False,
) -> None:
    """Write a recording as a table that spreadsheets and data frames read, or as a LeRobot dataset."""
    from sami_runtime.errors import SamiError
    from sami_runtime.files import require_output
    from sami_runtime.recording.reader import read_recording
    from sami_runtime.recording.tables import write_csv, write_lerobot, write_parquet

    if csv is None and parquet is None and lerobot is None:
        raise SamiError("say what the recording is to become: --csv OUT, --parquet OUT or --lerobot OUT, or several.")
    wanted = [path for path in (csv, parquet, lerobot) if path is not None]
    for number, target in enumerate(wanted):  # before the first is written
        require_output(target, force and target is not lerobot, [file, *wanted[:number]])
    recording = read_recording(file)
    for path, write, unit in ((csv, write_csv, "rows"), (parquet, write_parquet, "rows")):
        if path is not None:
            print(f"wrote {path}: {write(recording, path, force)} {unit}")
    if lerobot is not None:
        print(f"wrote {lerobot}: {write_lerobot(recording, lerobot)} episodes")
