"""An MJCF model as a Gymnasium environment whose hidden features change from task to task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium import spaces

from sami_runtime.errors import SamiError
from sami_train.envs.mjcf.robot import MjcfRobot
from sami_train.envs.mujoco.camera import RENDER_MODES, Filmed
from sami_train.envs.tasks import Task, draw

if TYPE_CHECKING:
    from sami_train.envs.spec import EnvironmentSpec

_BLOWN_UP = tuple(int(getattr(mujoco.mjtWarning, f"mjWARN_BAD{of}")) for of in ("QPOS", "QVEL", "QACC"))
"""Warnings with which MuJoCo begins a simulation that has blown up anew by itself."""


class MjcfEnv(Filmed, gym.Env[np.ndarray, np.ndarray]):
    """A user's robot. The observation is a flat float32 vector, see `MjcfRobot.readings`; the action is in [-1, 1].

    A simulation that blows up is put back to a starting pose, and `info["unstable"]` says so.

    Args:
        path: of the TOML file.
        tasks: the set to draw from at each reset, one task as `{"payload": 0.5}`, or a sequence of tasks. Ranges are
            drawn from anew, by the episode's seed.
        render_mode: None, `"rgb_array"` (no display needed) or `"human"`.
        render_size: width and height of rendered images, in pixels.

    Raises:
        TaskError, UnknownName, SamiError: the file, the tasks or the render mode are not valid.
        SamiError: there is no display for `"human"`.
    """

    metadata = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012 (declared so by the base class)

    def __init__(
        self,
        path: str,
        tasks: str | Task | Sequence[Task] = "training",
        render_mode: str | None = None,
        render_size: tuple[int, int] = (480, 360),
    ) -> None:
        self.robot = robot = MjcfRobot(Path(path))
        self.space = robot.tasks
        known = self.space.resolve(tasks)
        self._draw = self.space.drawn.get(tasks) if isinstance(tasks, str) else None
        self.tasks: tuple[Task, ...] = () if self._draw else known
        """What is drawn from; empty where it has no end."""
        self.metadata = {**self.metadata, "render_fps": round(robot.rate_hz)}
        self.model, self.data = robot.model, mujoco.MjData(robot.model)
        size = sum(reading.signal.size for reading in robot.readings)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (robot.action.size,), np.float32)
        self._film(self.model, self.data, render_mode, render_size)

    @property
    def environment(self) -> EnvironmentSpec:
        """What the catalogue says of it."""
        from sami_train.envs.catalog import environment

        return environment(str(self.robot.path))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode in a task drawn from the set, or in `options["task"]`; the same seed starts it alike."""
        super().reset(seed=seed)
        chosen = (options or {}).get("task")
        if chosen is None:
            chosen = self._draw(self.np_random) if self._draw else draw(self.tasks, self.np_random)
        self.set_dynamics(chosen)
        self._commands = self.robot.draw_commands(self.np_random)
        self.robot.start(self.data, self.np_random)
        self.robot.remember(self.data, self._commands, np.zeros(self.model.nu))
        self._sums, self._steps = dict.fromkeys((metric.name for metric in self.robot.described.metric), 0.0), 0
        self._show()
        return self.robot.observe(self.data), {"task": dict(self.current_task)}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply one action (A,) for the environment's time step; what lies beyond [-1, 1] is cut off.

        Raises:
            SamiError: the action has another shape, or is not finite.
        """
        action = np.asarray(action, np.float64)
        if action.shape != self.action_space.shape or not np.isfinite(action).all():
            raise SamiError(
                f"the action is {action.tolist()}; {self.robot.name} takes {self.robot.action.size} finite numbers. "
                "Check the policy that produced it."
            )
        action = action.clip(-1.0, 1.0)
        self.data.ctrl[:] = self.robot.control(action)
        mujoco.mj_step(self.model, self.data, nstep=self.robot.frame_skip)
        mujoco.mj_forward(self.model, self.data)  # sensors and frames of the state that was reached, not the one before
        info: dict[str, Any] = {"task": dict(self.current_task)}
        if self._unstable():
            self.robot.start(self.data, self.np_random)
            info["unstable"] = True
        self.robot.remember(self.data, self._commands, action)
        reward = self.robot.reward(self.data, action)
        self._steps += 1
        for name, value in self.robot.metrics(self.data, action).items():
            self._sums[name] += value
        if self._sums:
            info["metrics"] = {name: total / self._steps for name, total in self._sums.items()}
        self._show()
        return self.robot.observe(self.data), reward, self.robot.is_over(self.data, action), False, info

    def set_dynamics(self, task: Task) -> None:
        """Give the model a task's values, also in the middle of an episode.

        Raises:
            TaskError, UnknownName: the task is not valid.
        """
        self.current_task = self.space.check(task)
        self.robot.dynamics.apply(self.current_task)

    def _unstable(self) -> bool:
        """Whether the simulation has blown up in the last step."""
        warned = any(self.data.warning[warning].number for warning in _BLOWN_UP)
        return warned or not (np.isfinite(self.data.qpos).all() and np.isfinite(self.data.qvel).all())
