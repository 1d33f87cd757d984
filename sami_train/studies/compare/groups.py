"""Evaluated runs, and groups of runs that differ only in their seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.errors import SamiError, enumeration
from sami_runtime.model.atlas import label
from sami_train.config.methods import METHODS, Method
from sami_train.envs.measure import RETURN
from sami_train.evaluation.results import Evaluation
from sami_train.runs.folder import RunError
from sami_train.runs.record import RunRecord
from sami_train.studies.sweep.study import find_runs
from sami_train.studies.sweep.sweep import unfinished_cells


class ComparisonError(SamiError):
    """Runs that cannot be compared with each other."""


@dataclass(frozen=True)
class EvaluatedRun:
    """One evaluated run, read from its folder or from a line of a study file."""

    record: RunRecord
    config: Mapping[str, Any]
    """Resolved configuration by dotted key."""
    evaluation: Evaluation
    steps: int
    """Environment steps of the agent that was evaluated."""

    @property
    def address(self) -> str:
        """Where the run is stored: its folder, or FILE:NAME in a study file."""
        return self.record.address

    @property
    def facts(self) -> Mapping[str, Any]:
        """The contents of run.json."""
        return self.record.facts

    @property
    def method(self) -> Method:
        """The method, see `RunRecord.method`."""
        return self.record.method

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.config["seed"])

    @property
    def updates(self) -> int | None:
        """Gradient steps of the evaluated agent; None if the run recorded none, or only those of another agent."""
        draws = self.facts.get("updates") if self.facts.get("steps") == self.steps else None
        return draws and draws * self.config.get("learning.steps_per_draw", 1)

    @property
    def commit(self) -> str:
        """Commit of the code that trained the run, marked if it had local changes."""
        git = self.facts.get("git", {})
        return git.get("commit", "unknown")[:10] + (" with changes" if git.get("dirty") else "")

    def scores(self, task_set: str) -> np.ndarray:
        """Return the scores on one set: success by task, (tasks,), or the return of each episode, (episodes,)."""
        if self.evaluation.measure is RETURN:
            return self.evaluation.returns(task_set)
        return np.array([result.success for result in self.evaluation.of(task_set)])

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return environment steps (n,) and training success or return (n,); empty if the run recorded none."""
        rows, column = self.record.metrics, self.evaluation.measure.exploring
        by_step = {int(row["step"]): row[column] for row in rows if column in row and row[column] == row[column]}
        return np.array(list(by_step)), np.array(list(by_step.values()))


def read_runs(paths: Sequence[Path]) -> list[EvaluatedRun]:
    """Read the runs under some paths, see `find_runs`, and check that they can be compared.

    Raises:
        RunError: there is no run, or a run is damaged or has no evaluation of its newest agent.
        ComparisonError: the runs are of different environments, or were evaluated differently.
    """
    records = find_runs(paths)
    missing = [record for record in records if record.evaluation is None]
    if missing:
        listed = enumeration([record.address for record in missing])
        advice = unfinished_cells(missing[0].folder.parent) or f"Evaluate first: {missing[0].how_to_evaluate()}"
        raise RunError(f"runs without an evaluation, {len(missing)} of {len(records)}: {listed}. {advice}")
    runs = [_evaluated(record) for record in records]
    _check_alike(runs)
    return runs


