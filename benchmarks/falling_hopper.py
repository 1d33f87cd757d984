"""Gymnasium's hopper with hidden mass, whose episode ends when it falls: `--env benchmarks.falling_hopper:HOPPER`.

It serves results/hopper-300k-windows, whose plan.md has the commands; learner_changes.py prints the table.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
import numpy as np

from sami_train.envs import EnvironmentSpec, Range
from sami_train.envs.tasks import Task


@cache
def original() -> dict[str, np.ndarray]:
    """Return the masses [kg] (B,) and inertias [kg m^2] (B, 3) of the bodies of Gymnasium's model."""
    model: Any = gymnasium.make("Hopper-v5").unwrapped.model  # type: ignore[attr-defined]
    return {"body_mass": model.body_mass.copy(), "body_inertia": model.body_inertia.copy()}


def set_mass(env: Any, task: Task) -> None:
    """Multiply the masses and inertias of all bodies by the task's mass, a factor; called before each reset."""
    for field, values in original().items():
        getattr(env.unwrapped.model, field)[:] = task["mass"] * values


HOPPER = EnvironmentSpec.from_gymnasium(
    "Hopper-v5",
    tasks={
        "training": {"mass": Range(0.75, 1.5, log=True)},
        "moderate": {"mass": [0.6, 1.8]},
        "extreme": {"mass": [0.4, 2.5]},
    },
    set_task=set_mass,
)
