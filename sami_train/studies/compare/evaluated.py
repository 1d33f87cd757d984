"""Runs as a comparison reads them: configuration, what they measured, and how they learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.measure import RETURN
from sami_train.envs.tasks import label
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.methods.methods import Method, method
from sami_train.runs.folder import RunError, RunRecord
from sami_train.studies.sweep.study import find_runs


class ComparisonError(SamiError):
    """Runs that cannot be compared with each other."""


@dataclass(frozen=True)
class EvaluatedRun:
    """One evaluated run, from its folder or from a line of a study."""

    record: RunRecord
    config: Mapping[str, Any]
    """Resolved configuration by dotted key."""
    evaluation: Evaluation
    steps: int
    """Environment steps of the agent that was evaluated."""

    @property
    def address(self) -> str:
        """Where it is kept: its folder, or FILE:NAME."""
        return self.record.address

    @property
    def facts(self) -> Mapping[str, Any]:
        """What run.json holds."""
        return self.record.facts

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
        """Return what counts in one set: success by task, (tasks,), or the return of each episode, (episodes,)."""
        if self.evaluation.measure is RETURN:
            return self.evaluation.returns(task_set)
        return np.array([result.success for result in self.evaluation.of(task_set)])

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Environment steps (n,) and what counts while exploring (n,); empty where the run kept none."""
        rows, column = self.record.metrics, self.evaluation.measure.exploring
        by_step = {int(row["step"]): row[column] for row in rows if column in row and row[column] == row[column]}
        return np.array(list(by_step)), np.array(list(by_step.values()))


def read_runs(paths: Sequence[Path]) -> list[EvaluatedRun]:
    """Read runs that can be compared.

    Args:
        paths: run folders, studies, folders that hold either, or some of their runs; see `study.find_runs`.

    Raises:
        RunError: there is no run, it is damaged, or it has no evaluation (of its newest agent) yet.
        ComparisonError: they are of different environments, or were evaluated differently.
    """
    records = find_runs(paths)
    missing = [record for record in records if record.evaluation is None]
    if missing:
        listed = ", ".join(record.address for record in missing[:5])
        listed += f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise RunError(
            f"runs without an evaluation, {len(missing)} of {len(records)}: {listed}. "
            f"Evaluate first: {missing[0].how_to_evaluate()}"
        )
    runs = [_evaluated(record) for record in records]
    _check_alike(runs)
    return runs


def _evaluated(record: RunRecord) -> EvaluatedRun:
    config, stored = record.train_config().by_key(), record.evaluation or {}
    try:
        evaluation = Evaluation.from_dict(stored)
    except SamiError as error:
        raise RunError(f"{record.title_of_evaluation}: {error}") from error
    if not evaluation.results:
        raise RunError(f"{record.title_of_evaluation} holds no task; evaluate again: {record.how_to_evaluate()}")
    measured, trained = stored.get("agent_steps"), record.facts.get("steps")
    if None not in (measured, trained) and measured != trained:
        raise RunError(
            f"{record.title_of_evaluation} measured the agent after {measured:,} steps, the run has {trained:,} by "
            f"now. Evaluate again: {record.how_to_evaluate()}"
        )
    steps = trained if measured is None else measured
    if steps is None:
        raise RunError(
            f"{record.address} does not tell how many steps its agent took; evaluate it: {record.how_to_evaluate()}"
        )
    return EvaluatedRun(record, config, evaluation, int(steps))


def _check_alike(runs: Sequence[EvaluatedRun]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.config["env"] != first.config["env"]:
            raise ComparisonError(
                f"{first.address} is of environment {first.config['env']!r}, {run.address} of {run.config['env']!r}; "
                "compare runs of one environment at a time."
            )
    for run in runs[1:]:
        ours, theirs = _measured(first), _measured(run)
        if ours != theirs:
            name = next(name for name in [*ours, *theirs] if ours.get(name) != theirs.get(name))
            raise ComparisonError(
                f"evaluations differ: {first.address} measured {ours.get(name, 0)} episodes of {name}, "
                f"{run.address} {theirs.get(name, 0)}. Evaluate them alike, e.g. "
                f"{run.record.how_to_evaluate(' --episodes 100')}"
            )


def _measured(run: EvaluatedRun) -> dict[str, int]:
    return {_name(result): result.episodes for result in run.evaluation.results}


def _name(result: TaskResult) -> str:
    return f"{result.task_set} ({label(result.task)})"
