"""Cells as tasks of a Ray cluster, whose nodes share the sweep's folder; that of a lost node goes on elsewhere."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sami_train.studies.sweep.engine import Look, SweepError
from sami_train.studies.sweep.job import LIFELINE, job_command
from sami_train.studies.sweep.local import LOG

POLL_S = 0.2
"""Seconds between two looks of Ray's worker at its process."""
RETRIES = 20
"""Nodes that may be lost under one cell, before it counts as failed."""


class Ray:
    """Tasks of a Ray cluster.

    Args:
        jobs: most that are given to it at once.
        address: of the cluster, as `ray.init` takes it: `auto`, `10.0.0.1:6379` or `ray://10.0.0.1:10001`.
        needs: of each cell, e.g. `{"num_cpus": 4, "num_gpus": 1}`.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        SweepError: there is no cluster at that address, or it has no node for such a cell.
    """

    def __init__(self, jobs: int, address: str, needs: Mapping[str, Any]) -> None:
        import ray

        self.jobs = jobs
        try:
            if not ray.is_initialized():
                ray.init(address=address, configure_logging=False, log_to_driver=False)
            self._task = ray.remote(**{"num_cpus": 1, **needs}, max_retries=RETRIES)(_run)
        except (ConnectionError, RuntimeError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise SweepError(
                f"Ray does not take this: {reason}. Give the address of a running cluster, --on ray:ADDRESS."
            ) from error
        self._require_a_node({"CPU": needs.get("num_cpus", 1), "GPU": needs.get("num_gpus", 0)})

    def submit(self, logs: Path) -> RayJob:
        """Give the job of a folder of logs to the cluster."""
        log = logs.absolute() / LOG
        return RayJob(self._task.options(name=logs.name).remote(job_command(logs, LIFELINE), str(log)), log)

    def _require_a_node(self, needed: Mapping[str, float]) -> None:
        import ray

        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= count for name, count in needed.items()) for node in alive):
            largest = {name: max((node.get(name, 0) for node in alive), default=0) for name in needed}
            raise SweepError(
                f"no node of the Ray cluster has what a cell needs, {dict(needed)}; the most that one has is {largest}."
            )


class RayJob:
    """One task of Ray; begun anew on another node, it is the same one.

    Args:
        task: what Ray calls it.
        log: where its process prints, from its start on.
    """

    def __init__(self, task: Any, log: Path) -> None:
        self.log, self._task, self._stopped = log, task, False
        with contextlib.suppress(FileNotFoundError):
            log.rename(log.with_suffix(".before"))

    def look(self) -> Look:
        """Return where it stands."""
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
        """Cancel it: its process is told, and ends at a safe place."""
        import ray

        if not self._stopped:
            self._stopped = True
            ray.cancel(self._task)


def _run(command: list[str], log: str) -> int:
    """Run a job in a process of its own, which ends with this one: what Ray's worker does on a node."""
    with open(log, "ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        while process.poll() is None:
            time.sleep(POLL_S)  # a cancelled task is interrupted between two lines, and not while it waits for another
        return process.returncode
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
