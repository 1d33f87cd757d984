"""A job, run in a process of its own: one cell of a sweep or one part of a measurement, described in a log folder.

Both the description and the outcome are JSON: unpickling a file from a shared folder could run anybody's code.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from sami_runtime.child import python_command
from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_train.config.resolve import from_dict
from sami_train.envs.catalog import environment
from sami_train.envs.measure import Measure
from sami_train.evaluation.evaluate import evaluate, measure_pieces
from sami_train.evaluation.result_store import KeptResults, Piece, keeping
from sami_train.files import locked, make_folder, read_json, write_json
from sami_train.runs.folder import RunError, RunFolder, read_metrics
from sami_train.studies.sweep.grid import Cell

OUTCOME = "outcome.json"
"""How a job's last process ended, in its folder of logs."""
CELL, PART = "cell.json", "part.json"
"""Files in a log folder that describe its job, one of the two; a part's results are beside them, see `KeptResults`."""
LIFELINE = "--lifeline"
"""Makes a job stop at a safe place when its standard input ends, which is when the process that started it ends."""
OF_A_RUN = {"config.json", "run.json", "metrics.jsonl", "tensorboard", "checkpoints", "lock"}
"""Files that a run folder may have before its first checkpoint."""


@dataclass(frozen=True)
class CellOutcome:
    """How a job's process ended."""

    state: str
    """done, stopped or failed."""
    reason: str = ""

    @classmethod
    def read(cls, logs: Path) -> CellOutcome | None:
        """Return the outcome that a job's process wrote at its end; None if it is missing or not valid."""
        try:
            outcome = read_json(logs / OUTCOME)
        except SamiError:
            return None
        state, reason = outcome.get("state"), outcome.get("reason", "")
        return cls(state, str(reason)) if state in ("done", "stopped", "failed") else None


@dataclass(frozen=True)
class CellStatus:
    """Progress of a cell, read from its files."""

    steps: int = 0
    """Environment steps at the last line of its metrics."""
    seconds: float = 0.0
    """Seconds of training up to that line."""
    exploring: float | None = None
    """Success or return in training, measured with exploration."""
    trained: bool = False
    sets: Mapping[str, float] = field(default_factory=dict)
    """Evaluated success or return by task set; empty until the cell is done."""


def status(folder: Path, env: str, episodes: int) -> CellStatus:
    """Read a cell's progress; it is done when all task sets are evaluated with `episodes` episodes."""
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
        return {}  # the file is damaged: evaluate again


def describe_job(cell: Cell, folder: Path, logs: Path, episodes: int) -> None:
    """Write the description of a cell's job, with its run folder, and remove the outcome of its previous job.

    The log folder is created if missing; `episodes` are evaluation episodes per task, or per set.
    """
    make_folder(logs)
    (logs / OUTCOME).unlink(missing_ok=True)
    described = {"name": cell.name, "config": cell.config.to_dict(), "overrides": dict(cell.overrides)}
    write_json(logs / CELL, {**described, "folder": str(folder.absolute()), "episodes": episodes})


def describe_part(logs: Path, policy: Mapping[str, str], env: str, episodes: int, subset: Sequence[Piece]) -> None:
    """Write the description of a part of a measurement.

    Args:
        logs: the part's log folder, which must not exist yet.
        policy: `{"model": FILE}` or `{"run": FOLDER}`.
        env: name of the environment.
        episodes: episodes per task or per set, as in `evaluate`.
        subset: the pieces of the evaluation that this part measures.
    """
    make_folder(logs)
    pieces = [
        {
            "gap": None if piece.gap is None else piece.gap.to_dict(),
            "task_set": piece.task_set,
            "task": None if piece.task is None else dict(piece.task),
            "seed": piece.seed,
        }
        for piece in subset
    ]
    where = {kind: str(Path(path).absolute()) for kind, path in policy.items()}
    write_json(logs / PART, {"policy": where, "env": env, "episodes": episodes, "pieces": pieces})


def job_command(logs: Path, *options: str) -> list[str]:
    """Return the command that runs the job that a log folder describes."""
    return python_command(__name__, str(logs.absolute()), *options)


