"""Cells as jobs of Slurm, by its own commands: sbatch, squeue and scancel. No accounting (sacct) is needed."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sami_train.studies.sweep.cell import OUTCOME
from sami_train.studies.sweep.engine import Look, SweepError
from sami_train.studies.sweep.job import job_command

NUMBER = "slurm-job"
"""The number of a cell's last job, in its folder of logs."""
POLL_S = 5.0
"""Seconds between two looks at the queue, one for all jobs: the controller serves the whole cluster."""
WARNING_S = 90
"""Seconds before its time limit at which a job is told, and stops at a checkpoint."""
GRACE_S = 15.0
"""Seconds that a shared file system may take to show what a job wrote at its end."""
COMMAND_S = 60.0
"""Seconds after which a command of Slurm counts as stuck."""
OWN = ("job-name", "output", "error", "open-mode", "signal", "parsable", "test-only", "wrap", "array", "chdir")
"""Settings of sbatch that are the sweep's."""
LOST = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED")
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", *LOST)
RUNS = ("RUNNING", "COMPLETING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "STOPPED", "RESIZING")
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")
"""Variables of Slurm that say where the cluster is; the others are those of a job that the sweep itself may be."""


class Slurm:
    """Jobs of Slurm.

    Args:
        jobs: most that are submitted at once.
        settings: sbatch's options, e.g. `{"partition": "gpu", "time": 240, "cpus_per_task": 4}`.

    Raises:
        SweepError: there is no Slurm here, or it would not take such a job.
    """

    def __init__(self, jobs: int, settings: Mapping[str, Any]) -> None:
        self.jobs, self.settings = jobs, settings
        self._seen: dict[str, tuple[str, str]] = {}
        self._looked_at, self._trouble = -POLL_S, ""
        for key in settings:
            if key.replace("_", "-") in OWN:
                raise SweepError(f"--on slurm:{key}=... is the sweep's own; leave it out.")
        _call(self._sbatch(Path("log.txt"), "sami") + ["--test-only"], "true")

    def submit(self, logs: Path) -> SlurmJob:
        """Submit the job of a folder of logs, or take the one that an earlier sweep submitted and that is there yet."""
        file = logs / NUMBER
        if file.is_file():
            number = file.read_text(encoding="utf-8")
            if (state := self.where(number)[0]) and state not in OVER:
                return SlurmJob(self, number, logs)  # of a sweep that was killed
        log = logs.absolute() / "%j.log"
        command = f"srun --unbuffered {shlex.join(job_command(logs))}"
        number = _call(self._sbatch(log, f"sami-{logs.name}"), command).strip().split(";")[0]  # ID[;CLUSTER]
        file.write_text(number, encoding="utf-8")
        return SlurmJob(self, number, logs)

    def where(self, number: str) -> tuple[str, str]:
        """Return Slurm's state of a job and its reason; `("", "")` of one that it does not know any more."""
        now = time.monotonic()
        if now - self._looked_at >= POLL_S:
            self._looked_at = now
            try:
                answer = _call(["squeue", f"--user={os.getuid()}", "--noheader", "--states=all", "--format=%i|%T|%r"])
            except SweepError as error:
                self._trouble = str(error)  # a controller that restarts; jobs go on meanwhile
            else:
                self._trouble = ""
                rows = (line.strip().split("|", 2) for line in answer.splitlines() if line.count("|") == 2)
                self._seen = {job: (state, reason) for job, state, reason in rows}
        if self._trouble:
            return self._seen.get(number, ("PENDING", ""))[0], self._trouble
        return self._seen.get(number, ("", ""))

    def look_again(self) -> None:
        """Have the next question ask Slurm: something has changed."""
        self._looked_at = -POLL_S

    def _sbatch(self, log: Path, name: str) -> list[str]:
        options = [f"--job-name={name}", f"--output={log}", "--open-mode=append", f"--signal=USR2@{WARNING_S}"]
        for key, value in self.settings.items():
            option = f"--{key.replace('_', '-')}"
            if value is not False:
                options.append(option if value is True else f"{option}={value}")
        return ["sbatch", "--parsable", *options]


class SlurmJob:
    """One job of Slurm; requeued, it is the same one.

    Args:
        slurm: what asks for its state.
        number: its id.
        logs: its folder of logs.
    """

    def __init__(self, slurm: Slurm, number: str, logs: Path) -> None:
        self.slurm, self.number, self.logs = slurm, number, logs
        self.log = logs / f"{number}.log"
        self._stopped, self._over_since = False, 0.0
        slurm.look_again()

    def look(self) -> Look:
        """Return where it stands."""
        state, reason = self.slurm.where(self.number)
        if state in RUNS:
            return Look("running", reason if reason != "None" else "")
        if state and state not in OVER:
            return Look("pending", f"{state.lower()} in Slurm's queue: {reason}")
        if not (self.logs / OUTCOME).is_file() and state not in ("CANCELLED", *LOST):
            self._over_since = self._over_since or time.monotonic()
            if time.monotonic() - self._over_since < GRACE_S:
                return Look("running")
        report = f"Slurm says {state}" if state else "Slurm knows its job no more"
        if state == "CANCELLED" and not self._stopped:
            return Look("cancelled", "its job was cancelled")
        return Look("lost" if state in LOST else "ended", report)

    def stop(self) -> None:
        """Cancel it: SIGTERM, and after a while (KillWait, half a minute) the end."""
        if not self._stopped:
            self._stopped = True
            _call(["scancel", self.number], refused=False)
        self.slurm.look_again()


def _call(command: list[str], script: str = "", refused: bool = True) -> str:
    """Run one of Slurm's commands, with the lines of a batch script where it takes one.

    Raises:
        SweepError: it is not there, stuck, or failed, unless that is not to be told.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or not name.startswith(("SLURM_", "SLURMD_", "SRUN_"))
    }
    text = f"#!/bin/bash\n{script}\n" if script else None
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=COMMAND_S, env=environment, check=False
        )
    except FileNotFoundError:
        raise SweepError(f"there is no {command[0]} here; --on slurm needs a machine that submits to Slurm.") from None
    except subprocess.TimeoutExpired:
        raise SweepError(f"{command[0]} has not answered within {COMMAND_S:g} s; is Slurm's controller up?") from None
    if done.returncode and refused:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["it says nothing"]
        reason = "; ".join(
            dict.fromkeys(line.removeprefix(f"{command[0]}: ").removeprefix("error: ") for line in lines)
        )
        raise SweepError(f"Slurm does not take this: {reason}")
    return done.stdout
