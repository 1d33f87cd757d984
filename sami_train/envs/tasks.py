"""Tasks: values of the environmental features (paper section 3), and the sets that they are drawn from."""

from __future__ import annotations

import itertools
import math
import operator
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sami_runtime.errors import SamiError, UnknownName
from sami_train import seeds

Task = Mapping[str, Any]
"""Values by environmental feature, e.g. ``{"mass": 1.5, "crippled": [3]}``: numbers, and lists of parts."""
Tasks = str | Task | Sequence[Task]
"""A set of tasks by its name, one task, or several."""


class TaskError(SamiError):
    """A task, or a set of tasks, that the environment does not accept."""


@dataclass(frozen=True)
class Feature:
    """One environmental feature and the values that it may take."""

    name: str
    unit: str
    low: float
    """Smallest valid value."""
    low_open: bool = False
    """Whether ``low`` itself is invalid."""
    default: float | None = None
    """Value in a task that does not name the feature; None if every task must name it."""
    high: float = math.inf
    """Largest valid value."""

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

    def of(self, task: Task) -> float:
        """Return the feature's value in a task, or its default, checked as by `check`."""
        return self.check(task.get(self.name, self.default))

    def _bounds(self) -> str:
        relation = "greater than" if self.low_open else "at least"
        low = "" if self.low == -math.inf else f" {relation} {self.low:g}"
        high = "" if self.high == math.inf else f"{' and' * bool(low)} at most {self.high:g}"
        return low + high + (f" {self.unit}" if self.unit and (low or high) else "")


@dataclass(frozen=True)
class Crippled:
    """The discrete feature: which parts of a robot are crippled, so that they ignore commands."""

    kind: str
    """What kind of part it is: joint or leg."""
    parts: tuple[str, ...]
    """Names of the parts; a task gives their numbers, counted from 0."""
    most: int
    """How many may be crippled at once."""
    motors: tuple[tuple[int, ...], ...] = ()
    """The motors of each part, as columns of the action; empty if crippling a part silences no motor."""
    name: ClassVar[str] = "crippled"
    default: ClassVar[tuple[int, ...]] = ()

    def check(self, value: Any) -> list[int]:
        """Return the parts' numbers in order.

        Raises:
            TaskError: a part does not exist or is named twice, or there are too many.
        """
        try:
            numbers = sorted(operator.index(number) for number in value)
        except TypeError:
            numbers = [-1]
        in_range = set(numbers) <= set(range(len(self.parts)))
        if not in_range or len(set(numbers)) < len(numbers) or len(numbers) > self.most:
            valid = ", ".join(f"{number} ({name})" for number, name in enumerate(self.parts))
            raise TaskError(
                f"crippled is {value!r}; it must be a list of at most {self.most} different {self.kind}s of: {valid}."
            )
        return numbers

    def of(self, task: Task) -> list[int]:
        """Return the numbers of the parts that are crippled in a task, checked as by `check`."""
        return self.check(task.get(self.name, self.default))


