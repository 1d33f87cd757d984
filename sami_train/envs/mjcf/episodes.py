"""Observations, rewards and ends of the episodes of n robots of a TOML file; a single environment has n = 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_train.envs.mjcf.model import MujocoSignal, Numbers, Simulations
from sami_train.envs.mjcf.robot import MjcfRobot
from sami_train.envs.task_numbers import TaskCode
from sami_train.envs.tasks import Task


class SingleSimulation:
    """Presents the state of a single simulation as that of n = 1 simulations."""

    def __init__(self, data: mujoco.MjData) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:
        """Return a view (1, ...) of a field of `MjData`."""
        self.__dict__[name] = field = getattr(self._data, name)[None]
        return field


class Episodes:
    """The episodes of n robots.

    Args:
        robot: the TOML file and its model.
        now: the state of the simulations.
        simulation: returns the model and data of a row, for a reward that is a user's function.
        rows: n.
    """

    def __init__(
        self,
        robot: MjcfRobot,
        now: Simulations,
        simulation: Callable[[int], tuple[mujoco.MjModel, mujoco.MjData]],
        rows: int,
    ) -> None:
        self._robot, self._now, self._simulation = robot, now, simulation
        self._memory = np.zeros((rows, robot.memory))
        self._sums, self._steps = np.zeros((rows, len(robot.metrics))), np.zeros(rows, np.int64)
        self.over = np.zeros(rows, bool)
        """Robots whose episode ended in the last step by an `end` of the file or a blow-up, (n,)."""
        self._code = TaskCode.of(robot.tasks.features, robot.tasks.sets["training"])
        self._codes = np.zeros((rows, self._code.size), np.float32)
        for measure in (robot.reward, robot.is_over, *robot.metrics.values()):
            measure(now, self._actions)  # a batch computes only fields that were read before: read each of them once
        self.observe(), self.privileged()

    @property
    def _actions(self) -> Numbers:
        """The last applied actions, (n, A), a view."""
        return self._memory[:, -self._robot.action.size :]

    def set_task(self, row: int, task: Task) -> None:
        """Store the code of a robot's task for `privileged`."""
        self._codes[row] = self._code.encode([task])[0]

    def begin(self, rows: Sequence[int] | np.ndarray, rngs: Sequence[np.random.Generator]) -> tuple[Numbers, Numbers]:
        """Begin episodes of k robots, one generator each; return their positions (k, nq) and velocities (k, nv)."""
        self._sums[rows], self._steps[rows], self.over[rows], self._memory[rows] = 0.0, 0, False, 0.0
        for row, rng in zip(rows, rngs, strict=True):
            commands = self._robot.draw_commands(rng)
            self._memory[row, : len(commands)] = commands
        return self._robot.starts(rngs)

    def remember(self) -> None:
        """Write the commands and the last actions into MuJoCo's `userdata`; see `MjcfRobot.memory`."""
        self._now.userdata[:, -self._memory.shape[1] :] = self._memory

    def controls(self, actions: np.ndarray) -> Numbers:
        """Store actions (n, A), clipped to [-1, 1], and return MuJoCo's controls for them, (n, A).

        Raises:
            SamiError: the actions have another shape, or one is not finite.
        """
        size = self._robot.action.size
        if actions.shape != (len(self._steps), size) or not np.isfinite(actions).all():
            raise SamiError(
                f"the action is {actions.tolist()}; {self._robot.name} takes {size} finite numbers. Check the policy "
                "that produced it."
            )
        self._actions[:] = np.clip(actions, -1.0, 1.0)
        return self._robot.control(self._actions)

    def step(self, unstable: NDArray[np.bool_]) -> Numbers:
        """Update metrics and ends after the last actions, ends also by `unstable` (n,); return the rewards (n,)."""
        self.remember()
        robot, now, actions = self._robot, self._now, self._actions
        self._steps += 1
        for column, value in enumerate(robot.metrics.values()):
            self._sums[:, column] += value(now, actions)
        self.over = unstable | (robot.is_over(now, actions) > 0.0)
        if robot.reward_function is None:
            return robot.reward(now, actions)
        return np.array([float(robot.reward_function(*self._simulation(row))) for row in range(len(actions))])

    @property
    def metrics(self) -> dict[str, Numbers]:
        """The file's metrics, each the mean over the steps of an episode so far, by name, (n,) each."""
        means = self._sums / np.maximum(self._steps, 1)[:, None]
        return dict(zip(self._robot.metrics, means.T, strict=True))

    def observe(self) -> NDArray[np.float32]:
        """Return what the policy observes, (n, D) float32."""
        return self._read(self._robot.readings)

    def privileged(self) -> NDArray[np.float32]:
        """Return the file's `[privileged]` and the code of the task, (n, P) float32, for training only."""
        return np.concatenate([self.hidden(), self._codes], axis=1)

    def hidden(self) -> NDArray[np.float32]:
        """Return only the file's `[privileged]`, (n, number of its columns) float32."""
        return self._read(self._robot.privileged)

    def _read(self, readings: Sequence[MujocoSignal]) -> NDArray[np.float32]:
        parts = [getattr(self._now, reading.field)[:, reading.indices] for reading in readings]
        return np.concatenate([np.empty((len(self._steps), 0)), *parts], axis=1).astype(np.float32)
