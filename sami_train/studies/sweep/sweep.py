"""A sweep: the cells of a grid, run on this machine, by Slurm or by Ray; it resumes after any interruption.

sweep.json    the grid and the episodes of the evaluation
sweep.lock    held by the process that sweeps here
NAME/         one run folder for each cell, as `sami train` makes them
logs/NAME/    the description of the cell's job, its output, its outcome, and its lock
runs.jsonl    the results of all cells, a line each, once every cell is done; see `studies.sweep.study`
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError, enumeration, in_shell
from sami_train.envs.catalog import by_name
from sami_train.files import holder, locked, make_folder, read_json, write_json
from sami_train.machine import on_stop_signals
from sami_train.runs.folder import RunError, RunFolder
from sami_train.runs.record import RunRecord
from sami_train.studies.sweep.engines import Engine, Job, Look, SweepError, ending
from sami_train.studies.sweep.grid import Cell, Grid
from sami_train.studies.sweep.job import CellStatus, describe_job, status
from sami_train.studies.sweep.study import STUDY, write_study

SWEEP_VERSION = 1
POLL = 0.5
"""Shortest time between two queries of the jobs' states [s]."""
PATIENCE = 60.0
"""Seconds that a stopped sweep waits for its jobs' last checkpoints."""


@dataclass
class CellRow:
    """State of one cell of a sweep."""

    cell: Cell
    state: str = "waiting"
    """waiting, pending (in a cluster's queue), running, evaluating, stopped, failed or done."""
    status: CellStatus = field(default_factory=CellStatus)
    reason: str = ""
    log: Path | None = None
    began_at: int = -1
    """Steps of the checkpoint from which its last job started."""


