"""`sami replay`, `sami view` and `sami convert`: replay, show and convert a recording."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..model_file import model_file
from ..options import FORCE, JSON, MODEL_HELP
from ..output import print_text

if TYPE_CHECKING:
    from sami_runtime.session.session import Session

Recording = Annotated[Path, typer.Argument(help="Recording, NAME.mcap.")]


def replay(
    file: Recording,
    model: Annotated[
        Path | None, typer.Option(help=f"{MODEL_HELP}; each recorded model if left out.", callback=model_file)
    ] = None,
) -> None:
    """Step a model over a recording and compare bit by bit. Exit code 4 at the first step that differs.

    It uses the recorded execution provider (cpu, cuda, ...) where this machine has it, because they round differently.
    """
    from sami_runtime.errors import CheckFailed, SamiError
    from sami_runtime.recording.reader import read_recording
    from sami_runtime.recording.replay import conditions
    from sami_runtime.recording.replay import replay as check

    recording = read_recording(file)
    paths = [model] if model else [_recorded_model(name, file) for name in recording.models]
    sessions = [_session_as_recorded(path, recording.about["providers"]) for path in paths]
    comparison = check(recording, *sessions)
    if JSON.get():
        facts = {"path": str(file), "closed": recording.closed, "ticks": len(recording.steps), **comparison.summary()}
        print(json.dumps({"about": {k: v for k, v in recording.about.items() if k != "contract"}, **facts}))
    else:
        print_text(recording)
        for note in conditions(recording, *sessions):
            print_text(f"note: {note}")
        print_text(comparison)
    if not comparison.same:
        raise typer.Exit(CheckFailed.exit_code)
    if not comparison.steps:
        raise SamiError(f"{file} holds no step of the policy, so nothing was checked. Give one in which it acted.")


def _recorded_model(name: str, recording: Path) -> Path:
    """Return the file of a recorded model: at its recorded path, or beside the recording; SamiError if at neither."""
    from sami_runtime.errors import SamiError

    for path in (Path(name), recording.parent / Path(name).name):
        if path.is_file():
            return path
    raise SamiError(f"{recording} was recorded with {name}, which is not there. Give the model with --model.")


def _session_as_recorded(model: Path, providers: Sequence[object]) -> Session:
    """Return a session with the best provider of a recording, or on the CPU if that provider is not available."""
    from sami_runtime.errors import ProviderError, UnknownName
    from sami_runtime.session.session import Session

    try:
        return Session.load(model, provider=str(providers[0]) if providers else "cpu")
    except (ProviderError, UnknownName):  # `conditions` reports the difference
        return Session.load(model)


def view(
    file: Recording,
    other: Annotated[Path | None, typer.Argument(help="Second recording, shown beside the first.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; NAME.html beside the recording if left out.")] = None,
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
) -> None:
    """Write a recording as one HTML file to scrub through, which needs no network."""
    import webbrowser

    from sami_runtime.files import require_output
    from sami_runtime.recording.reader import read_recording
    from sami_runtime.recording.view import write_page

    inputs = [path for path in (file, other) if path is not None]
    path = out or file.with_suffix(".html")
    require_output(path, FORCE.get(), inputs)
    write_page([read_recording(name) for name in inputs], path, FORCE.get())
    print_text(f"wrote {path}")
    if open_it:
        webbrowser.open(path.resolve().as_uri())


def convert(
    file: Recording,
    outs: Annotated[
        list[Path],
        typer.Argument(
            metavar="OUT...",
            help="NAME.csv or NAME.parquet: a row for each tick, a column for each number. A folder, a name without a "
            "suffix: a LeRobot dataset, version 3.0, of the steps; --force never replaces one.",
        ),
    ],
) -> None:
    """Write a recording as a table that spreadsheets and data frames read, or as a LeRobot dataset."""
    from sami_runtime.errors import SamiError
    from sami_runtime.files import require_output
    from sami_runtime.recording.reader import read_recording
    from sami_runtime.recording.tables import write_csv, write_lerobot, write_parquet

    tables = {".csv": write_csv, ".parquet": write_parquet}
    for number, path in enumerate(outs):  # check all outputs before writing the first
        if path.suffix and path.suffix not in tables:
            raise SamiError(
                f"{path} ends in {path.suffix}; give NAME.csv, NAME.parquet, or a folder's name without a suffix for a "
                "LeRobot dataset."
            )
        require_output(path, FORCE.get() and bool(path.suffix), [file, *outs[:number]])
    recording = read_recording(file)
    for path in outs:
        if path.suffix:
            print_text(f"wrote {path}: {tables[path.suffix](recording, path, FORCE.get())} rows")
        else:
            print_text(f"wrote {path}: {write_lerobot(recording, path)} episodes")
