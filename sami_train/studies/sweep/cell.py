"""One cell of a sweep, as its own process runs it and as others see it: train, evaluate, and go on after any cut."""

from __future__ import annotations

import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from sami_runtime.errors import SamiError
from sami_train.envs.catalog import environment
from sami_train.envs.measure import Measure
from sami_train.files import locked, read_json, write_json
from sami_train.runs.folder import RunError, RunFolder, read_metrics
from sami_train.studies.sweep.grid import Cell

OF_A_RUN = {"config.json", "run.json", "metrics.jsonl", "tensorboard", "checkpoints", "lock"}
"""What a run folder may hold before its first checkpoint."""


OUTCOME = "outcome.json"
"""How a cell's last process ended, in its folder of logs."""
STATES = ("done", "stopped", "failed")


@dataclass(frozen=True)
class CellOutcome:
    """How a cell's process ended."""

    state: str
    """done, stopped or failed."""
    reason: str = ""

    @classmethod
    def read(cls, logs: Path) -> CellOutcome | None:
        """Return what a cell's process said at its end; None where it said nothing that can be read."""
        try:
            outcome = read_json(logs / OUTCOME)
        except SamiError:
            return None
        state, reason = outcome.get("state"), outcome.get("reason", "")
        return cls(state, str(reason)) if state in STATES else None


@dataclass(frozen=True)
class CellStatus:
    """What the files of a cell tell."""

    steps: int = 0
    """Environment steps that its metrics have reached."""
    seconds: float = 0.0
    """Seconds of training until then."""
    exploring: float | None = None
    """What the environment is judged by, while exploring."""
    trained: bool = False
    sets: Mapping[str, float] = field(default_factory=dict)
    """What the environment is judged by, for each set of tasks; empty until the cell is done."""


def status(folder: Path, env: str, episodes: int) -> CellStatus:
    """Read how far a cell is; it is done when all sets of tasks are evaluated with so many episodes."""
    run, measure = RunFolder(folder), environment(env).measure
    last = (read_metrics(run.metrics) or [{}])[-1]
    return CellStatus(
        steps=int(last.get("step", 0)),
        seconds=last.get("time/seconds", 0.0),
        exploring=last.get(measure.exploring),
        trained=run.agent.is_file(),
        sets=_evaluated(run, measure, episodes),
    )


def _evaluated(run: RunFolder, measure: Measure, episodes: int) -> dict[str, float]:
    if not (run.agent.is_file() and run.evaluation.is_file()):
        return {}
    try:
        document = read_json(run.evaluation)
        rows = document.get("tasks", [])
        if measure.per == "task":
            episodes_kept = {row["episodes"] for row in rows}
        else:
            sets = [[row["episodes"] for row in rows if row["task_set"] == name] for name in document["sets"]]
            episodes_kept = {sum(counts) for counts in sets}
        if document.get("agent_steps") != run.facts().get("steps") or episodes_kept != {episodes}:
            return {}
        return {str(name): float(result[measure.key]) for name, result in document["sets"].items()}
    except (SamiError, LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return {}  # of a damaged file: it is measured again


def run_cell(cell: Cell, folder: Path, logs: Path, episodes: int) -> CellOutcome:
    """Bring a cell to its end from wherever it is; SIGTERM and SIGUSR2 stop it at a safe place.

    Args:
        cell: the cell.
        folder: its run folder.
        logs: its folder of logs, which holds its lock.
        episodes: evaluation episodes per task, or per set.
    """
    return to_an_outcome(lambda: _run(cell, folder, episodes), logs)


def to_an_outcome(work: Callable[[], bool], logs: Path) -> CellOutcome:
    """Do a job's work, and leave in its folder of logs how that ended; SIGTERM and SIGUSR2 stop it at a safe place.

    Args:
        work: returns whether it is done; it goes on from wherever the process before it was.
        logs: the job's folder of logs, which holds its lock.
    """
    signal.signal(signal.SIGTERM, _stop)
    # Slurm's warning before a time limit.
    signal.signal(signal.SIGUSR2, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        with locked(logs / "lock"):  # one process at a time works on it
            outcome = CellOutcome("done" if work() else "stopped")
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        outcome = CellOutcome("stopped")
    except Exception as error:
        traceback.print_exc()
        reason = str(error) if isinstance(error, SamiError) else f"{type(error).__name__}: {error}"
        outcome = CellOutcome("failed", reason)
    sys.stdout.flush()
    try:
        write_json(logs / OUTCOME, {"state": outcome.state, "reason": outcome.reason})
    except SamiError as error:  # on a full disk the log's last line is what the sweep can still read
        print(outcome.reason or error, flush=True)
    return outcome


def _stop(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def _run(cell: Cell, folder: Path, episodes: int) -> bool:
    import torch

    from sami_train.evaluation.evaluate import evaluate
    from sami_train.evaluation.kept import keeping
    from sami_train.runs import train

    run = RunFolder(folder)
    if not run.agent.is_file():
        if run.newest_checkpoint() is None:
            clear_beginning(folder)
            agent = train.start(cell.config, folder, command=cell.command(folder))
        else:
            agent = train.resume(folder)
        if not agent.finished:
            return False
        del agent
    spec = environment(cell.config.env)
    if not _evaluated(run, spec.measure, episodes):
        agent = train.load_agent(run)
        torch.set_flush_denormal(False)  # training sets it; `sami eval` measures without
        sets, weights = list(spec.tasks.sets), agent.policy.numpy_weights()
        with keeping(run.evaluation):
            result = evaluate(weights, spec.name, sets, episodes, keep=run.evaluation)
            run.keep_evaluation(result.to_dict(), agent.num_timesteps)
    return True


def clear_beginning(folder: Path) -> None:
    """Remove what a run left that was cut off before its first checkpoint; where there is no folder, do nothing.

    Raises:
        RunError: something trains in the folder, or it holds what no run wrote.
    """
    if not folder.exists():
        return
    strange = [path.name for path in folder.iterdir() if path.name not in OF_A_RUN and path.suffix != ".unfinished"]
    if strange:
        raise RunError(f"{folder} holds {strange[0]}, which no run wrote; move it away and sweep again.")
    with RunFolder(folder).locked():
        shutil.rmtree(folder)
