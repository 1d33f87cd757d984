"""Tasks: settings of the environmental features (paper section 3), and the sets that they are drawn from."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sami_runtime.errors import SamiError, UnknownName

Task = Mapping[str, Any]
"""Values by environmental feature, e.g. ``{"mass": 1.5, "crippled": [3]}``: numbers, and lists of parts."""


class TaskError(SamiError):
    """A task that the environment cannot take."""


@dataclass(frozen=True)
class Feature:
    """One environmental feature and the values that it may take."""

    name: str
    unit: str
    low: float
    """Smallest value that is accepted."""
    low_open: bool = False
    """Whether ``low`` itself is refused."""
    default: float | None = None
    """Value in a task that does not name the feature; None where a task has to."""
    high: float = math.inf
    """Largest value that is accepted."""

    def check(self, value: Any) -> float:
        """Return the value as a float.

        Raises:
            TaskError: the value is not a finite number in range.
        """
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not self.low <= number <= self.high or not math.isfinite(number) or (self.low_open and number == self.low):
            raise TaskError(f"{self.name} is {value!r}; it must be a number{self._bounds()}.")
        return number

    def _bounds(self) -> str:
        relation = "greater than" if self.low_open else "at least"
        low = "" if self.low == -math.inf else f" {relation} {self.low:g}"
        high = "" if self.high == math.inf else f"{' and' * bool(low)} at most {self.high:g}"
        return low + high + (f" {self.unit}" if self.unit and (low or high) else "")


@dataclass(frozen=True)
class Crippled:
    """The discrete feature: which parts of a robot do not obey."""

    kind: str
    """What a part is: joint or leg."""
    parts: tuple[str, ...]
    """Names of the parts; a task gives their numbers, counted from 0."""
    most: int
    """How many may be crippled at once."""
    motors: tuple[tuple[int, ...], ...] = ()
    """Which motors fall silent with each part, by their numbers in the action; empty where no motor does."""
    name: ClassVar[str] = "crippled"
    default: ClassVar[tuple[int, ...]] = ()

    def check(self, value: Any) -> list[int]:
        """Return the parts' numbers in order.

        Raises:
            TaskError: a part that does not exist, one named twice, or too many.
        """
        try:
            numbers = sorted(operator.index(number) for number in value)
        except TypeError:
            numbers = [-1]
        known = set(numbers) <= set(range(len(self.parts)))
        if not known or len(set(numbers)) < len(numbers) or len(numbers) > self.most:
            valid = ", ".join(f"{number} ({name})" for number, name in enumerate(self.parts))
            raise TaskError(
                f"crippled is {value!r}; it must be a list of at most {self.most} different {self.kind}s of: {valid}."
            )
        return numbers


@dataclass(frozen=True)
class TaskSpace:
    """The features of an environment and its named sets of tasks."""

    features: tuple[Feature | Crippled, ...]
    sets: Mapping[str, tuple[Task, ...]]
    """The paper's sets: ``training``, ``moderate``, ``extreme``."""
    hint: str = ""
    """What to do where parts cannot be crippled."""
    drawn: Mapping[str, Callable[[np.random.Generator], Task]] = field(default_factory=dict)
    """What draws a task of those sets that have no end; `sets` holds so many of each, always the same."""
    impossible: tuple[Task, ...] = ()
    """Tasks of the sets that the robot cannot do, whatever its policy: physics forbids them."""
    why_impossible: str = ""
    """By which forces, as a sentence."""

    def training_tasks(self, count: int, seed: int) -> tuple[Task, ...]:
        """Return what a run learns from: the training set, or so many tasks drawn from it by the run's seed.

        Episodes of one task have to be told from those of another, and compared with one another, while learning: so
        tasks without end become `count` tasks, which are visited in turn as the paper's are.
        """
        if "training" not in self.drawn:
            return self.sets["training"]
        rng = np.random.default_rng((seed, count))
        return tuple(self.check(self.drawn["training"](rng)) for _ in range(count))

    def never_obeyed(self, tasks: Sequence[Task]) -> tuple[str, ...]:
        """Return the parts that are crippled in every one of some tasks, e.g. "joint foot_joint"."""
        return tuple(
            f"{feature.kind} {part}"
            for feature in self.features
            if isinstance(feature, Crippled)
            for number, part in enumerate(feature.parts)
            if all(number in task.get(feature.name, ()) for task in tasks)
        )

    def silent(self, task: Task) -> list[int]:
        """Return the motors that do not obey in a task, by their numbers in the action."""
        crippled = [feature for feature in self.features if isinstance(feature, Crippled) and feature.motors]
        return sorted(
            motor for feature in crippled for part in task.get(feature.name, ()) for motor in feature.motors[part]
        )

    def check(self, task: Task) -> Task:
        """Return the task with every feature given, numbers as floats.

        Raises:
            TaskError: a feature is missing or out of range.
            UnknownName: a feature that this environment does not have.
        """
        names = [feature.name for feature in self.features]
        for name in task:
            # Nothing crippled is true of every robot.
            if name not in names and not (name == Crippled.name and len(task[name]) == 0):
                raise UnknownName("environmental feature", name, names, self.hint if name == Crippled.name else "")
        needed = [feature.name for feature in self.features if feature.default is None]
        missing = [name for name in needed if name not in task]
        if missing:
            raise TaskError(f"task {dict(task)!r} lacks {', '.join(missing)}; a task needs: {', '.join(needed)}.")
        return {feature.name: feature.check(task.get(feature.name, feature.default)) for feature in self.features}

    def resolve(self, tasks: str | Task | Sequence[Task]) -> tuple[Task, ...]:
        """Return the tasks that a caller names: a set's name, one task, or several.

        Raises:
            TaskError, UnknownName: as `check`; also for an unknown set or an empty sequence.
        """
        if isinstance(tasks, str):
            if tasks not in self.sets:
                raise UnknownName("task set", tasks, list(self.sets))
            return self.sets[tasks]
        if isinstance(tasks, Mapping):
            return (self.check(tasks),)
        checked = tuple(self.check(task) for task in tasks)
        if not checked:
            raise TaskError(f"no task was given; name a set ({', '.join(self.sets)}) or give at least one task.")
        return checked


def draw(tasks: Sequence[Task], rng: np.random.Generator) -> Task:
    """Draw one task uniformly (the paper's distribution over tasks)."""
    return tasks[int(rng.integers(len(tasks)))]


def shown(value: Any) -> str:
    """Short text for a feature's value: a number, or the parts of a list, e.g. ``0+3``."""
    if isinstance(value, (list, tuple)):
        return "+".join(str(part) for part in value) or "none"
    return f"{value:g}"


def label(task: Task) -> str:
    """Short text for a task, e.g. ``mass 10, friction 0.1``."""
    return ", ".join(f"{name} {shown(value)}" for name, value in task.items()) or "the one task"
