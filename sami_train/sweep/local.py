"""Cells as processes of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from sami_train.machine.cores import share_of_cores
from sami_train.sweep.engine import Look
from sami_train.sweep.job import job_command

LOG = "log.txt"


class Local:
    """Processes of this machine, each with its share of the cores.

    Args:
        jobs: most that run at once.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def submit(self, logs: Path) -> LocalJob:
        """Start the job of a folder of logs."""
        return LocalJob(logs, max(1, share_of_cores() // self.jobs))


class LocalJob:
    """One process, which outlives the sweep: it goes on where that is killed.

    Args:
        logs: its folder of logs.
        threads: of its linear algebra.
    """

    def __init__(self, logs: Path, threads: int) -> None:
        self.log = logs / LOG
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                job_command(logs),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                start_new_session=True,  # a terminal's Ctrl-C is the sweep's, which then asks for the stop
            )

    def look(self) -> Look:
        """Return where it stands."""
        return Look("running" if self._process.poll() is None else "ended")

    def stop(self) -> None:
        """Send SIGTERM."""
        if self._process.poll() is None:
            self._process.terminate()
