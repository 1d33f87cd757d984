"""Cells as processes of this machine."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sami_train.machine import VISIBLE_GPUS, share_of_cores
from sami_train.studies.sweep.engine import Look
from sami_train.studies.sweep.job import job_command

LOG = "log.txt"


class Local:
    """Processes of this machine, each with its share of the cores.

    Args:
        jobs: most that run at once.
        gpus: what CUDA calls the GPUs that they share, each job on the one that has the fewest; empty leaves that to
            the jobs.
    """

    def __init__(self, jobs: int, gpus: Sequence[str] = ()) -> None:
        self.jobs, self.gpus = jobs, tuple(gpus)
        self._running: list[tuple[str, LocalJob]] = []

    def submit(self, logs: Path) -> LocalJob:
        """Start the job of a folder of logs."""
        threads = max(1, share_of_cores() // self.jobs)
        if not self.gpus:
            return LocalJob(logs, threads)
        self._running = [(gpu, job) for gpu, job in self._running if not job.look().over]
        taken = Counter(gpu for gpu, _ in self._running)
        gpu = min(self.gpus, key=taken.__getitem__)
        job = LocalJob(logs, threads, gpu)
        self._running.append((gpu, job))
        return job


class LocalJob:
    """One process, which outlives the sweep: it goes on where that is killed.

    Args:
        logs: its folder of logs.
        threads: of its linear algebra.
        gpu: the only one that it sees; None lets it see what this process does.
    """

    def __init__(self, logs: Path, threads: int, gpu: str | None = None) -> None:
        self.log = logs / LOG
        alone = {} if gpu is None else {VISIBLE_GPUS: gpu}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                job_command(logs),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": str(threads), **alone},
                start_new_session=True,  # a terminal's Ctrl-C is the sweep's, which then asks for the stop
            )

    def look(self) -> Look:
        """Return where it stands."""
        return Look("running" if self._process.poll() is None else "ended")

    def stop(self) -> None:
        """Send SIGTERM."""
        if self._process.poll() is None:
            self._process.terminate()
