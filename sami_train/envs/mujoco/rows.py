"""What every batch of MuJoCo's robots keeps of its rows: tasks, random numbers and clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import mujoco
import numpy as np
from gymnasium.utils.seeding import np_random
from mujoco.batch import Batch
from numpy.typing import NDArray

from sami_train.envs.tasks import Task, TaskSpace, draw
from sami_train.machine import usable_cores

_SKIP = int(mujoco.mjtStage.mjSTAGE_NONE)


class Rows:
    """n robots of one model, each in a task of its own, stepped by native threads.

    Args:
        model: of all rows.
        rows: n.
        space: of the tasks.
        tasks: the set to draw from at a reset, one task, or a sequence of tasks.
        episode_steps: length of an episode.
        threads: of the simulation; 0 is one for each core that this process may use.
        dynamics: the model's fields that a task sets, by name.

    Raises:
        TaskError, UnknownName: the tasks are not valid.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        rows: int,
        space: TaskSpace,
        tasks: str | Task | Sequence[Task],
        episode_steps: int,
        threads: int,
        dynamics: Callable[[Task], Mapping[str, np.ndarray]],
    ) -> None:
        self.rows, self.space, self.tasks, self.episode_steps = rows, space, space.resolve(tasks), episode_steps
        self._batch = Batch(model, rows, threads or usable_cores())
        self._qpos, self._qvel = self._batch.bind("qpos"), self._batch.bind("qvel")
        self._dynamics = dynamics
        self._fields = {name: self._batch.expand(name) for name in dynamics(self.tasks[0])}
        self._rngs = [np_random()[0] for _ in range(rows)]
        self.current_tasks: list[Task] = [{}] * rows
        """The task of each row."""
        self.steps = np.zeros(rows, np.int64)
        """Steps of each row's episode so far, (n,)."""

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Rows whose episode is over by time, (n,)."""
        return self.steps >= self.episode_steps

    def set_dynamics(self, row: int, task: Task) -> None:
        """Give one row a task's dynamics, also in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid.
        """
        self._set_task(row, self.space.check(task))
        self._batch.set_const([row])

    def model(self, row: int) -> mujoco.MjModel:
        """Return a copy of one row's model, to read or render it."""
        return self._batch.get_model(row)

    def data(self, row: int) -> mujoco.MjData:
        """Return a copy of one row's state; run mj_forward for what follows from it."""
        return self._batch.get_data(row)

    def _begin(
        self,
        seeds: Sequence[int | None] | None,
        tasks: Sequence[Task | None] | None,
        rows: Sequence[int] | np.ndarray | None,
    ) -> tuple[np.ndarray, list[np.random.Generator]]:
        """Give rows seeds and tasks; return the rows' ids, and of each the generator that draws its start.

        Nothing is changed where a task is not valid.
        """
        ids = np.arange(self.rows) if rows is None else np.asarray(rows, np.int64)
        seeds = [None] * len(ids) if seeds is None else seeds
        checked = [None if task is None else self.space.check(task) for task in tasks or [None] * len(ids)]
        for i, seed, task in zip(ids, seeds, checked, strict=True):
            if seed is not None:
                self._rngs[i] = np_random(int(seed))[0]
            self._set_task(i, self.space.check(draw(self.tasks, self._rngs[i])) if task is None else task)
        self._batch.set_const(ids)
        self.steps[ids] = 0
        return ids, [self._rngs[i] for i in ids]

    def _set_task(self, i: int, task: Task) -> None:
        for name, values in self._dynamics(task).items():
            self._fields[name][i] = values
        self.current_tasks[i] = task

    def _place(self, ids: np.ndarray, qpos: np.ndarray, qvel: np.ndarray | float) -> None:
        self._batch.reset(ids, stage=_SKIP)
        self._qpos[ids], self._qvel[ids] = qpos, qvel
