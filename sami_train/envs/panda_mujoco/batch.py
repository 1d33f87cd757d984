"""Many Pandas in MuJoCo, each in its own task, stepped by native threads."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_train.envs.mujoco.batch import Rows
from sami_train.envs.panda.entry import PANDA
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.panda_mujoco.model import SUBSTEPS, dynamics
from sami_train.envs.panda_mujoco.world import GOAL, World
from sami_train.envs.tasks import Tasks


class PandaMujocoBatch(Rows):
    """n Pandas in n tasks, with the sparse reward.

    With the same seed and actions, a row and `PandaMujocoEnv` go through the same episode, bit for bit.

    >>> batch = PandaMujocoBatch(2)
    >>> observations = batch.reset(seeds=[0, 1], tasks=[{"mass": 1.0, "friction": 1.0}, {"mass": 5.0, "friction": 0.1}])
    >>> observations, rewards = batch.step(np.zeros((2, 4), np.float32))
    >>> observations.shape, rewards.tolist(), batch.terminated.tolist()
    ((2, 25), [-1.0, -1.0], [False, False])

    Args:
        rows, tasks, threads: see `Rows`.
        episode_steps: length of an episode; the paper's if None.

    Raises:
        TaskError, UnknownName: the tasks are not valid.
    """

    def __init__(
        self, rows: int, tasks: Tasks = "training", episode_steps: int | None = None, threads: int = 0
    ) -> None:
        self.world = world = World()
        steps = episode_steps or PANDA.episode_steps
        super().__init__(world.model, rows, PANDA_TASKS, tasks, steps, threads, partial(dynamics, world.model))
        self.goals = np.zeros((rows, 3))
        """Goal of each row [m], (n, 3)."""

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Rows whose cube is at its goal, or whose simulation blew up, (n,)."""
        return self.unstable | GOAL.reached(self.observations()[:, GOAL.achieved], self.goals)

    def _start(self, ids: np.ndarray, rngs: list[np.random.Generator]) -> None:
        qpos = np.empty((len(ids), self.world.model.nq))
        for k, (i, rng) in enumerate(zip(ids, rngs, strict=True)):
            qpos[k], self.goals[i] = self.world.start(rng)
        self._place(ids, qpos, 0.0)

    def observations(self) -> np.ndarray:
        """Return the rows' present observations, (n, 25) float32."""
        return np.stack([self.world.observe(*row) for row in zip(self._qpos, self._qvel, self.goals, strict=True)])

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step all rows by actions (n, 4), clipped to [-1, 1], also rows whose episode is over; the caller resets them.

        Returns:
            Observations (n, 25) float32 and rewards (n,): 0 if the cube is at the goal, else -1.

        Raises:
            SamiError: the actions have another shape, or one is not finite.
        """
        if len(actions) != self.rows:
            raise SamiError(f"got {len(actions)} actions for {self.rows} Pandas, expected one for each.")
        targets = np.stack([self.world.targets(*row) for row in zip(self._qpos, self._qvel, actions, strict=True)])
        for _ in range(SUBSTEPS):
            self.world.drive(self._qpos, self._qvel, targets)
            self._batch.step()
        self.steps += 1
        self._recover()
        observations = self.observations()
        return observations, -(self.unstable | ~GOAL.reached(observations[:, GOAL.achieved], self.goals)).astype(float)
