"""`sami verify-log`: check that an evidence log is complete and unchanged, and print its events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..options import JSON
from ..output import print_text


def verify_log(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="Evidence log, NAME.jsonl.")],
    trusted: Annotated[
        Path | None,
        typer.Option(metavar="KEYS", help="File of public keys: a log that none of them signed is refused."),
    ] = None,
) -> None:
    """Check an evidence log, and print what happened. Exit code 4 if a line was changed or removed."""
    from sami_runtime.robots.evidence import check_log

    check = check_log(log, trusted)
    if JSON.get():
        print(json.dumps(check.summary(), indent=2))
    else:
        print_text(check)
    if check.fault:
        raise typer.Exit(4)
