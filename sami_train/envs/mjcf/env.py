"""An MJCF model as a Gymnasium environment whose hidden features change from task to task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from sami_train.envs.layout import PRIVILEGED
from sami_train.envs.mjcf.episodes import Episodes, SingleSimulation
from sami_train.envs.mjcf.robot import MjcfRobot
from sami_train.envs.mujoco.task_env import TaskEnv
from sami_train.envs.tasks import Task, Tasks

if TYPE_CHECKING:
    from sami_train.envs.spec import EnvironmentSpec


class MjcfEnv(TaskEnv):
    """A user's robot. The observation is a float32 vector (D,), see `MjcfRobot.readings`; the action (A,) in [-1, 1].

    A simulation that blows up terminates the episode, in the model's initial pose and with `info["unstable"]`.

    Other arguments than the path of the TOML file: see `TaskEnv`. A task is a dictionary such as `{"payload": 0.5}`.

    Raises:
        TaskError, UnknownName, SamiError: the file, the tasks or the render mode are not valid.
        SamiError: there is no display for `"human"`.
    """

    def __init__(
        self,
        path: str,
        tasks: Tasks = "training",
        render_mode: str | None = None,
        render_size: tuple[int, int] = (480, 360),
    ) -> None:
        self.robot = robot = MjcfRobot(Path(path))
        sizes = (sum(reading.signal.size for reading in robot.readings), robot.action.size)
        super().__init__(robot.model, robot.tasks, tasks, sizes, robot.rate_hz, render_mode, render_size)
        self.episodes = Episodes(robot, SingleSimulation(self.data), lambda row: (self.model, self.data), 1)

    @property
    def environment(self) -> EnvironmentSpec:
        """The catalogue's specification of this environment."""
        from sami_train.envs.catalog import environment

        return environment(str(self.robot.path))

    def _begin(self) -> tuple[np.ndarray, dict[str, Any]]:
        qpos, qvel = self.episodes.begin([0], [self.np_random])
        self._place(qpos[0], qvel[0])
        self.episodes.remember()
        return self.episodes.observe()[0], self._info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply one action (A,), clipped to [-1, 1], for one time step of the environment.

        Raises:
            SamiError: the action has another shape, or is not finite.
        """
        self.data.ctrl[:] = self.episodes.controls(np.asarray(action, np.float64)[None])[0]
        mujoco.mj_step(self.model, self.data, nstep=self.robot.frame_skip)
        mujoco.mj_forward(self.model, self.data)  # mj_step leaves sensors and frames one step behind the new state
        unstable = self._recover()
        reward = float(self.episodes.step(np.array([unstable]))[0])
        info = self._info() | ({"unstable": True} if unstable else {})
        if metrics := self.episodes.metrics:
            info["metrics"] = {name: float(values[0]) for name, values in metrics.items()}
        self._show()
        return self.episodes.observe()[0], reward, bool(self.episodes.over[0]), False, info

    def _info(self) -> dict[str, Any]:
        privileged = {PRIVILEGED: self.episodes.hidden()[0]} if self.robot.privileged else {}
        return {"task": dict(self.current_task), **privileged}

    def set_dynamics(self, task: Task) -> None:
        """Apply a task's values to the model; this is allowed in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid.
        """
        self.current_task = self.space.check(task)
        self.robot.dynamics.apply(self.current_task)
        self.episodes.set_task(0, self.current_task)
