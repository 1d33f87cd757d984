"""`sami view`: look at a recording in a browser, or at two beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view(
    file: Annotated[Path, typer.Argument(help="Recording, NAME.mcap.")],
    other: Annotated[Path | None, typer.Argument(help="Another one, to be shown beside it.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes; NAME.html beside the recording if left out.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it exists.")] = False,
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
) -> None:
    """Write a recording as one HTML file to scrub through; it needs no network, and asks for none."""
    import webbrowser

    from sami_runtime.files import require_output
    from sami_runtime.recording.reader import read_recording
    from sami_runtime.recording.view import write_page

    inputs = [path for path in (file, other) if path is not None]
    path = out or file.with_suffix(".html")
    require_output(path, force, inputs)
    write_page([read_recording(name) for name in inputs], path, force)
    print(f"wrote {path}")
    if open_it:
        webbrowser.open(path.resolve().as_uri())
