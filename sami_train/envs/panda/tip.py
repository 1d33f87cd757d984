"""A script that tips the cube towards its goal: exploration for tasks whose cube can be neither lifted nor slid."""

from __future__ import annotations

import numpy as np

from sami_runtime.adapters.panda import PANDA_SOURCES
from sami_train.envs.layout import Layout
from sami_train.envs.panda.reach import ACTION_SCALE, reach_action

_LAYOUT = Layout(PANDA_SOURCES)
_HAND, _CUBE, _GOAL = (_LAYOUT.columns(name) for name in ("ee_position", "cube_position", "desired_goal"))
_BEHIND_M, _ABOVE_M, _LOW_M = 0.07, 0.10, 0.022
"""Where a push begins: so far behind the cube's middle, first above it, then low [m]."""
_LIFT = {(0, 1): 0.5, (0, -1): 0.3, (1, 1): 0.3, (1, -1): 0.3}
"""Upward action of a push along an axis (0 x, 1 y) in a direction: the cube turns over its far edge."""
_NOISE = 0.15


def tip_action(observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an action (4,) towards tipping the cube by a quarter turn along the axis of the larger error, with noise.

    Args:
        observation: flat observation (25,).
        rng: where the noise comes from.
    """
    hand, cube, goal = observation[_HAND], observation[_CUBE], observation[_GOAL]
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
        action[2] = _LIFT[axis, direction] if ahead > -0.055 else np.clip((_LOW_M - hand[2]) / ACTION_SCALE, -1, 1)
        action[1 - axis] = np.clip(-aside / ACTION_SCALE, -1, 1)
    else:
        start = cube - _BEHIND_M * along
        distance = np.linalg.norm((hand - start)[:2])
        if distance > 0.03 and hand[2] < 0.085 and np.linalg.norm(offset[:2]) < 0.12 and ahead > -0.05:
            action[:3] = -0.5 * along  # off the cube, and up
            action[2] = 1.0
        else:
            height = _ABOVE_M if distance > 0.02 else _LOW_M
            action[:3] = np.clip((np.array([start[0], start[1], height]) - hand) / ACTION_SCALE, -1, 1)
    action[3] = -1.0
    action[:3] += rng.normal(0, _NOISE, 3)
    return np.clip(action, -1, 1).astype(np.float32)


def tip_or_reach(observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an action (4,): of `tip_action` in every second episode, as the goal's place decides, else `reach_action`.

    Args:
        observation: flat observation (25,).
        rng: where the noise comes from.
    """
    tips = int(abs(observation[_GOAL][0]) * 1e5) % 2
    return tip_action(observation, rng) if tips else reach_action(observation, rng)
