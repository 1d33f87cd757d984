"""How a sweep's cells start and stop as processes of this machine or as Slurm jobs, by submitit."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import submitit
from submitit.helpers import clean_env, environment_variables

from sami_runtime.errors import SamiError
from sami_train.machine.cores import share_of_cores
from sami_train.machine.interrupts import on_signals
from sami_train.sweep.cell import OUTCOME, Outcome, run_cell
from sami_train.sweep.grid import Cell

LOCAL_MINUTES = 60 * 24 * 365
SLURM_MINUTES = 60 * 24
"""Time limit of a job; one that reaches it stops at a checkpoint, and the sweep submits it again."""


class SweepError(SamiError):
    """A sweep that cannot be opened or started."""


class Launcher:
    """Starts cells by submitit.

    Args:
        jobs: most cells that run at once.
        slurm: parameters of submitit's Slurm executor, e.g. `{"partition": "gpu", "time": 240}` (minutes); None runs
            processes on this machine, each with its share of the cores.

    Raises:
        SweepError: there is no Slurm here, or it has no such parameter.
    """

    def __init__(self, jobs: int, slurm: Mapping[str, Any] | None = None) -> None:
        self.jobs, self.slurm = jobs, slurm
        self._cancelled: set[str] = set()
        if slurm is not None:
            self._executor(Path("logs"))

    def submit(self, cell: Cell, folder: Path, logs: Path, episodes: int) -> submitit.Job[Outcome]:
        """Start a cell; see `run_cell`."""
        logs.mkdir(parents=True, exist_ok=True)
        (logs / OUTCOME).unlink(missing_ok=True)
        for old in logs.glob("*_result.pkl"):
            old.unlink()  # of a process whose number may come again
        executor = self._executor(logs)
        arguments = cell, folder, logs, episodes
        if self.slurm is not None:
            with clean_env():  # the sweep may itself be a Slurm job
                return executor.submit(run_cell, *arguments, {})
        # submitit hides GPUs from local jobs that ask for none.
        variables = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES")}
        threads = str(max(1, share_of_cores() // self.jobs))
        with on_signals(signal.SIG_IGN, signal.SIGINT, signal.SIGHUP), environment_variables(OMP_NUM_THREADS=threads):
            return executor.submit(run_cell, *arguments, variables)

    def stop(self, job: submitit.Job[Outcome]) -> None:
        """Ask a job to stop at a safe place; may be asked again."""
        if self.slurm is not None:
            if job.job_id not in self._cancelled:
                self._cancelled.add(job.job_id)
                job.cancel(check=False)  # SIGTERM, and half a minute later (KillWait) the end
        else:
            # Its parent, which passes SIGTERM on; submitit's own cancel gives one second and then kills.
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(job.job_id), signal.SIGTERM)

    def _executor(self, logs: Path) -> submitit.Executor:
        if self.slurm is None:
            executor = submitit.AutoExecutor(logs, cluster="local")
            executor.update_parameters(timeout_min=LOCAL_MINUTES, stderr_to_stdout=True)
            return executor
        try:
            executor = submitit.AutoExecutor(logs, cluster="slurm")
            parameters = {"time": SLURM_MINUTES, "job_name": f"sami-{logs.name}", **self.slurm}
            executor.update_parameters(
                stderr_to_stdout=True, **{f"slurm_{key}": value for key, value in parameters.items()}
            )
        except (RuntimeError, NameError, ValueError, AssertionError) as error:
            raise SweepError(f"Slurm does not take this: {str(error).splitlines()[0]}") from error
        return executor