@dataclass(frozen=True)
class TaskSpace:
    """The features of an environment and its named sets of tasks."""

    features: tuple[Feature | Crippled, ...]
    sets: Mapping[str, tuple[Task, ...]]
    """Tasks by set; the paper's sets are ``training``, ``moderate`` and ``extreme``."""
    hint: str = ""
    """Advice for the error message, if a task cripples parts but the environment has no such feature."""
    drawn: Mapping[str, Callable[[np.random.Generator], Task]] = field(default_factory=dict)
    """Functions that draw a new task, for sets of ranges or a function; `sets` has `DRAWS` fixed examples of each."""
    remark: str = ""
    """A sentence for readers of results by task."""

    def changes(self, task: Task) -> Task:
        """Return the features of a checked task that differ from their defaults, or have none."""
        return {
            feature.name: task[feature.name]
            for feature in self.features
            if feature.default is None or feature.of(task) != feature.check(feature.default)
        }

    def training_tasks(self, count: int, seed: int) -> tuple[Task, ...]:
        """Return a run's training tasks: the training set, or `count` tasks drawn from its ranges by the run's seed.

        A fixed number of tasks, visited in turn as in the paper, lets a contrastive loss compare episodes of the same
        task.
        """
        if "training" not in self.drawn:
            return self.sets["training"]
        rng = np.random.default_rng((seed, count))
        return tuple(self.check(self.drawn["training"](rng)) for _ in range(count))

    def silent(self, task: Task) -> list[int]:
        """Return the motors that are crippled in a task, as columns of the action."""
        crippled = [feature for feature in self.features if isinstance(feature, Crippled) and feature.motors]
        return sorted(
            motor for feature in crippled for part in task.get(feature.name, ()) for motor in feature.motors[part]
        )

    def check(self, task: Task) -> Task:
        """Return the task with every feature given, numbers as floats.

        Raises:
            TaskError: a feature is missing or out of range.
            UnknownName: the environment has no such feature.
        """
        names = [feature.name for feature in self.features]
        for name in task:
            # An empty `crippled` is valid for every robot.
            if name not in names and not (name == Crippled.name and len(task[name]) == 0):
                raise UnknownName("environmental feature", name, names, self.hint if name == Crippled.name else "")
        missing = [feature.name for feature in self.features if feature.default is None and feature.name not in task]
        if missing:
            values = ", ".join(f"{name}={value}" for name, value in task.items()) or "without values"
            raise TaskError(f"task {values} lacks {', '.join(missing)}; a task needs a value of each.")
        return {feature.name: feature.of(task) for feature in self.features}

    def resolve(self, tasks: Tasks) -> tuple[Task, ...]:
        """Return the checked tasks of a set's name, one task, or several.

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


def parse_value(name: str, text: str) -> Any:
    """Return a feature's value: a number, or a list of crippled parts: `0+4`, `0,4` or `none`.

    An invalid text is returned unchanged, so that the feature's own check raises.
    """
    text = text.strip()
    try:
        if name != Crippled.name:
            return float(text)
        return [] if text == "none" else [int(part) for part in text.replace("+", ",").split(",")]
    except ValueError:
        return text


def draw(tasks: Sequence[Task], rng: np.random.Generator) -> Task:
    """Draw one task uniformly (the paper's distribution over tasks)."""
    return tasks[int(rng.integers(len(tasks)))]


DRAWS = 20
"""Number of fixed examples of a set given by ranges or a function, for evaluations and in-distribution references."""
DIGITS = 6
"""Significant digits of a drawn value, as many as tables show, so that a table shows the exact task."""


@dataclass(frozen=True)
class Range:
    """Values drawn uniformly from `low` to `high`; with `log`, uniformly in the logarithm.

    >>> Range(0.5, 2.0).draw(np.random.default_rng(0))
    1.45544

    Raises:
        TaskError: `low` is not below `high`, one of them is not finite, or `log` with a `low` of at most 0.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise TaskError(f"Range({self.low}, {self.high}) holds no value; give a low end below its high end.")
        if self.log and self.low <= 0.0:
            raise TaskError(f"Range({self.low}, {self.high}, log=True) must start above 0; leave out log=True.")

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
"""A task set as users write it, see `task_space`."""


def task_space(sets: Mapping[str, TaskSet] | TaskSpace | None) -> TaskSpace:
    """Return the task space of these sets; its features and their bounds follow from the sets' values.

    >>> task_space({"training": {"mass": [1.0, 2.0], "length": [0.5]}}).sets["training"]
    ({'mass': 1.0, 'length': 0.5}, {'mass': 2.0, 'length': 0.5})

    Args:
        sets: task sets by name, with `"training"` among them. Each is a sequence of tasks; a mapping from features to
            lists of values (their grid), or with any `Range` among the values (drawn); or a function from a random
            generator to a task. None is one task without features.

    Raises:
        TaskError: there is no training set, a set is empty, tasks differ in their features, or a value is not a finite
            number.
    """
    if isinstance(sets, TaskSpace):
        return sets
    if sets is None:
        return TaskSpace((), {"training": ({},)})
    if "training" not in sets:
        raise TaskError(f"the task sets are {', '.join(sets) or 'none'}; one of them must be named training.")
    listed: dict[str, tuple[Task, ...]] = {}
    samplers: dict[str, Callable[[np.random.Generator], Task]] = {}
    for name, tasks in sets.items():
        if callable(tasks):
            samplers[name] = _FromFunction(tasks, name)
        elif not isinstance(tasks, Mapping):
            listed[name] = tuple({key: _number(value) for key, value in task.items()} for task in tasks)
        else:
            choices = {feature: _choices(values) for feature, values in tasks.items()}
            if any(isinstance(value, Range) for values in choices.values() for value in values):
                samplers[name] = _FromRanges(choices)
            else:
                rows = itertools.product(*(map(_number, values) for values in choices.values()))
                listed[name] = tuple(dict(zip(choices, row, strict=True)) for row in rows)
        if name in samplers:
            rng = np.random.default_rng((seeds.TASK_RANGES, zlib.crc32(name.encode())))
            listed[name] = tuple(samplers[name](rng) for _ in range(DRAWS))
        if not listed[name]:
            raise TaskError(f"task set {name!r} holds no task; give at least one.")
    features = tuple(_feature(name, sets, listed) for name in _names(listed))
    return TaskSpace(features, listed, drawn=samplers)


@dataclass(frozen=True)
class _FromRanges:
    """Draws a task from ranges."""

    choices: Mapping[str, Sequence[float | Range]]

    def __call__(self, rng: np.random.Generator) -> Task:
        task = {}
        for name, values in self.choices.items():
            value = values[int(rng.integers(len(values)))] if len(values) > 1 else values[0]
            task[name] = value.draw(rng) if isinstance(value, Range) else _number(value)
        return task


@dataclass(frozen=True)
class _FromFunction:
    """A user's function, whose tasks are checked; a class, so that it can be pickled."""

    function: Callable[[np.random.Generator], Task]
    name: str

    def __call__(self, rng: np.random.Generator) -> Task:
        task = self.function(rng)
        if not isinstance(task, Mapping):
            raise TaskError(
                f"the function of task set {self.name!r} returned {task!r}; it must return numbers by feature, a dict."
            )
        return {key: _number(value) for key, value in task.items()}


def _choices(values: Range | Sequence[float | Range]) -> Sequence[Any]:
    if isinstance(values, (Range, int, float)):
        return (values,)
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, np.ndarray)) or not len(values):
        raise TaskError(f"a feature's values are {values!r}; give a list of numbers, or a Range(low, high).")
    return tuple(values)


def _number(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise TaskError(f"a task has the value {value!r}; each feature of a task must be a finite number.")
    return number


def _names(sets: Mapping[str, Sequence[Task]]) -> list[str]:
    """Return the features of the tasks; raise TaskError unless all tasks have the same."""
    names = list(sets["training"][0])
    for name, tasks in sets.items():
        for task in tasks:
            if set(task) != set(names):
                raise TaskError(
                    f"a training task has the features {', '.join(names) or 'none'}, but a task of set {name} has "
                    f"{', '.join(task) or 'none'}; all tasks must have the same features."
                )
    return names


def _feature(name: str, sets: Mapping[str, TaskSet], listed: Mapping[str, Sequence[Task]]) -> Feature:
    """Return a feature with the smallest and largest value of all sets as bounds; without bounds for a function."""
    ends: list[float] = []
    for set_name, tasks in sets.items():
        if callable(tasks):
            return Feature(name, "", -math.inf)
        ends += [task[name] for task in listed[set_name]]
        for value in _choices(tasks[name]) if isinstance(tasks, Mapping) else ():
            ends += [value.low, value.high] if isinstance(value, Range) else []
    return Feature(name, "", min(ends), high=max(ends))
