"""Tasks that a policy never trained in, from the range that it did: what a probe is fitted to and judged by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.task_numbers import FeatureScale
from sami_train.envs.tasks import Crippled, Feature, Task, TaskSpace

SETS = ("training", "moderate")
"""Whose range tasks are drawn from: what the paper calls extreme lies beyond, and some of it cannot be solved."""


def known_range(space: TaskSpace) -> tuple[Task, ...]:
    """Return the tasks that span the range."""
    return tuple(task for name in SETS if name in space.sets for task in space.sets[name])


def varying(space: TaskSpace) -> list[FeatureScale | Crippled]:
    """Return what can be told of tasks: the features by which those of the range differ.

    Raises:
        SamiError: there is none.
    """
    tasks, features = known_range(space), list[FeatureScale | Crippled]()
    for feature in space.features:
        if isinstance(feature, Crippled):
            if len(set(map(str, _silent(feature, tasks)))) > 1:
                features.append(feature)
        elif (scale := FeatureScale.of(feature, tasks)).varies:
            features.append(scale)
    if not features:
        raise SamiError(
            "the environment's tasks do not differ by any feature: there is nothing that a probe could tell."
        )
    return features


def unseen_tasks(space: TaskSpace, count: int, seed: int) -> list[Task]:
    """Draw tasks: each number uniformly on its scale, each set of crippled parts as the range has them.

    Args:
        space: of the environment; where its training tasks have no end, they are drawn as training draws them.
        count: how many.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    if (draw := space.drawn.get("training")) is not None:
        return [space.check(draw(rng)) for _ in range(count)]
    tasks = known_range(space)
    return [
        space.check({feature.name: _drawn(feature, tasks, rng) for feature in space.features}) for _ in range(count)
    ]


def _drawn(feature: Feature | Crippled, tasks: Sequence[Task], rng: np.random.Generator) -> float | list[int]:
    if isinstance(feature, Crippled):
        silent = list({str(parts): parts for parts in _silent(feature, tasks)}.values())
        return silent[int(rng.integers(len(silent)))]
    scale = FeatureScale.of(feature, tasks)
    low, high = scale.place([scale.low, scale.high])
    # Rounding must not leave the range.
    return float(np.clip(scale.value(rng.uniform(low, high)), scale.low, scale.high))


def _silent(feature: Crippled, tasks: Sequence[Task]) -> list[list[int]]:
    return [feature.check(task.get(feature.name, feature.default)) for task in tasks]
