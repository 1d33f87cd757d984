"""One MuJoCo environment, as Gymnasium knows environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

from sami_train.envs.mujoco.camera import RENDER_MODES, Filmed
from sami_train.envs.mujoco.rewards import RobotStep
from sami_train.envs.mujoco.robot import Robot
from sami_train.envs.mujoco.table import find_row
from sami_train.envs.tasks import Task, draw


class MujocoSkillEnv(Filmed, gym.Env[np.ndarray, np.ndarray]):
    """A robot whose links' mass, joints' damping and crippled parts change from task to task (paper, appendix C.2).

    The observation is a flat float32 vector, see `Body.signals`; the action is in [-1, 1] for every motor. The episode
    never terminates: Gymnasium's time limit truncates it after the paper's number of steps.

    Args:
        name: of the environment, e.g. `"half-cheetah"`; Gymnasium's ids fill it in.
        tasks: the set to draw from at each reset (`"training"`, `"moderate"`, `"extreme"`), one task as
            `{"mass": scale, "damping": scale, "crippled": [parts]}`, or a sequence of tasks.
        render_mode: None, `"rgb_array"` (no display needed) or `"human"`.
        render_size: width and height of rendered images, in pixels.
        options: choices that results depend on, see `Options`.

    Raises:
        TaskError, UnknownName, SamiError: the tasks, the options or the render mode are not valid.
        SamiError: there is no display for `"human"`.
    """

    metadata = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012 (declared so by the base class)

    def __init__(
        self,
        name: str,
        tasks: str | Task | Sequence[Task] = "training",
        render_mode: str | None = None,
        render_size: tuple[int, int] = (480, 360),
        **options: Any,
    ) -> None:
        self.robot = Robot(find_row(name), options)
        self.space = self.robot.row.tasks
        self.tasks = self.space.resolve(tasks)
        self.metadata = {**self.metadata, "render_fps": round(self.robot.body.rate_hz)}
        self.model, self.data = self.robot.model, mujoco.MjData(self.robot.model)
        self._scratch = mujoco.MjData(self.model)
        self._colours = self.model.geom_rgba.copy()
        self.observation_space, self.action_space = self.robot.observation_space, self.robot.action_space
        self._film(self.model, self.data, render_mode, render_size)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode in a task drawn from the set, or in `options["task"]`; the same seed starts it alike."""
        super().reset(seed=seed)
        chosen = (options or {}).get("task")
        self.set_dynamics(self.space.check(chosen) if chosen is not None else draw(self.tasks, self.np_random))
        self._place(*self.robot.start(self.np_random))
        observation = self.robot.body.observe(self.data.qpos[None], self.data.qvel[None], np.zeros(1))
        self._show()
        return observation[0], {"task": dict(self.current_task)}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply one action (A,) for the environment's time step.

        Raises:
            SamiError: the action is not finite.
        """
        robot, data = self.robot, self.data
        control = robot.control(np.asarray(action)[None], self._mask)
        x, speed = data.qpos[:1].copy(), data.qvel[:1].copy()
        data.ctrl[:] = control[0]
        mujoco.mj_step(self.model, data, nstep=robot.body.frame_skip)
        info: dict[str, Any] = {"task": dict(self.current_task)}
        if robot.unstable(data.qvel[None])[0]:
            self._place(self.model.qpos0, np.zeros(self.model.nv))
            x = data.qpos[:1].copy()
            info["unstable"] = True
        qpos, qvel, mean_speed = data.qpos[None], data.qvel[None], (data.qpos[:1] - x) / robot.step_s
        contact = data.cfrc_ext[None] if robot.options.contact_cost else None
        reward = robot.reward(RobotStep(qpos, qvel, mean_speed, speed, control, contact))
        self._show()
        return robot.body.observe(qpos, qvel, mean_speed)[0], float(reward[0]), False, False, info

    def set_dynamics(self, task: Task) -> None:
        """Give the robot a task's mass, damping and crippled parts, also in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid.
        """
        self.current_task = self.space.check(task)
        for name, values in self.robot.dynamics(self.current_task).items():
            getattr(self.model, name)[:] = values
        mujoco.mj_setConst(self.model, self._scratch)
        self._mask = self.robot.mask(self.current_task)[None]
        if self._camera is not None:
            self._paint()

    def _paint(self) -> None:
        """Colour the links behind motors that do not obey red."""
        self.model.geom_rgba[:] = self._colours
        joints = self.model.actuator_trnid[self._mask[0] == 0.0, 0]
        silent = np.isin(self.model.geom_bodyid, self.model.jnt_bodyid[joints])
        self.model.geom_rgba[silent] = (0.9, 0.1, 0.1, 1.0)

    def _place(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel
        mujoco.mj_forward(self.model, self.data)
