"""Groups: runs that differ in nothing but their seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sami_train.methods.methods import METHODS, Method
from sami_train.studies.compare.evaluated import ComparisonError, EvaluatedRun

NEVER = ("seed", "method", "env")
"""Keys that make no label: seeds are averaged over, the method is named, the environment is the same."""


@dataclass(frozen=True)
class Group:
    """Runs of one method and one setting."""

    method: Method
    settings: Mapping[str, Any]
    """Values of the keys that vary among the runs of this method."""
    shown: Mapping[str, str]
    """Short text for each setting that a label shows, by key, e.g. `trajectories=16`."""
    runs: tuple[EvaluatedRun, ...]
    """By seed."""

    @property
    def label(self) -> str:
        """Unique among the groups, e.g. `SaTESAC trajectories=16`."""
        return self.name()

    def name(self, without: str | None = None) -> str:
        """Return the label, perhaps without one of its settings."""
        return " ".join([self.method.title, *(text for key, text in self.shown.items() if key != without)])

    @property
    def seeds(self) -> list[int]:
        """Seeds, ascending."""
        return [run.seed for run in self.runs]

    def scores(self, task_set: str) -> np.ndarray:
        """Return what counts, (seeds, tasks), or (seeds, episodes) where it is the return."""
        return np.stack([run.scores(task_set) for run in self.runs])


def group_runs(runs: Sequence[EvaluatedRun]) -> list[Group]:
    """Group runs by method and by every configuration key in which runs of that method differ.

    Raises:
        ComparisonError: two runs of a group have the same seed.
    """
    names = [name for name in METHODS if name in {run.method.name for run in runs}]
    varying = {name: _varying([run for run in runs if run.method.name == name]) for name in names}
    short = _short(sorted({key for keys in varying.values() for key in keys}))
    groups = []
    for name in names:
        of_method = [run for run in runs if run.method.name == name]
        shown = _labelled(of_method, varying[name])
        for values in sorted({_values(run, varying[name]) for run in of_method}, key=_order):
            settings = dict(zip(varying[name], values, strict=True))
            members = sorted(
                (run for run in of_method if _values(run, varying[name]) == values), key=lambda run: run.seed
            )
            text = {key: f"{short[key]}={shown_value(settings[key])}" for key in shown}
            groups.append(Group(members[0].method, settings, text, tuple(members)))
            _check_seeds(groups[-1])
    return groups


def differences_between(groups: Sequence[Group]) -> dict[str, dict[str, Any]]:
    """Keys that no method varies but that differ between the methods that read them: value by the method's title."""
    firsts: dict[str, EvaluatedRun] = {}
    for group in groups:
        firsts.setdefault(group.method.title, group.runs[0])
    vary = {key for group in groups for key in group.settings}
    differences = {}
    for key in groups[0].runs[0].config:
        values = {title: run.config[key] for title, run in firsts.items() if _reads(run.method, key)}
        if key not in vary and key not in NEVER and len(set(values.values())) > 1:
            differences[key] = values
    return differences


def _reads(method: Method, key: str) -> bool:
    """Whether a key of the configuration has any effect on a method."""
    return method.estimator is not None or not key.startswith("contrast.")


def comparable(x: Group, y: Group) -> bool:
    """Whether two groups agree in every key that both methods vary."""
    return all(x.settings[key] == y.settings[key] for key in x.settings.keys() & y.settings.keys())


def shown_value(value: Any) -> str:
    """Short text for a value of the configuration."""
    if isinstance(value, float):
        return f"{value:g}"
    if type(value) is int and value >= 10_000 and value % 1000 == 0:
        return f"{value // 1000}k"
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _varying(runs: Sequence[EvaluatedRun]) -> list[str]:
    keys = [key for key in runs[0].config if key not in NEVER]
    return [key for key in keys if len({run.config[key] for run in runs}) > 1]


def _labelled(runs: Sequence[EvaluatedRun], keys: Sequence[str]) -> list[str]:
    """Return the varying keys that a label shows: where presets differ, not what follows from the preset."""
    if "preset" not in keys:
        return list(keys)
    presets = {run.config["preset"] for run in runs}

    def follows(key: str) -> bool:
        return all(len({run.config[key] for run in runs if run.config["preset"] == p}) == 1 for p in presets)

    return ["preset", *(key for key in keys if not follows(key))]


def _short(keys: Sequence[str]) -> dict[str, str]:
    """Last parts of dotted keys, where they tell keys apart."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: name if last.count(name) == 1 else key for key, name in zip(keys, last, strict=True)}


def _values(run: EvaluatedRun, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(run.config[key] for key in keys)


def _order(values: tuple[Any, ...]) -> list[tuple[bool, float, str]]:
    return [(isinstance(v, str), float(v) if isinstance(v, (int, float)) else 0.0, str(v)) for v in values]


def _check_seeds(group: Group) -> None:
    for one, other in pairwise(group.runs):
        if one.seed == other.seed:
            raise ComparisonError(
                f"{one.address} and {other.address} are both {group.label} with seed {one.seed}; a seed counts once, "
                "leave one of them out."
            )
