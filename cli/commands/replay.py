"""`sami replay`: does a model do again what a recording says it did?"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from ..model_file import MODEL_HELP, model_file


def replay(
    file: Annotated[Path, typer.Argument(help="Recording, NAME.mcap.")],
    model: Annotated[
        Path | None,
        typer.Option(help=f"{MODEL_HELP}; the recorded one, or ones, if left out.", callback=model_file),
    ] = None,
    provider: Annotated[
        str, typer.Option(help="What runs the graph: cpu, cuda, ... Another than the recorded one rounds otherwise.")
    ] = "cpu",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Step a model over a recording and name the first step that differs, to the last bit. Exits with 4 if one does."""
    from sami_runtime.errors import CheckFailed, SamiError
    from sami_runtime.recording.reader import read_recording
    from sami_runtime.recording.replay import conditions
    from sami_runtime.recording.replay import replay as check
    from sami_runtime.session.session import Session

    recording = read_recording(file)
    paths = [model] if model else [Path(path) for path in recording.models]
    for path in paths:
        if model is None and not path.is_file():
            raise SamiError(f"{file} was recorded with {path}, which is not there. Give the model with --model.")
    sessions = [Session.load(path, provider=provider) for path in paths]
    comparison = check(recording, *sessions)
    if json:
        described = {"path": str(file), "closed": recording.closed, "ticks": len(recording.steps)}
        print(json_module.dumps({**described, "about": recording.about, **comparison.summary()}))
    else:
        print(recording)
        for note in conditions(recording, *sessions):
            print(f"note: {note}")
        print(comparison)
    if not comparison.same:
        raise typer.Exit(CheckFailed.exit_code)
    if not comparison.steps:
        raise SamiError(f"{file} holds no step of the policy, so nothing was checked. Give one in which it acted.")
