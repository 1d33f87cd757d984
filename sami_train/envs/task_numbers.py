"""Tasks as numbers: the scales on which features are compared, and the input of the baseline `oracle`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_train.envs.tasks import Crippled, Feature, Task

Wide = NDArray[np.float64]

RATIO = 5.0
"""Least ratio of a feature's largest to its smallest value for a logarithmic scale."""


@dataclass(frozen=True)
class FeatureScale:
    """The range and scale of a numeric feature."""

    feature: Feature
    low: float
    high: float

    @classmethod
    def of(cls, feature: Feature, tasks: Sequence[Task]) -> FeatureScale:
        """Return a feature's range over these tasks."""
        values = [feature.of(task) for task in tasks]
        return cls(feature, min(values), max(values))

    @property
    def varies(self) -> bool:
        """Whether the tasks differ in this feature."""
        return self.high > self.low

    @property
    def logarithmic(self) -> bool:
        """Whether the scale is logarithmic."""
        return self.low > 0.0 and self.high / self.low >= RATIO

    def place(self, values: ArrayLike) -> Wide:
        """Return the positions of values on the scale: their logarithms, or the values; same shape."""
        values = np.asarray(values, np.float64)
        return np.log(values) if self.logarithmic else values

    def value(self, places: ArrayLike) -> Wide:
        """Return the values at these positions, the inverse of `place`; same shape."""
        return np.exp(places) if self.logarithmic else np.asarray(places, np.float64)


def standardised(features: Sequence[Feature | Crippled], tasks: Sequence[Task]) -> NDArray[np.float32]:
    """Return K tasks as numbers (K, M), each with mean 0 and standard deviation 1; constant numbers are left out.

    Numeric features count on their scale, each crippled part as 0 or 1.
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
    """A code of numbers for tasks: features scaled by the training tasks' extremes, crippled parts as 0 or 1."""

    features: tuple[Feature | Crippled, ...]
    spans: Mapping[str, tuple[float, float]]
    """Smallest and largest value of each numeric feature in the training tasks."""

    @classmethod
    def of(cls, features: Sequence[Feature | Crippled], tasks: Sequence[Task]) -> TaskCode:
        """Return the code with the extremes of these tasks.

        Raises:
            TaskError: a task lacks a feature, or its value is invalid.
        """
        spans = {}
        for feature in features:
            if not isinstance(feature, Crippled):
                values = [feature.of(task) for task in tasks]
                spans[feature.name] = (min(values), max(values))
        return cls(tuple(features), spans)

    @property
    def size(self) -> int:
        """Number C of numbers in a task's code."""
        return sum(len(feature.parts) if isinstance(feature, Crippled) else 1 for feature in self.features)

    def encode(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return the codes (n, C) of n tasks, linear in each value: -1 and 1 at the training tasks' extremes.

        Ranges drawn by ratio are linear too: trained oracles read them so. Constants are coded by the difference.

        Raises:
            TaskError: a task lacks a feature, or its value is invalid.
        """
        codes = [[number for feature in self.features for number in self._numbers(feature, task)] for task in tasks]
        return np.array(codes, np.float32).reshape(len(tasks), self.size)

    def _numbers(self, feature: Feature | Crippled, task: Task) -> list[float]:
        if isinstance(feature, Crippled):
            silent = feature.of(task)
            return [float(part in silent) for part in range(len(feature.parts))]
        low, high = self.spans[feature.name]
        return [(feature.of(task) - (low + high) / 2) / ((high - low) / 2 or 1.0)]
