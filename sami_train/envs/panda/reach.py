"""A scripted reach towards the cube, for exploration in the first episodes of the Panda.

With uniformly random actions the arm touches the cube in about a quarter of the episodes, and hindsight goals teach
nothing if the cube does not move. After a few noisy steps towards the cube, it moves in most early episodes.
"""

from __future__ import annotations

import numpy as np

from sami_runtime.adapters.panda import PANDA_SOURCES
from sami_train.envs.layout import Layout
from sami_train.envs.tasks import Task

_LAYOUT = Layout(PANDA_SOURCES)
HAND, CUBE = _LAYOUT.columns("ee_position"), _LAYOUT.columns("cube_position")
ACTION_SCALE = 0.05
"""Displacement of the end effector for an action of 1 [m]."""


def reach_action(observation: np.ndarray, rng: np.random.Generator, task: Task) -> np.ndarray:
    """Return a noisy action (4,) for an observation (25,), towards the cube; the gripper moves at random."""
    towards = (observation[CUBE] - observation[HAND]) / ACTION_SCALE
    action = np.empty(4, dtype=np.float32)
    action[:3] = np.clip(towards, -1.0, 1.0) + rng.normal(0.0, 0.3, 3)
    action[3] = rng.uniform(-1.0, 1.0)
    return np.clip(action, -1.0, 1.0)
