"""A single Go2 as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from sami_train.envs.go2.entry import GO2, MOTORS
from sami_train.envs.go2.robot import FRAME_SKIP, UNSTABLE, Go2Robot, Physics, Walks
from sami_train.envs.mujoco.task_env import TaskEnv
from sami_train.envs.tasks import Task, Tasks


class Go2Env(TaskEnv):
    """A Go2 that follows velocity commands, see `GO2.signals`; a fall ends the episode.

    `info["metrics"]` has the metrics of the episode so far. In images the link of a crippled motor is red.

    Args:
        tasks, render_mode, render_size: see `TaskEnv`; a task is a dictionary such as `{"payload": 5.0}`.

    Raises:
        TaskError, UnknownName, SamiError: as `TaskEnv`.
    """

    def __init__(
        self, tasks: Tasks = "training", render_mode: str | None = None, render_size: tuple[int, int] = (480, 360)
    ) -> None:
        self.robot = robot = Go2Robot()
        sizes, self._colours = (GO2.layout.size, len(MOTORS)), robot.model.geom_rgba.copy()
        super().__init__(robot.model, GO2.tasks, tasks, sizes, GO2.rate_hz, render_mode, render_size)
        self.walks = Walks(self.robot, 1)
        data = self.data
        self._physics = Physics(data.qpos[None], data.qvel[None], data.geom_xpos[None], data.actuator_force[None])

    def _begin(self) -> tuple[np.ndarray, dict[str, Any]]:
        self._place(*self.robot.start(self.np_random))
        self.robot.forget_targets(self.data.history[None])
        self.walks.begin([0], [self.np_random], self.data.qvel[None])
        return self.walks.observe(self._physics)[0], {"task": dict(self.current_task)}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply an action (12,) for 20 ms; raises `SamiError` if it has another shape or is not finite."""
        actions = np.asarray(action)[None]
        self.data.ctrl[:] = self.robot.targets(actions)[0]
        mujoco.mj_step(self.model, self.data, nstep=FRAME_SKIP)
        reward, fallen = self.walks.step(self._physics, actions, np.array([self._recover(UNSTABLE)]))
        self._show()
        metrics = {name: float(values[0]) for name, values in self.walks.metrics.items()}
        info = {"task": dict(self.current_task), "metrics": metrics}
        return self.walks.observe(self._physics)[0], float(reward[0]), bool(fallen[0]), False, info

    def set_dynamics(self, task: Task) -> None:
        """Apply a task's payload, friction, motors and delay; this is allowed in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid.
        """
        self.current_task = self.space.check(task)
        self.robot.dynamics.apply(self.robot.changes(self.current_task))
        if self._camera is not None:
            colours, crippled = self._colours.copy(), [MOTORS[motor] for motor in self.current_task["crippled"]]
            bodies = [self.model.body(motor).id for motor in crippled]
            colours[np.isin(self.model.geom_bodyid, bodies)] = (0.9, 0.1, 0.1, 1.0)
            colours[self.model.geom("payload").id, 3] = float(self.current_task["payload"] > 0.0)
            self.model.geom_rgba[:] = colours
