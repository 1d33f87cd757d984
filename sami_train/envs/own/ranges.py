"""Sets of tasks as a user writes them: tasks one by one, a grid of values, ranges to draw from, or a function."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sami_train import seeds
from sami_train.envs.tasks import Feature, Task, TaskError, TaskSpace

DRAWS = 20
"""Tasks that stand for a set without end wherever tasks are counted: in evaluations, atlases and runs."""
SEED = seeds.TASK_RANGES
"""Of these draws; with the set's name, so that two sets of the same ranges do not hold the same tasks."""
DIGITS = 6
"""Significant digits of a value that is drawn: all that a table shows, so that what it shows is the task."""


@dataclass(frozen=True)
class Range:
    """Values from `low` to `high`, any of them as likely; with `log`, any ratio.

    >>> Range(0.5, 2.0).draw(np.random.default_rng(0))
    1.45544

    Raises:
        TaskError: it holds no number, or `log` where it does not begin above 0.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise TaskError(f"Range({self.low}, {self.high}) holds no value; give a low end below its high end.")
        if self.log and self.low <= 0.0:
            raise TaskError(f"Range({self.low}, {self.high}, log=True) must begin above 0; leave out log=True.")

    def draw(self, rng: np.random.Generator) -> float:
        """Draw a value."""
        if self.log:
            value = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = float(rng.uniform(self.low, self.high))
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


Choices = Mapping[str, "Range | Sequence[float | Range]"]
"""Values by feature: a grid of lists, or ranges (also several in one list) to draw from."""
TaskSet = Sequence[Task] | Choices | Callable[[np.random.Generator], Task]
"""A set as a user writes it."""


def task_space(sets: Mapping[str, TaskSet] | TaskSpace | None) -> TaskSpace:
    """Return the space of some sets of tasks, its features and their bounds taken from the sets themselves.

    >>> task_space({"training": {"mass": [1.0, 2.0], "length": [0.5]}}).sets["training"]
    ({'mass': 1.0, 'length': 0.5}, {'mass': 2.0, 'length': 0.5})

    Args:
        sets: by name; `"training"` must be there. A sequence of tasks; a mapping from features to lists of values,
            which is their grid, or to a `Range` (or a list that holds some), which is drawn from; or a function
            from a generator of random numbers to a task. None is one task without features.

    Raises:
        TaskError: there is no training set, a set is empty, its tasks differ in their features, or a value is no
            number.
    """
    if isinstance(sets, TaskSpace):
        return sets
    if sets is None:
        return TaskSpace((), {"training": ({},)})
    if "training" not in sets:
        raise TaskError(f"the task sets are {', '.join(sets) or 'none'}; one of them must be called training.")
    fixed: dict[str, tuple[Task, ...]] = {}
    drawn: dict[str, Callable[[np.random.Generator], Task]] = {}
    for name, tasks in sets.items():
        if callable(tasks):
            drawn[name] = _checked(tasks, name)
        elif isinstance(tasks, Mapping) and _has_range(tasks):
            drawn[name] = _Drawn({feature: _choices(values) for feature, values in tasks.items()})
        elif isinstance(tasks, Mapping):
            fixed[name] = tuple(
                dict(zip(tasks, map(float, row), strict=True))
                for row in itertools.product(*(map(_number, _choices(values)) for values in tasks.values()))
            )
        else:
            fixed[name] = tuple({key: _number(value) for key, value in task.items()} for task in tasks)
        if not fixed.get(name, (1,)):
            raise TaskError(f"task set {name!r} holds no task; give at least one.")
    listed = {name: fixed[name] if name in fixed else _draws(drawn[name], name) for name in sets}
    features = tuple(_feature(name, sets, listed) for name in _names(listed))
    return TaskSpace(features, listed, drawn=drawn)


@dataclass(frozen=True)
class _Drawn:
    """Draws a task from ranges."""

    choices: Mapping[str, Sequence[float | Range]]

    def __call__(self, rng: np.random.Generator) -> Task:
        return {name: _draw(values, rng) for name, values in self.choices.items()}


@dataclass(frozen=True)
class _checked:  # noqa: N801 - a function that crosses processes
    """A user's function, whose tasks are checked."""

    function: Callable[[np.random.Generator], Task]
    name: str

    def __call__(self, rng: np.random.Generator) -> Task:
        task = self.function(rng)
        if not isinstance(task, Mapping):
            raise TaskError(
                f"the function of task set {self.name!r} returned {task!r}; it must return numbers by feature, a dict."
            )
        return {key: _number(value) for key, value in task.items()}


def _draws(draw: Callable[[np.random.Generator], Task], name: str) -> tuple[Task, ...]:
    rng = np.random.default_rng((SEED, zlib.crc32(name.encode())))
    return tuple(draw(rng) for _ in range(DRAWS))


def _draw(values: Sequence[float | Range], rng: np.random.Generator) -> float:
    value = values[int(rng.integers(len(values)))] if len(values) > 1 else values[0]
    return value.draw(rng) if isinstance(value, Range) else _number(value)


def _choices(values: Range | Sequence[float | Range]) -> Sequence[Any]:
    if isinstance(values, (Range, int, float)):
        return (values,)
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, np.ndarray)) or not len(values):
        raise TaskError(f"a feature's values are {values!r}; give a list of numbers, or a Range(low, high).")
    return tuple(values)


def _has_range(tasks: Choices) -> bool:
    return any(isinstance(value, Range) for values in tasks.values() for value in _choices(values))


def _number(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise TaskError(f"a task has the value {value!r}; each feature of a task is one finite number.")
    return number


def _names(sets: Mapping[str, Sequence[Task]]) -> list[str]:
    """Return the features of the tasks, the same in all.

    Raises:
        TaskError: they differ.
    """
    names = list(sets["training"][0])
    for name, tasks in sets.items():
        for task in tasks:
            if set(task) != set(names):
                raise TaskError(
                    f"a training task has the features {', '.join(names) or 'none'}, and one of {name} has "
                    f"{', '.join(task) or 'none'}; all tasks must have the same."
                )
    return names


def _feature(name: str, sets: Mapping[str, TaskSet], listed: Mapping[str, Sequence[Task]]) -> Feature:
    """Return a feature that takes whatever lies between the ends of its sets, and anything where a function draws."""
    if any(callable(tasks) for tasks in sets.values()):
        return Feature(name, "", -math.inf)
    values = list(_ends(name, sets, listed))
    return Feature(name, "", min(values), high=max(values))


def _ends(name: str, sets: Mapping[str, TaskSet], listed: Mapping[str, Sequence[Task]]) -> Iterator[float]:
    for set_name, tasks in sets.items():
        yield from (task[name] for task in listed[set_name])
        for value in _choices(tasks[name]) if isinstance(tasks, Mapping) else ():
            if isinstance(value, Range):
                yield from (value.low, value.high)