def _evaluated(record: RunRecord) -> EvaluatedRun:
    config, stored = record.train_config().by_key(), record.evaluation or {}
    try:
        evaluation = Evaluation.from_dict(stored)
    except SamiError as error:
        raise RunError(f"evaluation.json of {record.address}: {error}") from error
    if not evaluation.results:
        raise RunError(f"evaluation.json of {record.address} holds no task; evaluate again: {record.how_to_evaluate()}")
    measured, run_steps = stored.get("agent_steps"), record.facts.get("steps")
    if None not in (measured, run_steps) and measured != run_steps:
        raise RunError(
            f"evaluation.json of {record.address} measured the agent after {measured:,} steps, the run has "
            f"{run_steps:,} by now. Evaluate again: {record.how_to_evaluate()}"
        )
    steps = run_steps if measured is None else measured
    if steps is None:
        raise RunError(
            f"{record.address} does not store how many steps its agent took; evaluate it: {record.how_to_evaluate()}"
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
        if run.evaluation.seed != first.evaluation.seed:
            raise ComparisonError(
                f"{first.address} was evaluated by the {first.evaluation.seed_name}, {run.address} by the "
                f"{run.evaluation.seed_name}; evaluate all with --final, or none."
            )
    engines = {run.evaluation.engine: run.address for run in runs if run.evaluation.engine}  # older files lack it
    if len(engines) > 1:
        listed = ", ".join(f"{address} in {engine}" for engine, address in engines.items())
        raise ComparisonError(f"evaluations come from different physics engines: {listed}; evaluate all in one.")
    expected = _measured(first)
    for run in runs[1:]:
        counts = _measured(run)
        if expected != counts:
            name = next(name for name in [*expected, *counts] if expected.get(name) != counts.get(name))
            raise ComparisonError(
                f"evaluations differ: {first.address} measured {expected.get(name, 0)} episodes of {name}, "
                f"{run.address} {counts.get(name, 0)}. Evaluate them alike, e.g. "
                f"{run.record.how_to_evaluate(' --episodes 100')}"
            )


def _measured(run: EvaluatedRun) -> dict[str, int]:
    return {f"{result.task_set} ({label(result.task)})": result.episodes for result in run.evaluation.results}


NEVER = ("seed", "method", "env")
"""Keys that never distinguish groups: seeds are averaged, a label names the method, the environment is the same."""


@dataclass(frozen=True)
class Group:
    """Runs of one method and one setting."""

    method: Method
    settings: Mapping[str, Any]
    """Values of the configuration keys that vary among the runs of this method."""
    labels: Mapping[str, str]
    """Short text for each setting that a label shows, by key, e.g. `trajectories=16`."""
    runs: tuple[EvaluatedRun, ...]
    """The runs, ascending by seed."""

    @property
    def label(self) -> str:
        """Unique among the groups, e.g. `SaTESAC trajectories=16`."""
        return " ".join([self.method.title, *self.labels.values()])

    @property
    def seeds(self) -> list[int]:
        """Seeds, ascending."""
        return [run.seed for run in self.runs]

    def scores(self, task_set: str) -> np.ndarray:
        """Return success, (seeds, tasks), or returns, (seeds, episodes), on one task set."""
        return np.stack([run.scores(task_set) for run in self.runs])


def group_runs(runs: Sequence[EvaluatedRun]) -> list[Group]:
    """Group runs by method and by every configuration key in which runs of that method differ.

    Raises:
        ComparisonError: two runs of a group have the same seed.
    """
    by_method: dict[str, list[EvaluatedRun]] = {}
    for run in sorted(runs, key=lambda run: (list(METHODS).index(run.method.name), run.seed)):
        by_method.setdefault(run.method.title, []).append(run)
    varying = {name: _varying(of_method) for name, of_method in by_method.items()}
    last = [key.rpartition(".")[2] for key in {key for keys in varying.values() for key in keys}]
    groups = []
    for name, of_method in by_method.items():
        members: dict[tuple[Any, ...], list[EvaluatedRun]] = {}
        for run in of_method:
            members.setdefault(tuple(run.config[key] for key in varying[name]), []).append(run)
        for values in sorted(members, key=_order):
            settings, labels = dict(zip(varying[name], values, strict=True)), {}
            for key in _labelled(of_method, varying[name]):
                short = key.rpartition(".")[2]  # used if it is unique
                labels[key] = f"{short if last.count(short) == 1 else key}={shown_value(settings[key])}"
            groups.append(Group(members[values][0].method, settings, labels, tuple(members[values])))
            _check_seeds(groups[-1])
    return groups


def differences_between(groups: Sequence[Group]) -> dict[str, dict[str, list[Any]]]:
    """Return the values, by method title, of configuration keys that differ between methods and are fixed in one."""
    differences = {}
    for key in groups[0].runs[0].config:
        values: dict[str, dict[Any, None]] = {}
        for group in groups:
            # Skip contrast.* for a method without a contrastive loss, and keys that follow from a varying preset.
            unread = key.startswith("contrast.") and not group.method.estimator
            if not unread and (key not in group.settings or key in group.labels):
                values.setdefault(group.method.title, {})[group.runs[0].config[key]] = None
        fixed = [of_method for of_method in values.values() if len(of_method) == 1]
        if key not in NEVER and fixed and any(of_method != fixed[0] for of_method in values.values()):
            differences[key] = {title: list(of_method) for title, of_method in values.items()}
    return differences


def comparable(x: Group, y: Group) -> bool:
    """Return whether two groups agree in every key that varies within both methods."""
    return all(x.settings[key] == y.settings[key] for key in x.settings.keys() & y.settings.keys())


def shown_value(value: Any) -> str:
    """Return a short text for a value of the configuration."""
    if isinstance(value, float):
        return f"{value:g}"
    if type(value) is int and value >= 10_000 and value % 1000 == 0:
        return f"{value // 1000}k"
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _varying(runs: Sequence[EvaluatedRun]) -> list[str]:
    keys = [key for key in runs[0].config if key not in NEVER]
    return [key for key in keys if len({run.config[key] for run in runs}) > 1]


def _labelled(runs: Sequence[EvaluatedRun], keys: Sequence[str]) -> list[str]:
    """Return the varying keys that a label shows: if presets differ, without the keys that the preset determines."""
    if "preset" not in keys:
        return list(keys)
    presets = {run.config["preset"] for run in runs}

    def depends_on_preset(key: str) -> bool:
        return all(len({run.config[key] for run in runs if run.config["preset"] == p}) == 1 for p in presets)

    return ["preset", *(key for key in keys if not depends_on_preset(key))]


def _order(values: tuple[Any, ...]) -> list[tuple[bool, float, str]]:
    return [(isinstance(v, str), float(v) if isinstance(v, (int, float)) else 0.0, str(v)) for v in values]


def _check_seeds(group: Group) -> None:
    for run, other in pairwise(group.runs):
        if run.seed == other.seed:
            raise ComparisonError(
                f"{run.address} and {other.address} are both {group.label} with seed {run.seed}; a seed counts once, "
                "leave one of them out."
            )
