"""The episodes of n robots of a TOML file: what they read, what they are paid and when they end; one is n = 1."""

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
    """The state of one simulation, as that of n = 1."""

    def __init__(self, data: mujoco.MjData) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:
        """Return a field, (1, ...), a view."""
        self.__dict__[name] = field = getattr(self._data, name)[None]
        return field


class Episodes:
    """The episodes of n robots.

    Args:
        robot: what the file says.
        now: the state of the simulations.
        simulation: returns a simulation's model and data by its number, for a reward that is a function of a user's.
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
        self._memory = np.ones((rows, robot.memory))
        self._sums, self._steps = np.zeros((rows, len(robot.metrics))), np.zeros(rows, np.int64)
        self.over = np.zeros(rows, bool)
        """Robots whose episode the file's `end` ended in the last step, (n,)."""
        self._code = TaskCode.of(robot.tasks.features, robot.tasks.sets["training"])
        self._codes = np.zeros((rows, self._code.size), np.float32)
        for measure in (robot.reward, robot.is_over, *robot.metrics.values()):
            measure(now, self._actions)  # a batch computes, from then on, the fields that were asked for once
        self.observe(), self.privileged()

    @property
    def _actions(self) -> Numbers:
        """The actions that were applied last, (n, A), a view."""
        return self._memory[:, -self._robot.action.size :]

    def set_task(self, row: int, task: Task) -> None:
        """Take in the task of a robot."""
        self._codes[row] = self._code.encode([task])[0]

    def begin(self, rows: Sequence[int] | np.ndarray, rngs: Sequence[np.random.Generator]) -> tuple[Numbers, Numbers]:
        """Begin episodes of some robots, each by its generator: return their positions (k, nq), velocities (k, nv)."""
        self._sums[rows], self._steps[rows], self.over[rows], self._memory[rows] = 0.0, 0, False, 0.0
        self._memory[rows, 0] = 1.0
        for row, rng in zip(rows, rngs, strict=True):
            commands = self._robot.draw_commands(rng)
            self._memory[row, 1 : 1 + len(commands)] = commands
        return self._robot.starts(rngs)

    def remember(self) -> None:
        """Put into MuJoCo's `userdata` what is not physics: a mark, the commands and the last actions."""
        self._now.userdata[:, -self._memory.shape[1] :] = self._memory

    def controls(self, actions: np.ndarray) -> Numbers:
        """Take in actions (n, A), cut off at -1 and 1, and return MuJoCo's controls for them, (n, A).

        Raises:
            SamiError: they have another shape, or are not finite.
        """
        size = self._robot.action.size
        if actions.shape != (len(self._steps), size) or not np.isfinite(actions).all():
            raise SamiError(
                f"the action is {actions.tolist()}; {self._robot.name} takes {size} finite numbers. Check the policy "
                "that produced it."
            )
        self._actions[:] = np.clip(actions, -1.0, 1.0)
        return self._robot.control(self._actions)

    @property
    def unstable(self) -> NDArray[np.bool_]:
        """Simulations that blew up: not finite, or begun anew by MuJoCo, which forgets the mark; (n,)."""
        now, finite = self._now, np.isfinite
        marked = now.userdata[:, -self._memory.shape[1]] == 1.0
        return ~(marked & finite(now.qpos).all(axis=1) & finite(now.qvel).all(axis=1))

    def step(self) -> Numbers:
        """Take in the states that the last actions led to; return the rewards (n,)."""
        self.remember()
        robot, now, actions = self._robot, self._now, self._actions
        self._steps += 1
        for column, value in enumerate(robot.metrics.values()):
            self._sums[:, column] += value(now, actions)
        self.over = robot.is_over(now, actions) > 0.0
        if robot.reward_function is None:
            return robot.reward(now, actions)
        return np.array([float(robot.reward_function(*self._simulation(row))) for row in range(len(actions))])

    @property
    def metrics(self) -> dict[str, Numbers]:
        """The file's metrics of the episodes so far, by name, (n,) each."""
        means = self._sums / np.maximum(self._steps, 1)[:, None]
        return dict(zip(self._robot.metrics, means.T, strict=True))

    def observe(self) -> NDArray[np.float32]:
        """Return what the policy reads, (n, D)."""
        return self._read(self._robot.readings)

    def privileged(self) -> NDArray[np.float32]:
        """Return what only training knows, (n, P): the file's `[privileged]`, and the task as numbers."""
        return np.concatenate([self.hidden(), self._codes], axis=1)

    def hidden(self) -> NDArray[np.float32]:
        """Return the file's `[privileged]`, (n, P)."""
        return self._read(self._robot.privileged)

    def _read(self, readings: Sequence[MujocoSignal]) -> NDArray[np.float32]:
        parts = [getattr(self._now, reading.field)[:, reading.indices] for reading in readings]
        return np.concatenate([np.empty((len(self._steps), 0)), *parts], axis=1).astype(np.float32)
