"""Many MuJoCo environments of one kind, each in a task of its own, stepped by native threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from gymnasium.utils.seeding import np_random
from mujoco.batch import Batch
from numpy.typing import NDArray

from sami_train.envs.mujoco.rewards import Motion
from sami_train.envs.mujoco.robot import Robot
from sami_train.envs.mujoco.table import find_row
from sami_train.envs.tasks import Task, draw
from sami_train.machine.cores import usable_cores

_SKIP = int(mujoco.mjtStage.mjSTAGE_NONE)


class MujocoBatch:
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
        self.rows, self.space = rows, robot.row.tasks
        self.tasks = self.space.resolve(tasks)
        self.observation_space, self.action_space = robot.observation_space, robot.action_space
        self.episode_steps = episode_steps or robot.row.episode_steps
        self._batch = Batch(robot.model, rows, threads or usable_cores())
        self._qpos, self._qvel, self._ctrl = (self._batch.bind(field) for field in ("qpos", "qvel", "ctrl"))
        self._contact = self._batch.bind("cfrc_ext") if robot.options.contact_cost else None
        self._fields = {field: self._batch.expand(field) for field in robot.dynamics(self.tasks[0])}
        self._mask = np.ones((rows, robot.model.nu))
        self._speed = np.zeros(rows)
        self._rngs = [np_random()[0] for _ in range(rows)]
        self.current_tasks: list[Task] = [{}] * rows
        """The task of each row."""
        self.steps = np.zeros(rows, np.int64)
        """Steps of each row's episode so far, (n,)."""
        self.unstable = np.zeros(rows, bool)
        """Rows whose simulation blew up in the last step and was put back to the robot's first pose, (n,)."""

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Rows whose episode is over by time, (n,); no episode ends otherwise."""
        return self.steps >= self.episode_steps

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
        ids = np.arange(self.rows) if rows is None else np.asarray(rows, np.int64)
        seeds = [None] * len(ids) if seeds is None else seeds
        given = [None if task is None else self.space.check(task) for task in tasks or [None] * len(ids)]
        qpos, qvel = np.empty((len(ids), self.robot.model.nq)), np.empty((len(ids), self.robot.model.nv))
        for k, (i, seed, task) in enumerate(zip(ids, seeds, given, strict=True)):
            if seed is not None:
                self._rngs[i] = np_random(int(seed))[0]
            self._set_fields(i, self.space.check(draw(self.tasks, self._rngs[i])) if task is None else task)
            qpos[k], qvel[k] = self.robot.start(self._rngs[i])
        self._batch.set_const(ids)
        self._place(ids, qpos, qvel)
        self.steps[ids] = 0
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
        motion = Motion(self._qpos, self._qvel, self._speed, speed, control, self._contact)
        return self.observations(), self.robot.reward(motion)

    def set_dynamics(self, row: int, task: Task) -> None:
        """Give one row a task's mass, damping and crippled parts, also in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid.
        """
        self._set_fields(row, self.space.check(task))
        self._batch.set_const([row])

    def model(self, row: int) -> mujoco.MjModel:
        """Return a copy of one row's model, to read or render it."""
        return self._batch.get_model(row)

    def data(self, row: int) -> mujoco.MjData:
        """Return a copy of one row's state; run mj_forward for what follows from it."""
        return self._batch.get_data(row)

    def _set_fields(self, i: int, task: Task) -> None:
        for name, values in self.robot.dynamics(task).items():
            self._fields[name][i] = values
        self._mask[i] = self.robot.mask(task)
        self.current_tasks[i] = task

    def _place(self, ids: np.ndarray, qpos: np.ndarray, qvel: np.ndarray | float) -> None:
        self._batch.reset(ids, stage=_SKIP)
        self._qpos[ids], self._qvel[ids] = qpos, qvel
