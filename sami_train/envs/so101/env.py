"""A single SO-101 with a cube as a Gymnasium environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.mjcf.description import Change
from sami_train.envs.mjcf.model import Dynamics
from sami_train.envs.mujoco.task_env import TaskEnv
from sami_train.envs.so101.entry import MOTORS, SO101
from sami_train.envs.so101.kinematics import HOME, STEP
from sami_train.envs.tasks import Task, Tasks

SUBSTEPS = 10
"""Simulation steps of 1/300 s per action."""
CLOSED = -0.1745
"""Angle of the closed gripper [rad]."""
_LEAST = 0.06
"""Smallest distance between the cube and its goal at the start of an episode [m]."""
_CHANGES = {"mass": Change(sets="body_mass", of=("cube",)), "friction": Change(sets="geom_friction", of=("cube",))}
assert SO101.goal is not None
_GOAL = SO101.goal


class SO101Env(TaskEnv):
    """Push a cube of unknown mass and friction to a goal, with an arm of unknown joint play; see `SO101.signals`.

    The reward is -1 until the cube is within 2.5 cm of its goal, which terminates the episode.

    Args:
        tasks, render_mode, render_size: see `TaskEnv`; a task is a dictionary such as
            `{"mass": 0.3, "friction": 0.5, "play": 0.02}`.

    Raises:
        TaskError, UnknownName, SamiError: as `TaskEnv`.
    """

    def __init__(
        self, tasks: Tasks = "training", render_mode: str | None = None, render_size: tuple[int, int] = (480, 360)
    ) -> None:
        model = mujoco.MjModel.from_xml_path(str(Path(__file__).with_name("so101.xml")))
        sizes = (SO101.layout.size, len(MOTORS))
        super().__init__(model, SO101.tasks, tasks, sizes, SO101.rate_hz, render_mode, render_size)
        self._dynamics = Dynamics(model, _CHANGES)
        self._angles = np.array([model.joint(name).qposadr[0] for name in MOTORS])
        self._plays = np.array([model.joint(f"{name}_play").id for name in MOTORS])
        self._low, self._high = np.array([model.joint(name).range for name in MOTORS]).T
        self._cube, self._gripper = model.joint("cube").qposadr[0], model.joint("gripper").qposadr[0]
        self._goal = np.zeros(2)

    def _begin(self) -> tuple[np.ndarray, dict[str, Any]]:
        data = self.data
        mujoco.mj_resetData(self.model, data)
        data.qpos[self._angles] = np.array(HOME) + self.np_random.uniform(-0.05, 0.05, len(MOTORS))
        data.qpos[self._gripper] = data.ctrl[-1] = CLOSED
        data.ctrl[: len(MOTORS)] = data.qpos[self._angles]
        place = self._goal = self._draw_place()
        while np.linalg.norm(place - self._goal) < _LEAST:
            place = self._draw_place()
        yaw = self.np_random.uniform(-np.pi, np.pi)
        data.qpos[self._cube : self._cube + 7] = [*place, 0.02, np.cos(yaw / 2.0), 0.0, 0.0, np.sin(yaw / 2.0)]
        data.mocap_pos[0, :2] = self._goal
        mujoco.mj_forward(self.model, data)
        return self._observe(), {"task": dict(self.current_task), "is_success": False}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Set the servos' targets to their present angles plus an action (4,) times `STEP`, and simulate 1/30 s.

        Raises:
            SamiError: the action has another shape, or is not finite.
        """
        action = np.asarray(action, dtype=np.float64)
        if action.shape != (len(MOTORS),) or not np.isfinite(action).all():
            raise SamiError(f"the action {action.tolist()} is not {len(MOTORS)} finite numbers; check the policy.")
        targets = self.data.qpos[self._angles] + STEP * np.clip(action, -1.0, 1.0)
        self.data.ctrl[: len(MOTORS)] = np.clip(targets, self._low, self._high)
        mujoco.mj_step(self.model, self.data, nstep=SUBSTEPS)
        unstable = self._recover()
        observation = self._observe()
        success = not unstable and bool(_GOAL.reached(observation[_GOAL.achieved], observation[_GOAL.desired]))
        self._show()
        info = {"task": dict(self.current_task), "is_success": success}
        return observation, -float(not success), success or unstable, False, info

    def set_dynamics(self, task: Task) -> None:
        """Set the cube's mass [kg] and friction and the joints' play [rad], also in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid; nothing was changed.
        """
        self.current_task = SO101.tasks.check(task)
        self._dynamics.apply({name: self.current_task[name] for name in _CHANGES})
        self.model.jnt_range[self._plays] = self.current_task["play"] / 2.0 * np.array([-1.0, 1.0])

    def _draw_place(self) -> np.ndarray:
        """Draw a position on the table in front of the arm, (2,) [m]."""
        radius, angle = self.np_random.uniform(0.15, 0.23), self.np_random.uniform(-0.5, 0.5)
        return np.array([0.0388353 + radius * np.cos(angle), radius * np.sin(angle)])

    def _observe(self) -> np.ndarray:
        """Return the observation, (10,) float32, in the order of `LAYOUT`."""
        qpos, at = self.data.qpos, self._cube
        w, x, y, z = qpos[at + 3 : at + 7]
        yaw = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        parts = (qpos[self._angles], qpos[at : at + 2], [np.cos(yaw), np.sin(yaw)], self._goal)
        return np.concatenate(parts).astype(np.float32)
