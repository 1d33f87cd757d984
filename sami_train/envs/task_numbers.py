"""Tasks as numbers: on which scale features are compared, and how a task is an input of the baseline `oracle`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_train.envs.tasks import Crippled, Feature, Task

Wide = NDArray[np.float64]

RATIO = 5.0
"""Of the largest value to the smallest, from which a feature's values are compared by their logarithms."""


@dataclass(frozen=True)
class FeatureScale:
    """The range of a feature that is a number."""

    feature: Feature
    low: float
    high: float

    @classmethod
    def of(cls, feature: Feature, tasks: Sequence[Task]) -> FeatureScale:
        """Return the range that a feature has in some tasks."""
        values = [feature.of(task) for task in tasks]
        return cls(feature, min(values), max(values))

    @property
    def varies(self) -> bool:
        """Whether tasks differ by it."""
        return self.high > self.low

    @property
    def logarithmic(self) -> bool:
        """Whether its values are compared by their logarithms."""
        return self.low > 0.0 and self.high / self.low >= RATIO

    def place(self, values: ArrayLike) -> Wide:
        """Return where values lie on the scale."""
        values = np.asarray(values, np.float64)
        return np.log(values) if self.logarithmic else values

    def value(self, places: ArrayLike) -> Wide:
        """Return the values of places; `place` undone."""
        return np.exp(places) if self.logarithmic else np.asarray(places, np.float64)


def standardised(features: Sequence[Feature | Crippled], tasks: Sequence[Task]) -> NDArray[np.float32]:
    """Return what tells tasks apart as numbers (K, M), each of mean 0 and deviation 1; none that is always the same.

    Args:
        features: of the environment: numbers on their scale, and 0 or 1 for each part that may be crippled.
        tasks: (K,).
    """
    columns: list[Wide] = []
    for feature in features:
        if isinstance(feature, Crippled):
            silent = [feature.of(task) for task in tasks]
            columns += [np.array([float(part in parts) for parts in silent]) for part in range(len(feature.parts))]
        else:
            columns.append(FeatureScale.of(feature, tasks).place([feature.of(task) for task in tasks]))
    scaled = [(column - column.mean()) / column.std() for column in columns if np.ptp(column) > 0]
    return np.array(scaled, np.float32).reshape(len(scaled), len(tasks)).T


@dataclass(frozen=True)
class TaskCode:
    """A task as numbers: each feature by where it lies between the training tasks' extremes, each part as 0 or 1."""

    features: tuple[Feature | Crippled, ...]
    spans: Mapping[str, tuple[float, float]]
    """Smallest and largest value in the training tasks, of each feature that is a number."""

    @classmethod
    def of(cls, features: Sequence[Feature | Crippled], tasks: Sequence[Task]) -> TaskCode:
        """Return the code by which tasks are told.

        Args:
            features: of the environment.
            tasks: those that are trained on.

        Raises:
            TaskError: a task lacks a feature, or its value is not valid.
        """
        spans = {}
        for feature in features:
            if not isinstance(feature, Crippled):
                values = [feature.of(task) for task in tasks]
                spans[feature.name] = (min(values), max(values))
        return cls(tuple(features), spans)

    @property
    def size(self) -> int:
        """How many numbers tell a task, C."""
        return sum(len(feature.parts) if isinstance(feature, Crippled) else 1 for feature in self.features)

    def encode(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return the numbers (n, C) of n tasks: -1 to 1 between the training tasks' extremes, beyond them further out.

        A feature that training never varied is told by how far it is from its value there.

        Raises:
            TaskError: a task lacks a feature, or its value is not valid.
        """
        codes = [[number for feature in self.features for number in self._numbers(feature, task)] for task in tasks]
        return np.array(codes, np.float32).reshape(len(tasks), self.size)

    def _numbers(self, feature: Feature | Crippled, task: Task) -> list[float]:
        if isinstance(feature, Crippled):
            silent = feature.of(task)
            return [float(part in silent) for part in range(len(feature.parts))]
        low, high = self.spans[feature.name]
        return [(feature.of(task) - (low + high) / 2) / ((high - low) / 2 or 1.0)]
