"""Many copies of the robot of a user's TOML file, each in its own task, stepped by native threads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from sami_train.envs.mjcf.episodes import Episodes
from sami_train.envs.mjcf.robot import MjcfRobot
from sami_train.envs.mujoco.batch import TeacherRows
from sami_train.envs.tasks import Task, Tasks

_FORWARD = int(mujoco.mjtStage.mjSTAGE_ACC)


class MjcfBatch(TeacherRows):
    """n copies of a robot, each in its own task.

    With the same seed and actions, a row and `MjcfEnv` go through the same episode, bit for bit. Other arguments than
    the path of the TOML file: see `Rows`; without `episode_steps`, an episode has the file's length.

    Raises:
        TaskError, UnknownName, SamiError: the file or the tasks are not valid.
    """

    def __init__(
        self, path: str, rows: int, tasks: Tasks = "training", episode_steps: int | None = None, threads: int = 0
    ) -> None:
        self.robot = robot = MjcfRobot(Path(path))
        steps, whole = episode_steps or robot.described.episode_steps, robot.reward_function is not None
        super().__init__(robot.model, rows, robot.tasks, tasks, steps, threads, robot.dynamics.fields, whole)
        self._ctrl = self._batch.bind("ctrl")
        self.episodes = Episodes(robot, self._batch, lambda row: (self.model(row), self.data(row)), rows)

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Rows whose episode ended in the last step by an `end` of the file or a blow-up, (n,)."""
        return self.episodes.over

    @property
    def metrics(self) -> Mapping[str, NDArray[np.float64]]:
        """The file's metrics, each the mean over the steps of a row's episode so far, by name, (n,) each."""
        return self.episodes.metrics

    def observations(self) -> np.ndarray:
        """Return the rows' present observations, (n, D) float32."""
        return self.episodes.observe()

    def privileged(self) -> np.ndarray:
        """Return privileged information for training's critic, (n, P) float32; see `Episodes.privileged`."""
        return self.episodes.privileged()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step all rows; arguments, results and errors are those of `MujocoBatch.step`."""
        self._ctrl[:] = self.episodes.controls(np.asarray(actions, np.float64))
        self._batch.step(nstep=self.robot.frame_skip, stage=_FORWARD)
        self.steps += 1
        self._recover()
        rewards = self.episodes.step(self.unstable)
        return self.observations(), rewards

    def _start(self, ids: np.ndarray, rngs: list[np.random.Generator]) -> None:
        self._place(ids, *self.episodes.begin(ids, rngs))
        self._batch.forward(ids)
        self.episodes.remember()

    def _set_task(self, i: int, task: Task) -> None:
        super()._set_task(i, task)
        self.episodes.set_task(i, task)