class Sweep:
    """A sweep's folder and its cells.

    `episodes` are evaluation episodes per task; per task set if the environment's measure is the return.

    Raises:
        GridError: a cell's configuration is not valid.
        RunError: a cell's folder holds another run.
    """

    def __init__(self, path: Path, grid: Grid, episodes: int) -> None:
        self.path, self.grid, self.episodes = path, grid, episodes
        self.cluster: dict[str, Any] = {}
        """The cluster's settings for each job, stored with the grid."""
        self.rows = [CellRow(cell) for cell in grid.cells()]
        for row in self.rows:
            self._check(row.cell)
            self._look(row)

    @classmethod
    def open(cls, path: Path) -> Sweep:
        """Return the sweep stored in a folder.

        Raises:
            SweepError: the folder has no sweep, or its sweep.json is damaged or of another version.
        """
        file = path / "sweep.json"
        if not file.is_file():
            raise SweepError(
                f"{path} has no sweep.json; say what to try, such as --method tesac,satesac, to begin a sweep there."
            )
        plan = read_json(file)
        if plan.get("version") != SWEEP_VERSION:
            raise SweepError(f"{file} is of version {plan.get('version')}; this sami reads version {SWEEP_VERSION}.")
        try:
            if not (type(plan["episodes"]) is int and plan["episodes"] > 0):
                raise ValueError(f"episodes is {plan['episodes']!r:.40}")
            sweep = cls(path, Grid(plan["axes"], plan["unnamed"]), plan["episodes"])
            sweep.cluster = dict(plan.get("cluster", {}))
            return sweep
        except (LookupError, TypeError, ValueError, AttributeError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise SweepError(f"{file} is damaged ({problem}); sweep again with another --out.") from error

    @classmethod
    def begin(cls, path: Path, grid: Grid, episodes: int) -> Sweep:
        """Return a new sweep, or the folder's sweep extended by the values that this grid adds. Write nothing yet.

        Raises:
            GridError, SweepError: the folder's sweep has other keys, a value that this grid lacks, or other `episodes`.
        """
        if not (path / "sweep.json").is_file():
            return cls(path, grid, episodes)
        sweep = cls.open(path)
        if sweep.episodes != episodes:
            raise SweepError(
                f"{path} evaluates with {sweep.episodes} episodes, and now {episodes} are asked for; "
                "a sweep evaluates all cells alike: keep the number, or choose another --out."
            )
        wider = cls(path, sweep.grid.extended(grid), episodes)
        wider.cluster = sweep.cluster
        return wider

    def folder(self, cell: Cell) -> Path:
        """Return the cell's run folder."""
        return self.path / cell.name

    def logs(self, cell: Cell) -> Path:
        """Return the cell's log folder."""
        return self.path / "logs" / cell.name

    @property
    def study(self) -> Path:
        """The file with the results of all cells, written once every cell is done."""
        return self.path / STUDY

    def count(self, *states: str) -> int:
        """Return how many cells are in one of these states."""
        return sum(row.state in states for row in self.rows)

    @property
    def seconds_left(self) -> float | None:
        """Estimated training time for all unfinished cells, one after the other; None until a speed is measured."""
        steps = sum(row.status.steps for row in self.rows)
        seconds = sum(row.status.seconds for row in self.rows)
        remaining = sum(max(0, row.cell.config.steps - row.status.steps) for row in self.rows if row.state != "failed")
        return remaining * seconds / steps if steps else None

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder against other sweeps.

        Raises:
            SweepError: another sweep has the lock; the message names its process.
        """
        make_folder(self.path)
        return locked(
            self.path / "sweep.lock",
            lambda by: SweepError(f"another sweep runs in {self.path}, {by}; wait for it to end, or stop it."),
        )

    def run(self, engine: Engine, on_change: Callable[[], None]) -> bool:
        """Run every cell that is not done; call `on_change` about twice a second, after `rows` were updated.

        Return whether the sweep ran to its end, also if cells failed; False if a signal stopped it.

        Raises:
            SweepError: another sweep runs here.
        """
        stop_signals: list[int] = []
        with self.locked(), on_stop_signals(lambda number, frame: stop_signals.append(number)):
            plan = {"version": SWEEP_VERSION, "episodes": self.episodes, **self.grid.to_dict()}
            write_json(self.path / "sweep.json", plan | ({"cluster": self.cluster} if self.cluster else {}))
            queue = self._queue()
            running: dict[str, tuple[CellRow, Job]] = {}
            stop_by = float("inf")
            while running or (queue and not stop_signals):
                while queue and len(running) < engine.jobs and not stop_signals:
                    row = queue.pop(0)
                    job = self._submit(row, engine)
                    if job is not None:
                        running[row.cell.name] = row, job
                if stop_signals:
                    stop_by = min(stop_by, time.monotonic() + PATIENCE)
                    if time.monotonic() > stop_by or len(stop_signals) > 1:
                        break
                    for _, job in running.values():
                        job.stop()
                start_time = time.monotonic()
                queue += self._update(running, stopping=bool(stop_signals))
                on_change()
                if running:  # reading the files of a thousand cells takes a second: sleep for most of the time
                    time.sleep(max(POLL, 4.0 * (time.monotonic() - start_time)))
            if self.count("done") == len(self.rows):
                write_study(self.study, [RunRecord.of_folder(self.folder(row.cell)) for row in self.rows])
            return not stop_signals

    def look_for_owners(self) -> None:
        """Show in `rows` which cells other processes work on; `run` does so itself."""
        for row in self.rows:
            if row.state != "done" and (owner := holder(self.logs(row.cell) / "lock")):
                self._look(row, "running")
                row.reason = f"runs in {owner}"

    def _queue(self) -> list[CellRow]:
        """Return the cells to run. Those that a killed sweep left running come first: new jobs of theirs await them."""
        queue = [row for row in self.rows if row.state != "done"]
        for row in queue:
            owner = holder(self.logs(row.cell) / "lock")
            row.state, row.reason = "waiting", f"waits for {owner}, left by an earlier sweep" if owner else ""
        return sorted(queue, key=lambda row: not row.reason)

    def _update(self, running: dict[str, tuple[CellRow, Job]], stopping: bool) -> Iterator[CellRow]:
        """Update the rows of running jobs, remove the jobs that are over, and yield the cells to run again."""
        for name, (row, job) in list(running.items()):
            look = job.look()
            if look.over:
                del running[name]
                self._settle(row, job, look, stopping)
                if row.state == "waiting":
                    yield row
            else:
                previous = row.state
                self._look(row, look.state)
                if look.reason or previous == "pending":
                    row.reason = look.reason

    def _check(self, cell: Cell) -> None:
        if not (self.folder(cell) / "config.json").is_file():
            return
        stored, planned = (config.by_key() for config in (RunFolder(self.folder(cell)).config(), cell.config))
        for key, value in planned.items():
            if stored[key] != value:
                raise RunError(
                    f"{self.folder(cell)} holds a run with {key} = {stored[key]}, and the sweep's has {value}; "
                    "move that folder away, or choose another --out."
                )

    def _look(self, row: CellRow, running: str = "") -> None:
        row.status = status(self.folder(row.cell), row.cell.config.env, self.episodes)
        if row.status.sets:
            row.state = "done"
        elif running:
            row.state = "evaluating" if row.status.trained else running

    def _submit(self, row: CellRow, engine: Engine) -> Job | None:
        row.state = "running"
        row.began_at = _checkpointed(self.folder(row.cell))
        logs = self.logs(row.cell)
        try:
            describe_job(row.cell, self.folder(row.cell), logs, self.episodes)
            job = engine.submit(logs)
        except (OSError, SamiError) as error:
            row.state, row.reason = "failed", f"its job could not be started: {error}"
            return None
        row.log = job.log
        return job

    def _settle(self, row: CellRow, job: Job, look: Look, stopping: bool) -> None:
        self._look(row)
        row.reason = ""
        if row.state == "done":
            return
        outcome = ending(self.logs(row.cell), job, look, stopping)
        row.state, row.reason = outcome.state, outcome.reason
        # A lost job goes on, and one that stopped, as at a time limit, if it made progress.
        goes_on = look.state == "lost" or _checkpointed(self.folder(row.cell)) > row.began_at
        if row.state == "stopped" and not stopping and look.state != "cancelled" and goes_on:
            row.state = "waiting"


def unfinished_cells(folder: Path) -> str:
    """Return which cells of a folder's sweep are not done, and how to go on; empty without such cells or a sweep."""
    rows = Sweep.open(folder).rows if (folder / "sweep.json").is_file() else []
    names = [row.cell.name for row in rows if row.state != "done"]
    again = f"sami sweep --out {in_shell(folder)}{by_name(*(row.cell.config.env for row in rows))}"
    text = f"{len(names)} of {len(rows)} cells of {folder} are not done: {enumeration(names)}. Continue with: {again}"
    return text if names else ""


def _checkpointed(folder: Path) -> int:
    newest = RunFolder(folder).newest_checkpoint()
    return -1 if newest is None else int(newest.name)
