"""Panda with three heavier training tasks, and exploration that tips cubes: `sami train --env heavy_panda:PANDA`.

The gripper carries 17 kg. The paper's training tasks are lighter, or slide, so nothing teaches a policy to tip a cube
that can be neither lifted nor slid. Here cubes of 20 kg do; 30 kg and a friction of 30 stay unseen, as in the paper.
"""

import dataclasses

import numpy as np

from sami_train.envs.panda.entry import PANDA as PAPERS
from sami_train.envs.panda.reach import reach_action
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.tasks import TaskSpace

HAND, CUBE, GOAL = (PAPERS.layout.columns(name) for name in ("ee_position", "cube_position", "desired_goal"))
STEP_M = 0.05
"""How far an action of 1 moves the hand."""
BEHIND_M, ABOVE_M, LOW_M = 0.07, 0.10, 0.022
"""Where a push begins: so far behind the cube's middle, first above it, then low [m]."""
LIFT = {(0, 1): 0.5, (0, -1): 0.3, (1, 1): 0.3, (1, -1): 0.3}
"""Upward action of a push along an axis (0 x, 1 y) in a direction: the cube turns over its far edge."""
NOISE = 0.15
CARRIED_KG = 17.0
NEAR_M = 0.02
"""The script hands over to the policy when the hand is so close to the cube's middle."""


def tip_action(observation, rng):
    """Return an action (4,) towards tipping the cube by a quarter turn along the axis of the larger error, with noise.

    Args:
        observation: flat observation (25,).
        rng: where the noise comes from.
    """
    hand, cube, goal = observation[HAND], observation[CUBE], observation[GOAL]
    error = (goal - cube)[:2]
    axis = int(abs(error[1]) > abs(error[0]))
    direction = int(np.sign(error[axis])) or 1
    along = np.zeros(3)
    along[axis] = direction
    offset = hand - cube
    ahead, aside = offset @ along, offset[1 - axis]
    action = np.zeros(4)
    if -0.11 < ahead < -0.02 and abs(aside) < 0.02 and hand[2] < 0.075:  # at the cube: push, and lift a little
        action[:3] = along
        action[2] = LIFT[axis, direction] if ahead > -0.055 else np.clip((LOW_M - hand[2]) / STEP_M, -1, 1)
        action[1 - axis] = np.clip(-aside / STEP_M, -1, 1)
    else:
        start = cube - BEHIND_M * along
        distance = np.linalg.norm((hand - start)[:2])
        if distance > 0.03 and hand[2] < 0.085 and np.linalg.norm(offset[:2]) < 0.12 and ahead > -0.05:
            action[:3] = -0.5 * along  # off the cube, and up
            action[2] = 1.0
        else:
            height = ABOVE_M if distance > 0.02 else LOW_M
            action[:3] = np.clip((np.array([start[0], start[1], height]) - hand) / STEP_M, -1, 1)
    action[3] = -1.0
    action[:3] += rng.normal(0, NOISE, 3)
    return np.clip(action, -1, 1).astype(np.float32)


def explore(observation, rng, task):
    """Tip what the gripper cannot carry; reach for other cubes, and leave the rest to the policy."""
    if task["mass"] > CARRIED_KG:
        return tip_action(observation, rng)
    near = np.linalg.norm(observation[HAND] - observation[CUBE]) < NEAR_M
    return None if near else reach_action(observation, rng, task)


HEAVY = tuple({"mass": mass, "friction": friction} for mass in (20.0, 25.0) for friction in (1.0, 5.0, 10.0))
DEVELOPMENT = tuple({"mass": mass, "friction": friction} for mass in (15.0, 27.5) for friction in (3.0, 8.0))
"""Unseen tasks to choose by, which are none of the paper's."""
SETS = {
    **PANDA_TASKS.sets,
    "training": PANDA_TASKS.sets["training"] + HEAVY,
    "development": DEVELOPMENT,
}
PANDA = dataclasses.replace(
    PAPERS,
    name="heavy_panda:PANDA",
    id="sami/HeavyPanda-v0",
    tasks=TaskSpace(PANDA_TASKS.features, SETS),
    reach=explore,
)
