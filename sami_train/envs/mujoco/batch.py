"""Many MuJoCo environments of one kind, each in a task of its own, stepped by native threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_train.envs.mujoco.rewards import RobotStep
from sami_train.envs.mujoco.robot import Robot
from sami_train.envs.mujoco.rows import Rows
from sami_train.envs.mujoco.table import find_row
from sami_train.envs.tasks import Task


class MujocoBatch(Rows):
    """n robots in n tasks: what the vector environments are made of, and what a rollout steps.

    A row that is reset with a seed goes through the same episode, bit for bit, as `MujocoSkillEnv` reset with it.

    >>> batch = MujocoBatch("hopper", 2)
    >>> observations = batch.reset(seeds=[0, 1], tasks=[{"mass": 0.5, "damping": 1.0}, {"mass": 2.0, "damping": 1.0}])
    >>> observations, rewards = batch.step(np.zeros((2, 3), np.float32))
    >>> observations.shape, rewards.shape, batch.truncated.tolist()
    ((2, 11), (2,), [False, False])

    Args:
        name: of the environment, e.g. `"half-cheetah"`.
        rows: n.
        tasks: the set to draw from at a reset, one task, or a sequence of tasks; see `MujocoSkillEnv`.
        episode_steps: length of an episode; the paper's if None.
        threads: of the simulation; 0 is one for each core that this process may use.
        options: choices that results depend on, see `Options`.

    Raises:
        TaskError, UnknownName, SamiError: the tasks or the options are not valid.
    """

    def __init__(
        self,
        name: str,
        rows: int,
        tasks: str | Task | Sequence[Task] = "training",
        episode_steps: int | None = None,
        threads: int = 0,
        **options: Any,
    ) -> None:
        self.robot = robot = Robot(find_row(name), options)
        self.observation_space, self.action_space = robot.observation_space, robot.action_space
        steps = episode_steps or robot.row.episode_steps
        super().__init__(robot.model, rows, robot.row.tasks, tasks, steps, threads, robot.dynamics)
        self._ctrl = self._batch.bind("ctrl")
        self._contact = self._batch.bind("cfrc_ext") if robot.options.contact_cost else None
        self._mask = np.ones((rows, robot.model.nu))
        self._speed = np.zeros(rows)
        self.unstable = np.zeros(rows, bool)
        """Rows whose simulation blew up in the last step and was put back to the robot's first pose, (n,)."""

    def reset(
        self,
        seeds: Sequence[int | None] | None = None,
        tasks: Sequence[Task | None] | None = None,
        rows: Sequence[int] | np.ndarray | None = None,
    ) -> np.ndarray:
        """Begin new episodes.

        Args:
            seeds: one for each row that is reset; None goes on with the row's own generator.
            tasks: one for each row that is reset; None draws it.
            rows: which; all if None.

        Returns:
            Observations (len(rows), D) float32.

        Raises:
            TaskError, UnknownName: a task is not valid.
        """
        ids, rngs = self._begin(seeds, tasks, rows)
        qpos, qvel = np.empty((len(ids), self.robot.model.nq)), np.empty((len(ids), self.robot.model.nv))
        for k, rng in enumerate(rngs):
            qpos[k], qvel[k] = self.robot.start(rng)
        self._place(ids, qpos, qvel)
        self._speed[ids] = 0.0
        return self.observations()[ids]

    def observations(self) -> np.ndarray:
        """Return what the rows observe now, (n, D) float32."""
        return self.robot.body.observe(self._qpos, self._qvel, self._speed)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step all rows, also those whose episode is over; it is up to the caller to reset them.

        Args:
            actions: (n, A), in [-1, 1].

        Returns:
            Observations (n, D) float32 and rewards (n,).

        Raises:
            SamiError: an action is not finite.
        """
        control = self.robot.control(actions, self._mask)
        x, speed = self._qpos[:, 0].copy(), self._qvel[:, 0].copy()
        self._ctrl[:] = control
        self._batch.step(nstep=self.robot.body.frame_skip)
        self.steps += 1
        self.unstable = self.robot.unstable(self._qvel)
        if self.unstable.any():
            ids = np.flatnonzero(self.unstable)
            self._place(ids, self.robot.model.qpos0, 0.0)
            x[ids] = self._qpos[ids, 0]
        self._speed = (self._qpos[:, 0] - x) / self.robot.step_s
        motion = RobotStep(self._qpos, self._qvel, self._speed, speed, control, self._contact)
        return self.observations(), self.robot.reward(motion)

    def _set_task(self, i: int, task: Task) -> None:
        super()._set_task(i, task)
        self._mask[i] = self.robot.mask(task)
