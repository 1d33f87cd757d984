"""Engines that run jobs: as processes of this machine, as tasks of a Ray cluster, or as jobs of Slurm.

The Slurm engine calls sbatch, squeue and scancel; docs/how-to/sweep.md explains why it does not use submitit.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from sami_runtime.errors import SamiError
from sami_train.machine import share_of_cores
from sami_train.studies.sweep.job import LIFELINE, OUTCOME, CellOutcome, job_command

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
"""The environment variable that selects the GPUs for CUDA."""
LOG = "log.txt"
"""File with the output of a job on this machine or on Ray, in its log folder."""
RAY_POLL_S = 0.2
"""Seconds between two checks of a process by its Ray worker."""
RAY_RETRIES = 20
"""Most nodes that one cell may lose before it counts as failed."""
SLURM_NUMBER = "slurm-job"
"""File with the number of a cell's last Slurm job, in its log folder."""
SLURM_POLL_S = 5.0
"""Seconds between two queries of the queue, for all jobs together: the controller serves the whole cluster."""
SLURM_WARNING_S = 90
"""Seconds before its time limit at which a job gets a signal, to stop at a checkpoint."""
SLURM_GRACE_S = 15.0
"""Longest time until a shared file system shows the last writes of a job [s]."""
SLURM_COMMAND_S = 60.0
"""Seconds after which a command of Slurm counts as stuck."""
RESERVED = ("job-name", "output", "error", "open-mode", "signal", "parsable", "test-only", "wrap", "array", "chdir")
"""Options of sbatch that the sweep sets itself."""
SLURM_LOST = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED")
SLURM_OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", *SLURM_LOST)
SLURM_RUNS = ("RUNNING", "COMPLETING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "STOPPED", "RESIZING")
SLURM_PLACE = ("SLURM_CONF", "SLURM_CLUSTERS")
"""Variables that locate the cluster. Other SLURM_ variables are removed: the sweep itself may run in a Slurm job."""


class SweepError(SamiError):
    """A sweep that cannot be opened or started."""


@dataclass(frozen=True)
class Look:
    """State of a job."""

    state: Literal["pending", "running", "ended", "lost", "cancelled"]
    """Ended: the process exited and may have written a `CellOutcome`. Lost: a node failure or a preemption took the
    job, which should continue on another node. Cancelled: somebody other than the sweep cancelled the job."""
    reason: str = ""
    """Why the job waits, or how it ended, in the engine's words."""

    @property
    def over(self) -> bool:
        """Whether the job has ended for good."""
        return self.state not in ("pending", "running")


class Job(Protocol):
    """One started or queued process that works on a cell of a sweep or a part of a measurement."""

    log: Path
    """File with its output."""

    def look(self) -> Look:
        """Return the job's state; called about twice a second."""

    def stop(self) -> None:
        """Ask the job to stop at a safe place; may be called again."""


def ending(logs: Path, job: Job, look: Look, stopping: bool = False) -> CellOutcome:
    """Return how the job of a log folder ended; stopped if its node was lost, or if it was cancelled or told to stop.

    Its last state must be over; `stopping` is whether all jobs were told to stop.
    """
    outcome = CellOutcome.read(logs)
    if look.state == "cancelled" and (outcome is None or outcome.state != "done"):
        return CellOutcome("stopped", look.reason)
    if outcome is None and look.state != "lost" and not stopping:
        reason = f"{_last_words(job.log)} ({look.reason})" if look.reason else _last_words(job.log)
        return CellOutcome("failed", reason)
    return outcome or CellOutcome("stopped")


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.is_file() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
    return f"its process ended without a result (killed, or out of memory?); it last said: {last}"


class Engine(Protocol):
    """Starts jobs."""

    jobs: int
    """Most jobs that run at once."""

    def submit(self, logs: Path) -> Job:
        """Start the job that a log folder describes, see `job`.

        Raises:
            SweepError, OSError: the job cannot be started.
        """


class Local:
    """Runs jobs as processes of this machine, each with an equal share of the cores.

    Args:
        jobs: most jobs that run at once.
        gpus: CUDA's names of the GPUs to share; each job gets the GPU with the fewest jobs. If empty, jobs choose
            their device themselves.
    """

    def __init__(self, jobs: int, gpus: Sequence[str] = ()) -> None:
        self.jobs, self.gpus = jobs, tuple(gpus)
        self._running: list[tuple[str, LocalJob]] = []

    def submit(self, logs: Path) -> LocalJob:
        """Start the job that a log folder describes."""
        variables = {"OMP_NUM_THREADS": str(max(1, share_of_cores() // self.jobs))}
        if not self.gpus:
            return LocalJob(logs, variables)
        self._running = [(gpu, job) for gpu, job in self._running if not job.look().over]
        loads = Counter(gpu for gpu, _ in self._running)
        gpu = min(self.gpus, key=loads.__getitem__)
        job = LocalJob(logs, {**variables, VISIBLE_GPUS: gpu})
        self._running.append((gpu, job))
        return job


class LocalJob:
    """One process with additional environment variables, which continues if the sweep's own process is killed."""

    def __init__(self, logs: Path, variables: Mapping[str, str]) -> None:
        self.log = logs / LOG
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                job_command(logs),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                start_new_session=True,  # only the sweep receives a terminal's Ctrl-C, and then stops its jobs
            )

    def look(self) -> Look:
        """Return the job's state."""
        return Look("running" if self._process.poll() is None else "ended")

    def stop(self) -> None:
        """Send SIGTERM."""
        if self._process.poll() is None:
            self._process.terminate()


class Ray:
    """Runs jobs as tasks of a Ray cluster whose nodes share the sweep's folder; a lost node's task moves to another.

    Args:
        jobs: most tasks submitted at once.
        address: of the cluster, as `ray.init` takes it: `auto`, `10.0.0.1:6379` or `ray://10.0.0.1:10001`.
        needs: resources of each job, e.g. `{"num_cpus": 4, "num_gpus": 1}`.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        SweepError: there is no cluster at that address, or none of its nodes has the resources.
    """

    def __init__(self, jobs: int, address: str, needs: Mapping[str, Any]) -> None:
        import ray

        self.jobs = jobs
        try:
            if not ray.is_initialized():
                ray.init(address=address, configure_logging=False, log_to_driver=False)
            self._task = ray.remote(**{"num_cpus": 1, **needs}, max_retries=RAY_RETRIES)(_run_on_ray)
        except (ConnectionError, RuntimeError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise SweepError(
                f"Ray does not take this: {reason}. Give the address of a running cluster, --on ray:ADDRESS."
            ) from error
        needed = {"CPU": needs.get("num_cpus", 1), "GPU": needs.get("num_gpus", 0)}
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= count for name, count in needed.items()) for node in alive):
            largest = {name: max((node.get(name, 0) for node in alive), default=0) for name in needed}
            raise SweepError(
                f"no node of the Ray cluster has what a cell needs, {needed}; the most that one has is {largest}."
            )

    def submit(self, logs: Path) -> RayJob:
        """Submit the job that a log folder describes to the cluster."""
        log = logs.absolute() / LOG
        with contextlib.suppress(FileNotFoundError):
            log.rename(log.with_suffix(".before"))  # first: a free worker may open its log at once
        return RayJob(self._task.options(name=logs.name).remote(job_command(logs, LIFELINE), str(log)), log)


class RayJob:
    """One task of Ray, by Ray's reference; it remains the same job if Ray restarts it on another node.

    Its process creates the log file when it starts.
    """

    def __init__(self, task: Any, log: Path) -> None:
        self.log, self._task, self._stopped = log, task, False

    def look(self) -> Look:
        """Return the job's state."""
        import ray

        if not ray.wait([self._task], timeout=0)[0]:
            return Look("running") if self.log.exists() else Look("pending", "waits for room in the Ray cluster")
        try:
            ray.get(self._task)
        except ray.exceptions.TaskCancelledError:
            return Look("ended" if self._stopped else "cancelled", "its task was cancelled")
        except ray.exceptions.RayError as error:
            return Look("ended", f"Ray says: {str(error).splitlines()[0]}")
        return Look("ended")

    def stop(self) -> None:
        """Cancel the task, upon which its process stops at a safe place."""
        import ray

        if not self._stopped:
            self._stopped = True
            ray.cancel(self._task)


def _run_on_ray(command: list[str], log: str) -> int:
    """Run a job in a child process that stops if this one, a Ray worker on some node, ends; return its exit code."""
    with open(log, "ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        while process.poll() is None:
            time.sleep(RAY_POLL_S)  # short waits: Ray interrupts a cancelled task only between two Python instructions
        return process.returncode
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


class Slurm:
    """Runs jobs by Slurm, without its accounting (sacct).

    Args:
        jobs: most jobs submitted at once.
        settings: sbatch's options, e.g. `{"partition": "gpu", "time": 240, "cpus_per_task": 4}`.

    Raises:
        SweepError: an option is in `RESERVED`, Slurm is not installed here, or it rejects such a job.
    """

    def __init__(self, jobs: int, settings: Mapping[str, Any]) -> None:
        self.jobs, self.settings = jobs, settings
        self._states: dict[str, tuple[str, str]] = {}
        self._looked_at, self._trouble = -SLURM_POLL_S, ""
        for key in settings:
            if key.replace("_", "-") in RESERVED:
                raise SweepError(f"--on slurm:{key}=... is the sweep's own; leave it out.")
        _slurm([*self._sbatch(Path("log.txt"), "sami"), "--test-only"], "true")

    def submit(self, logs: Path) -> SlurmJob:
        """Submit the job that a log folder describes, or adopt an earlier sweep's job if it is still in the queue."""
        file = logs / SLURM_NUMBER
        if file.is_file():
            number = file.read_text(encoding="utf-8")
            if (state := self.where(number)[0]) and state not in SLURM_OVER:
                return SlurmJob(self, number, logs)  # submitted by a sweep that was killed
        command = f"srun --unbuffered {shlex.join(job_command(logs))}"
        answer = _slurm(self._sbatch(logs.absolute() / "%j.log", f"sami-{logs.name}"), command)
        number = answer.strip().split(";")[0]  # ID[;CLUSTER]
        file.write_text(number, encoding="utf-8")
        return SlurmJob(self, number, logs)

    def where(self, number: str) -> tuple[str, str]:
        """Return Slurm's state of a job and the reason; `("", "")` for a job that Slurm no longer lists."""
        now = time.monotonic()
        if now - self._looked_at >= SLURM_POLL_S:
            self._looked_at = now
            try:
                answer = _slurm(["squeue", f"--user={os.getuid()}", "--noheader", "--states=all", "--format=%i|%T|%r"])
            except SweepError as error:
                self._trouble = str(error)  # perhaps the controller restarts; jobs continue meanwhile
            else:
                self._trouble = ""
                rows = (line.strip().split("|", 2) for line in answer.splitlines() if line.count("|") == 2)
                self._states = {job: (state, reason) for job, state, reason in rows}
        if self._trouble:
            return self._states.get(number, ("PENDING", ""))[0], self._trouble
        return self._states.get(number, ("", ""))

    def look_again(self) -> None:
        """Let the next call of `where` query Slurm without waiting for `SLURM_POLL_S`."""
        self._looked_at = -SLURM_POLL_S

    def _sbatch(self, log: Path, name: str) -> list[str]:
        options = [f"--job-name={name}", f"--output={log}", "--open-mode=append", f"--signal=USR2@{SLURM_WARNING_S}"]
        for key, value in self.settings.items():
            option = f"--{key.replace('_', '-')}"
            if value is not False:
                options.append(option if value is True else f"{option}={value}")
        return ["sbatch", "--parsable", *options]


class SlurmJob:
    """One job of Slurm, by its id; it remains the same job if Slurm requeues it."""

    def __init__(self, slurm: Slurm, number: str, logs: Path) -> None:
        self.slurm, self.number, self.logs = slurm, number, logs
        self.log = logs / f"{number}.log"
        self._stopped, self._over_since = False, 0.0
        slurm.look_again()

    def look(self) -> Look:
        """Return the job's state."""
        state, reason = self.slurm.where(self.number)
        if state in SLURM_RUNS:
            return Look("running", reason if reason != "None" else "")
        if state and state not in SLURM_OVER:
            return Look("pending", f"{state.lower()} in Slurm's queue: {reason}")
        if not (self.logs / OUTCOME).is_file() and state not in ("CANCELLED", *SLURM_LOST):
            self._over_since = self._over_since or time.monotonic()
            if time.monotonic() - self._over_since < SLURM_GRACE_S:
                return Look("running")
        if state == "CANCELLED" and not self._stopped:
            return Look("cancelled", "its job was cancelled")
        report = f"Slurm says {state}" if state else "Slurm no longer lists its job"
        return Look("lost" if state in SLURM_LOST else "ended", report)

    def stop(self) -> None:
        """Cancel the job: Slurm sends SIGTERM, and SIGKILL after its KillWait (30 s by default)."""
        if not self._stopped:
            self._stopped = True
            _slurm(["scancel", self.number], may_fail=True)
        self.slurm.look_again()


def _slurm(command: list[str], script: str = "", may_fail: bool = False) -> str:
    """Run one of Slurm's commands, with a batch script on its standard input if given, and return what it prints.

    Raises:
        SweepError: the command is not installed, is stuck, or failed although `may_fail` is False.
    """
    foreign = ("SLURM_", "SLURMD_", "SRUN_")
    variables = {
        name: value for name, value in os.environ.items() if name in SLURM_PLACE or not name.startswith(foreign)
    }
    text = f"#!/bin/bash\n{script}\n" if script else None
    try:
        process = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=SLURM_COMMAND_S, env=variables, check=False
        )
    except FileNotFoundError:
        raise SweepError(f"there is no {command[0]} here; --on slurm needs a machine that submits to Slurm.") from None
    except subprocess.TimeoutExpired:
        raise SweepError(f"{command[0]} gave no answer in {SLURM_COMMAND_S:g} s; is Slurm's controller up?") from None
    if process.returncode and not may_fail:
        lines = [line.strip() for line in process.stderr.splitlines() if line.strip()] or ["it printed nothing"]
        reasons = [line.removeprefix(f"{command[0]}: ").removeprefix("error: ") for line in lines]
        raise SweepError(f"Slurm does not take this: {'; '.join(dict.fromkeys(reasons))}")
    return process.stdout


def usable_gpus() -> tuple[str, ...]:
    """Return the GPUs that this process may use, by their names in `CUDA_VISIBLE_DEVICES`."""
    import torch

    count = torch.cuda.device_count()
    gpus = [name.strip() for name in os.environ.get(VISIBLE_GPUS, "").split(",") if name.strip()]
    return tuple(gpus[:count]) if gpus else tuple(str(number) for number in range(count))
