"""Runs as a comparison reads them: configuration, what they measured, and how they learnt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.measure import RETURN
from sami_train.envs.tasks import label
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.machine.files import read_json, read_json_lines
from sami_train.methods.methods import Method, method
from sami_train.runs.folder import RunError, RunFolder


class ComparisonError(SamiError):
    """Runs that cannot be compared with each other."""


@dataclass(frozen=True)
class Run:
    """One evaluated run."""

    path: Path
    config: Mapping[str, Any]
    """Resolved configuration by dotted key."""
    facts: Mapping[str, Any]
    """What run.json holds."""
    evaluation: Evaluation
    steps: int
    """Environment steps of the agent that was evaluated."""

    @property
    def method(self) -> Method:
        """The method."""
        return method(self.config["method"])

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.config["seed"])

    @property
    def updates(self) -> int | None:
        """Gradient steps of the agent that was evaluated; None where the run does not tell."""
        return self.facts.get("updates") if self.facts.get("steps") == self.steps else None

    @property
    def commit(self) -> str:
        """The commit that trained it, with a mark where it had local changes."""
        git = self.facts.get("git", {})
        return git.get("commit", "unknown")[:10] + (" with changes" if git.get("dirty") else "")

    def scores(self, task_set: str) -> np.ndarray:
        """What counts in one set: success by task, (tasks,), or the return of each episode, (episodes,)."""
        if self.evaluation.measure is RETURN:
            return self.evaluation.returns(task_set)
        return np.array([result.success for result in self.evaluation.of(task_set)])

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Environment steps (n,) and what counts while exploring (n,); empty where the run kept none."""
        rows, column = read_json_lines(RunFolder(self.path).metrics), self.evaluation.measure.exploring
        found = {int(row["step"]): row[column] for row in rows if column in row and row[column] == row[column]}
        return np.array(list(found)), np.array(list(found.values()))


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read runs that can be compared.

    Args:
        paths: run folders, or folders that hold run folders (a sweep); a run that is named twice counts once.

    Raises:
        RunError: there is no run, it is damaged, or it has no evaluation (of its newest agent) yet.
        ComparisonError: they are of different environments, or were evaluated differently.
    """
    folders = _find(paths)
    missing = [folder for folder in folders if not RunFolder(folder).evaluation.is_file()]
    if missing:
        listed = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise RunError(
            f"runs without an evaluation, {len(missing)} of {len(folders)}: {listed}. "
            f"Evaluate first: sami eval --run {missing[0]}"
        )
    runs = [_read(folder) for folder in folders]
    _check_alike(runs)
    return runs


def _find(paths: Iterable[Path]) -> list[Path]:
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise RunError(f"there is no run folder {path}; `sami train --out {path}` makes one.")
        if (path / "run.json").is_file() or (path / "config.json").is_file():
            inside = [path]
        else:
            inside = sorted(file.parent for file in path.rglob("run.json"))
        if not inside:
            raise RunError(f"{path} is no run folder and holds none; `sami train` and `sami sweep` make them.")
        for folder in inside:
            found.setdefault(folder.resolve(), folder)
    return [found[key] for key in sorted(found)]


def _read(path: Path) -> Run:
    folder = RunFolder.open(path)
    facts = folder.facts()
    try:
        config = folder.config().by_key()
    except RunError:
        raise
    except SamiError as error:
        raise RunError(f"{path / 'config.json'}: {error}") from error
    try:
        stored = read_json(folder.evaluation)
        evaluation = Evaluation.from_dict(stored)
    except SamiError as error:
        raise RunError(f"{folder.evaluation}: {error}") from error
    if not evaluation.results:
        raise RunError(f"{folder.evaluation} holds no task; evaluate again: sami eval --run {path}")
    measured, trained = stored.get("agent_steps"), facts.get("steps")
    if None not in (measured, trained) and measured != trained:
        raise RunError(
            f"{folder.evaluation} measured the agent after {measured:,} steps, the run has {trained:,} by now. "
            f"Evaluate again: sami eval --run {path}"
        )
    steps = trained if measured is None else measured
    if steps is None:
        raise RunError(f"{path} does not tell how many steps its agent took; evaluate it: sami eval --run {path}")
    return Run(path, config, facts, evaluation, int(steps))


def _check_alike(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.config["env"] != first.config["env"]:
            raise ComparisonError(
                f"{first.path} is of environment {first.config['env']!r}, {run.path} of {run.config['env']!r}; "
                "compare runs of one environment at a time."
            )
    for run in runs[1:]:
        ours, theirs = _measured(first), _measured(run)
        if ours != theirs:
            name = next(name for name in [*ours, *theirs] if ours.get(name) != theirs.get(name))
            raise ComparisonError(
                f"evaluations differ: {first.path} measured {ours.get(name, 0)} episodes of {name}, "
                f"{run.path} {theirs.get(name, 0)}. Evaluate them alike, e.g. sami eval --run {run.path} --episodes 100"
            )


def _measured(run: Run) -> dict[str, int]:
    return {_name(result): result.episodes for result in run.evaluation.results}


def _name(result: TaskResult) -> str:
    return f"{result.task_set} ({label(result.task)})"
