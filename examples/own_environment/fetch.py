"""Fetch pushes a cube of hidden mass over a table of hidden friction: `sami train --env fetch:PUSH`.

The unchanged Gymnasium-Robotics environment: `pip install gymnasium-robotics`, or this package's extra `robotics`.
"""

import gymnasium
import gymnasium_robotics
import numpy as np
from gymnasium_robotics.utils import mujoco_utils

from sami_train.envs import EnvironmentSpec, Goal, Range, signal

gymnasium.register_envs(gymnasium_robotics)

# Gymnasium-Robotics 1.4.2 compares joint types in a way that fails with MuJoCo 4; these do not compare types.
for _field in ("qpos", "qvel"):

    def _get(model, data, name, field=_field):
        return getattr(data.joint(name), field).copy()

    def _set(model, data, name, value, field=_field):
        getattr(data.joint(name), field)[:] = value

    setattr(mujoco_utils, f"get_joint_{_field}", _get)
    setattr(mujoco_utils, f"set_joint_{_field}", _set)


def set_task(env, task):
    """Set the cube's mass [kg] with its inertia, and its friction; called before each reset, and within an episode.

    It does not call MuJoCo's `mj_setConst` after the change of mass, because that would undo the gripper's weld.
    """
    model = env.unwrapped.model
    cube = model.body("object0")
    cube.inertia[:] *= task["mass"] / cube.mass[0]
    cube.mass[0] = task["mass"]
    geom = model.geom("object0")
    model.geom_priority[geom.id] = 1  # otherwise MuJoCo uses the larger friction of cube and table
    geom.friction[0] = task["friction"]


def reach(observation, rng, task):
    """Return a scripted, noisy action that pushes the cube towards its goal; half of the first episodes explore by it.

    The hand moves above a point behind the cube, down, then slowly forward. Half of such episodes succeed.

    Args:
        observation: Flat observation, (31,).
        rng: Source of the noise.
        task: Not used.

    Returns:
        The action (4,), within -1 and 1.
    """
    gripper, cube, goal = observation[0:3], observation[3:6], observation[28:31]
    way = (goal - cube) * [1.0, 1.0, 0.0]
    distance = max(float(np.linalg.norm(way)), 1e-6)
    way /= distance
    start = cube - 0.08 * way
    offset = float(np.linalg.norm((gripper - start)[:2]))
    if offset < 0.06 and gripper[2] < cube[2] + 0.03:
        move = 0.3 * (cube + way * (min(distance, 0.03) - 0.05) - gripper)
    else:
        move = start + [0.0, 0.0, 0.0 if offset < 0.03 else 0.1] - gripper
    noisy = np.clip(move / 0.05, -1.0, 1.0) + rng.normal(0.0, 0.15, 3)
    return np.append(noisy, 0.0).clip(-1.0, 1.0).astype(np.float32)


def _xyz(name, unit, meaning=""):
    return signal(name, unit, ["x", "y", "z"], meaning=meaning)


PUSH = EnvironmentSpec.from_gymnasium(
    "FetchPush-v4",
    tasks={
        "training": {"mass": Range(0.5, 4.0, log=True), "friction": Range(0.1, 1.0, log=True)},
        "moderate": {"mass": [0.3, 6.0], "friction": [0.07, 1.3]},
        "extreme": {"mass": [0.2, 8.0], "friction": [0.05, 1.6]},
    },
    set_task=set_task,
    set_dynamics=set_task,
    signals={
        "observation": [
            _xyz("gripper_position", "m"),
            _xyz("cube_position", "m"),
            _xyz("cube_from_gripper", "m"),
            signal("fingers", "m", ["right", "left"]),
            _xyz("cube_rotation", "rad"),
            _xyz("cube_motion", "m", "moved in one step, relative to the gripper"),
            _xyz("cube_turn", "rad", "turned in one step"),
            _xyz("gripper_motion", "m", "moved in one step"),
            signal("fingers_motion", "m", ["right", "left"], meaning="moved in one step"),
        ],
        "achieved_goal": [_xyz("achieved_goal", "m")],
        "desired_goal": [_xyz("desired_goal", "m")],
    },
    action=signal(
        "gripper_move", "1", ["dx", "dy", "dz", "fingers"], meaning="dx, dy, dz times 0.05 m; fingers stay shut"
    ),
    goal=Goal(
        slice(25, 28), slice(28, 31), threshold=0.05, lowest=0.4
    ),  # 5 cm; below 40 cm it has fallen off the table
    reach=reach,
    ends_early=False,
)
