"""How a task is told in numbers, to a policy that is told it: the baseline `oracle`. No robot is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sami_train.envs.tasks import Crippled, Feature, Task


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
                values = [_number(feature, task) for task in tasks]
                spans[feature.name] = (min(values), max(values))
        return cls(tuple(features), spans)

    @property
    def size(self) -> int:
        """How many numbers tell a task, C."""
        return sum(len(feature.parts) if isinstance(feature, Crippled) else 1 for feature in self.features)

    def tell(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return the numbers (n, C) of n tasks: -1 to 1 between the training tasks' extremes, beyond them further out.

        A feature that training never varied is told by how far it is from its value there.

        Raises:
            TaskError: a task lacks a feature, or its value is not valid.
        """
        codes = [[number for feature in self.features for number in self._numbers(feature, task)] for task in tasks]
        return np.array(codes, np.float32).reshape(len(tasks), self.size)

    def _numbers(self, feature: Feature | Crippled, task: Task) -> list[float]:
        if isinstance(feature, Crippled):
            silent = feature.check(task.get(feature.name, feature.default))
            return [float(part in silent) for part in range(len(feature.parts))]
        low, high = self.spans[feature.name]
        return [(_number(feature, task) - (low + high) / 2) / ((high - low) / 2 or 1.0)]


def _number(feature: Feature, task: Task) -> float:
    return feature.check(task.get(feature.name, feature.default))
