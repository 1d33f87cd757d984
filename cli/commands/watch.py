"""`sami watch`: the curves of runs, of those that go on and of those that are over."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..model_file import OwnEnvironment

if TYPE_CHECKING:
    from rich.console import Console

    from sami_train.runs.watching import WatchedRun

EVERY_S = 0.2
"""How often a terminal is asked for its size [s]."""


def watch(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, or folders that hold some, such as a sweep.")
    ],
    every: Annotated[float, typer.Option(min=0.1, metavar="S", help="How often the folders are read.")] = 2.0,
    env: OwnEnvironment = None,
    once: Annotated[bool, typer.Option("--once", help="Show them as they are now, and end.")] = False,
) -> None:
    """Show success or return over the steps, in all and by task, until every run is over. Ctrl-C ends the looking only.

    Without a terminal: a line for each run whenever it has measured something new.
    """
    from rich.console import Console

    from sami_train.runs.watching import Curves, watched

    console, found = Console(), watched(runs)

    def tell(changed: list[WatchedRun]) -> None:
        for run in changed:
            print(run.line(), flush=True)

    if not console.is_terminal:
        tell(found)
    try:
        if not once and any(run.going for run in found):
            if console.is_terminal:
                _look(found, console, every)
            while not console.is_terminal and any(run.going for run in found):
                time.sleep(every)
                tell([run for run in found if run.read()])
    except KeyboardInterrupt:
        pass
    if console.is_terminal:
        console.print(Curves(found))


def _look(found: list[WatchedRun], console: Console, every: float) -> None:
    """Draw on a screen of its own, which the terminal takes away again, until every run is over."""
    from rich.live import Live

    from sami_train.runs.watching import Curves

    curves = Curves(found, "Ctrl-C ends looking, and no run")
    live = Live(curves, console=console, screen=True, auto_refresh=False)
    try:  # not `with`, which an interruption while it begins would leave on the other screen
        live.start()
        size, read = console.size, time.monotonic()  # before it draws: a window that changes meanwhile is drawn anew
        live.refresh()
        while any(run.going for run in found):
            time.sleep(min(EVERY_S, every))
            due = time.monotonic() - read >= every
            changed = [run for run in found if run.read()] if due else []
            read = time.monotonic() if due else read
            if changed or console.size != size:
                size = console.size
                live.refresh()
    finally:
        live.stop()