def main(logs: str, *options: str) -> None:
    """Run the job that a log folder describes; with `LIFELINE`, stop it when the standard input ends."""
    if LIFELINE in options:

        def stop_at_the_end_of_input() -> None:
            while os.read(0, 1024):
                pass
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=stop_at_the_end_of_input, daemon=True).start()
    run_job(Path(logs))


def run_job(logs: Path) -> CellOutcome:
    """Run the job of a log folder, continuing what a previous process did, and write its outcome.

    SIGTERM stops the job at a safe place, as does SIGUSR2, which Slurm sends before a time limit. If a cluster restarts
    a job, the new process first removes the outcome of the old one.
    """
    work = _measure_part if (logs / PART).is_file() else _train_cell
    (logs / OUTCOME).unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGUSR2, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        with locked(logs / "lock"):  # one process at a time works on the job
            outcome = CellOutcome("done" if work(logs) else "stopped")
    except KeyboardInterrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        outcome = CellOutcome("stopped")
    except Exception as error:
        traceback.print_exc()
        reason = str(error) if isinstance(error, SamiError) else f"{type(error).__name__}: {error}"
        outcome = CellOutcome("failed", reason)
    sys.stdout.flush()
    try:
        write_json(logs / OUTCOME, asdict(outcome))
    except SamiError as error:  # on a full disk, the sweep can still read the log's last line
        print(outcome.reason or error, flush=True)
    return outcome


def _interrupt(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def _train_cell(logs: Path) -> bool:
    """Train and evaluate a cell; return False if a signal stopped the training before its last step."""
    from sami_train.config.recordings import recordings_of
    from sami_train.runs import train

    job = read_json(logs / CELL)
    cell, run = Cell(job["name"], from_dict(job["config"]), job["overrides"]), RunFolder(Path(job["folder"]))
    if not run.agent.is_file():
        if run.newest_checkpoint() is None:
            clear_beginning(run.path)
            agent = train.start(cell.config, run.path, command=cell.command(run.path), reader=recordings_of)
        else:
            agent = train.resume(run.path, reader=recordings_of)
        if not agent.finished:
            return False
        del agent
    spec, episodes = environment(cell.config.env), job["episodes"]
    if not _evaluated(run, spec.measure, episodes):
        weights, steps = _weights(run)
        with keeping(run.evaluation):
            result = evaluate(weights, spec.name, list(spec.tasks.sets), episodes, keep=run.evaluation)
            run.keep_evaluation(result.to_dict(), steps)
    return True


def clear_beginning(folder: Path) -> None:
    """Remove the folder of a run that ended before its first checkpoint; do nothing if there is no folder.

    Raises:
        RunError: a process trains in the folder, or the folder has a file that no run wrote.
    """
    if not folder.exists():
        return
    strange = [path.name for path in folder.iterdir() if path.name not in OF_A_RUN and path.suffix != ".unfinished"]
    if strange:
        raise RunError(f"{folder} holds {strange[0]}, which no run wrote; move it away and sweep again.")
    with RunFolder(folder).locked():
        shutil.rmtree(folder)


def _measure_part(logs: Path) -> bool:
    """Measure the pieces of a part that are not stored yet; return True."""
    part: dict[str, Any] = read_json(logs / PART)
    policy, spec = part["policy"], environment(part["env"])
    source = Path(policy["model"]) if "model" in policy else _weights(RunFolder.open(Path(policy["run"])))[0]
    pieces = [
        Piece(None if row["gap"] is None else GapProfile.of(row["gap"]), row["task_set"], row["task"], row["seed"])
        for row in part["pieces"]
    ]
    store = KeptResults(logs / PART, source, spec, part["episodes"])
    measure_pieces(source, spec, pieces, part["episodes"], store)
    return True


def _weights(run: RunFolder) -> tuple[Any, int]:
    """Return the weights of a run's agent, and its environment steps."""
    import torch

    from sami_train.runs.train import load_agent

    agent = load_agent(run)
    torch.set_flush_denormal(False)  # training flushes denormals; measurements do not
    return agent.policy.numpy_weights(), agent.num_timesteps
