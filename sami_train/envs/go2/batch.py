"""Many Go2s, each in its own task, stepped by native threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sami_train.envs.go2.entry import GO2
from sami_train.envs.go2.robot import FRAME_SKIP, UNSTABLE, Go2Robot, Physics, Walks
from sami_train.envs.mujoco.batch import TeacherRows
from sami_train.envs.tasks import Task, Tasks

PUSH = np.array([0.6, 0.6, 0.2, 0.5, 0.5, 0.5])
"""Largest change by a push of the trunk's velocity [m/s] and angular velocity [rad/s]."""


class Go2Batch(TeacherRows):
    """n Go2s in n tasks.

    With the same seed and actions, a row and `Go2Env` go through the same episode, bit for bit.

    >>> batch = Go2Batch(2)
    >>> observations = batch.reset(seeds=[0, 1], tasks=[{}, {"payload": 5.0, "crippled": [2]}])
    >>> observations, rewards = batch.step(np.zeros((2, 12), np.float32))
    >>> observations.shape, batch.terminated.tolist(), sorted(batch.metrics)
    ((2, 45), [False, False], ['falls', 'power', 'tracking_error', 'yaw_error'])

    Args:
        rows, tasks, threads: see `Rows`.
        episode_steps: length of an episode; that of `GO2` if None.

    Raises:
        TaskError, UnknownName: the tasks are not valid.
    """

    def __init__(
        self, rows: int, tasks: Tasks = "training", episode_steps: int | None = None, threads: int = 0
    ) -> None:
        self.robot = robot = Go2Robot()
        steps = episode_steps or GO2.episode_steps
        super().__init__(
            robot.model, rows, GO2.tasks, tasks, steps, threads, lambda task: robot.dynamics.fields(robot.changes(task))
        )
        bind = self._batch.bind
        self._ctrl, self._history = bind("ctrl"), bind("history")
        self._physics = Physics(self._qpos, self._qvel, *map(bind, ("geom_xpos", "actuator_force")))
        self.walks = Walks(robot, rows)
        self._codes = np.zeros((rows, robot.code.size), np.float32)

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Rows whose robot fell in the last step, (n,)."""
        return self.walks.fallen

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """Metrics of the rows' episodes so far, by name, (n,) each; see `GO2.metrics`."""
        return self.walks.metrics

    def _start(self, ids: np.ndarray, rngs: list[np.random.Generator]) -> None:
        qpos, qvel = (np.stack(part) for part in zip(*map(self.robot.start, rngs), strict=True))
        self._place(ids, qpos, qvel)
        history = self._history[ids]
        self.robot.forget_targets(history)
        self._history[ids] = history
        self.walks.begin(ids, rngs, qvel)

    def push(self, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Push the trunk in some rows: add a uniform random change of at most `PUSH` to its velocity."""
        self._qvel[rows, :6] += rng.uniform(-1.0, 1.0, (len(rows), 6)) * PUSH

    def observations(self) -> np.ndarray:
        """Return the rows' present observations, (n, 45) float32."""
        return self.walks.observe(self._physics)

    def privileged(self) -> np.ndarray:
        """Return privileged information for training's critic, (n, P) float32: `Walks.hidden` and the task's code."""
        return np.concatenate([self.walks.hidden(self._physics), self._codes], axis=1)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step all rows by actions (n, 12) in [-1, 1], also rows whose episode is over; the caller resets them.

        Returns:
            Observations (n, 45) float32 and rewards (n,).

        Raises:
            SamiError: the actions have another shape, or one is not finite.
        """
        self._ctrl[:] = self.robot.targets(actions)
        self._batch.step(nstep=FRAME_SKIP)
        self.steps += 1
        self._recover(UNSTABLE)
        rewards, _ = self.walks.step(self._physics, actions, self.unstable)
        return self.observations(), rewards

    def _set_task(self, i: int, task: Task) -> None:
        super()._set_task(i, task)
        self._codes[i] = self.robot.code.encode([task])[0]
