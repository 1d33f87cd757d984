"""A job in a process of its own, which runs the cell or the part that a folder of logs describes.

JSON on both ways, because whoever can write to a sweep's folder could make a pickle run what they like.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from sami_runtime.child import python_command
from sami_train.config.resolve import from_dict
from sami_train.files import read_json, write_json
from sami_train.studies.sweep.cell import OUTCOME, run_cell
from sami_train.studies.sweep.grid import Cell
from sami_train.studies.sweep.part import PART, run_part

DESCRIPTION = "cell.json"
LIFELINE = "--lifeline"
"""Has a job stop at a safe place once its standard input ends: with the process that started it."""


def describe_job(cell: Cell, folder: Path, logs: Path, episodes: int) -> None:
    """Write down what a job will do; what the one before said at its end goes.

    Args:
        cell: the cell.
        folder: its run folder.
        logs: its folder of logs.
        episodes: evaluation episodes per task, or per set.
    """
    logs.mkdir(parents=True, exist_ok=True)
    (logs / OUTCOME).unlink(missing_ok=True)
    described = {"name": cell.name, "config": cell.config.to_dict(), "overrides": dict(cell.overrides)}
    write_json(logs / DESCRIPTION, {**described, "folder": str(folder.absolute()), "episodes": episodes})


def job_command(logs: Path, *options: str) -> list[str]:
    """Return the command that runs the job of a folder of logs."""
    return python_command(__name__, str(logs.absolute()), *options)


def run_job(logs: Path) -> None:
    """Run the job of a folder of logs; one that a cluster starts anew forgets what it said at its first end."""
    if (logs / PART).is_file():
        run_part(logs)
        return
    job = read_json(logs / DESCRIPTION)
    (logs / OUTCOME).unlink(missing_ok=True)
    cell = Cell(job["name"], from_dict(job["config"]), job["overrides"])
    run_cell(cell, Path(job["folder"]), logs, job["episodes"])


def hold_the_lifeline() -> None:
    """Send this process SIGTERM when its standard input ends."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main(logs: str, *options: str) -> None:
    """Run the job of a folder of logs."""
    if LIFELINE in options:
        hold_the_lifeline()
    run_job(Path(logs))
