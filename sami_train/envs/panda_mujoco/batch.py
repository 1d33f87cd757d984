"""Many of MuJoCo's Pandas, each in a task of its own, stepped by native threads."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
from gymnasium.utils.seeding import np_random
from mujoco.batch import Batch
from numpy.typing import NDArray

from sami_train.envs.panda.entry import PANDA
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.panda_mujoco.model import SUBSTEPS, dynamics
from sami_train.envs.panda_mujoco.world import GOAL, World
from sami_train.envs.tasks import Task, draw
from sami_train.machine.cores import usable_cores

_SKIP = int(mujoco.mjtStage.mjSTAGE_NONE)


class PandaMujocoBatch:
    """n Pandas in n tasks, with the sparse reward.

    A row that is reset with a seed goes through the same episode, bit for bit, as `PandaMujocoEnv` reset with it.

    >>> batch = PandaMujocoBatch(2)
    >>> observations = batch.reset(seeds=[0, 1], tasks=[{"mass": 1.0, "friction": 1.0}, {"mass": 5.0, "friction": 0.1}])
    >>> observations, rewards = batch.step(np.zeros((2, 4), np.float32))
    >>> observations.shape, rewards.tolist(), batch.terminated.tolist()
    ((2, 25), [-1.0, -1.0], [False, False])

    Args:
        rows: n.
        tasks: the set to draw from at a reset, one task, or a sequence of tasks; see `PandaMujocoEnv`.
        episode_steps: length of an episode; the paper's if None.
        threads: of the simulation; 0 is one for each core that this process may use.

    Raises:
        TaskError, UnknownName: the tasks are not valid.
    """

    def __init__(
        self,
        rows: int,
        tasks: str | Task | Sequence[Task] = "training",
        episode_steps: int | None = None,
        threads: int = 0,
    ) -> None:
        self.world, self.rows = World(), rows
        self.tasks = PANDA_TASKS.resolve(tasks)
        self.observation_space, self.action_space = self.world.observation_space, self.world.action_space
        self.episode_steps = episode_steps or PANDA.episode_steps
        self._batch = Batch(self.world.model, rows, threads or usable_cores())
        self._qpos, self._qvel = self._batch.bind("qpos"), self._batch.bind("qvel")
        self._fields = {name: self._batch.expand(name) for name in dynamics(self.world.model, self.tasks[0])}
        self._rngs = [np_random()[0] for _ in range(rows)]
        self.goals = np.zeros((rows, 3))
        """Of each row [m], (n, 3)."""
        self.current_tasks: list[Task] = [{}] * rows
        """The task of each row."""
        self.steps = np.zeros(rows, np.int64)
        """Steps of each row's episode so far, (n,)."""

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Rows whose cube is at its goal, (n,)."""
        return GOAL.reached(self.observations()[:, GOAL.achieved], self.goals)

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Rows whose episode is over by time, (n,)."""
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
            Observations (len(rows), 25) float32.

        Raises:
            TaskError, UnknownName: a task is not valid.
        """
        ids = np.arange(self.rows) if rows is None else np.asarray(rows, np.int64)
        seeds = [None] * len(ids) if seeds is None else seeds
        given = [None if task is None else PANDA_TASKS.check(task) for task in tasks or [None] * len(ids)]
        qpos = np.empty((len(ids), self.world.model.nq))
        for k, (i, seed, task) in enumerate(zip(ids, seeds, given, strict=True)):
            if seed is not None:
                self._rngs[i] = np_random(int(seed))[0]
            self._set_fields(i, PANDA_TASKS.check(draw(self.tasks, self._rngs[i])) if task is None else task)
            qpos[k], self.goals[i] = self.world.start(self._rngs[i])
        self._batch.set_const(ids)
        self._batch.reset(ids, stage=_SKIP)
        self._qpos[ids], self._qvel[ids] = qpos, 0.0
        self.steps[ids] = 0
        return self.observations()[ids]

    def observations(self) -> np.ndarray:
        """Return what the rows observe now, (n, 25) float32."""
        return self.world.observe(self._qpos, self._qvel, self.goals)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step all rows, also those whose episode is over; it is up to the caller to reset them.

        Args:
            actions: (n, 4), in [-1, 1].

        Returns:
            Observations (n, 25) float32 and rewards (n,): -1 until the goal is reached.

        Raises:
            SamiError: an action is not finite.
        """
        targets = self.world.targets(self._qpos, self._qvel, actions)
        for _ in range(SUBSTEPS):
            self.world.drive(self._qpos, self._qvel, targets)
            self._batch.step()
        self.steps += 1
        observations = self.observations()
        return observations, -(~GOAL.reached(observations[:, GOAL.achieved], self.goals)).astype(np.float64)

    def set_dynamics(self, row: int, task: Task) -> None:
        """Give one row a task's mass and friction, also in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid.
        """
        self._set_fields(row, PANDA_TASKS.check(task))
        self._batch.set_const([row])

    def model(self, row: int) -> mujoco.MjModel:
        """Return a copy of one row's model, to read or render it."""
        return self._batch.get_model(row)

    def data(self, row: int) -> mujoco.MjData:
        """Return a copy of one row's state; run mj_forward for what follows from it."""
        return self._batch.get_data(row)

    def _set_fields(self, i: int, task: Task) -> None:
        for name, values in dynamics(self.world.model, task).items():
            self._fields[name][i] = values
        self.current_tasks[i] = task
