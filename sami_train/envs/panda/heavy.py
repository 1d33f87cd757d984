"""The Panda with three training tasks whose cube is too heavy to lift, and a script that explores tipping it.

The gripper can lift 17 kg. The cubes in the paper's training tasks are lighter, so a policy never has to learn tipping.
Here it learns that from cubes of 25 kg; 30 kg and a friction of 30 remain unseen in training, as in the paper.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from sami_train.envs.panda.entry import PANDA
from sami_train.envs.panda.reach import ACTION_SCALE, CUBE, HAND, reach_action
from sami_train.envs.panda.tasks import PANDA_TASKS, grid
from sami_train.envs.tasks import Task, TaskSpace

_GOAL = PANDA.layout.columns("desired_goal")
_CARRIED_KG = 17.0
_BEHIND_M, _ABOVE_M, _LOW_M = 0.07, 0.10, 0.022
"""Start of a push [m]: distance behind the cube's centre, height of the approach, height of the push."""
_NEAR_M = 0.02
"""Distance of the hand from the centre of a liftable cube at which the script hands over to the policy [m]."""
_LIFT = {(0, 1): 0.5, (0, -1): 0.3, (1, 1): 0.3, (1, -1): 0.3}
"""Upward action while pushing, by (axis: 0 x, 1 y; direction), so that the cube turns over its far edge."""
_NOISE = 0.15


def tip_action(observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a noisy action (4,) for an observation (25,), to tip the cube along the axis of the larger error."""
    hand, cube, goal = observation[HAND], observation[CUBE], observation[_GOAL]
    error = (goal - cube)[:2]
    axis = int(abs(error[1]) > abs(error[0]))
    direction = int(np.sign(error[axis])) or 1
    along = np.zeros(3)
    along[axis] = direction
    offset = hand - cube
    ahead, sideways = offset @ along, offset[1 - axis]
    action = np.zeros(4)
    if -0.11 < ahead < -0.02 and abs(sideways) < 0.02 and hand[2] < 0.075:  # at the cube: push, and lift a little
        action[:3] = along
        action[2] = _LIFT[axis, direction] if ahead > -0.055 else np.clip((_LOW_M - hand[2]) / ACTION_SCALE, -1, 1)
        action[1 - axis] = np.clip(-sideways / ACTION_SCALE, -1, 1)
    else:
        start = cube - _BEHIND_M * along
        distance = np.linalg.norm((hand - start)[:2])
        if distance > 0.03 and hand[2] < 0.085 and np.linalg.norm(offset[:2]) < 0.12 and ahead > -0.05:
            action[:3] = -0.5 * along  # away from the cube, and up
            action[2] = 1.0
        else:
            height = _ABOVE_M if distance > 0.02 else _LOW_M
            action[:3] = np.clip((np.array([start[0], start[1], height]) - hand) / ACTION_SCALE, -1, 1)
    action[3] = -1.0
    action[:3] += rng.normal(0, _NOISE, 3)
    return np.clip(action, -1, 1).astype(np.float32)


def explore(observation: np.ndarray, rng: np.random.Generator, task: Task) -> np.ndarray | None:
    """Return an action (4,) that tips a heavy cube or reaches for a light one; None near the latter (policy acts)."""
    if float(task["mass"]) > _CARRIED_KG:
        return tip_action(observation, rng)
    near = np.linalg.norm(observation[HAND] - observation[CUBE]) < _NEAR_M
    return None if near else reach_action(observation, rng, task)


PANDA_HEAVY = dataclasses.replace(
    PANDA,
    name="panda-heavy",
    id="sami/PandaHeavy-v0",
    tasks=TaskSpace(
        PANDA_TASKS.features,
        {
            **PANDA_TASKS.sets,
            "training": PANDA_TASKS.sets["training"] + grid([25.0], [1.0, 5.0, 10.0]),
            "development": grid([15.0, 27.5], [3.0, 8.0]),
        },
        PANDA_TASKS.remark,
    ),
    reach=explore,
    hyperparameters={"fast-cpu": {"exploration.reach_steps": (6, 45)}},  # a tip takes a dozen steps
)
"""The paper's modified Panda Pick&Place (appendix C.1) with three heavier training tasks and a development set."""
