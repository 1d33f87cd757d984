"""The base class of single MuJoCo environments whose tasks change the model."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sami_train.envs.mujoco.camera import RENDER_MODES, Filmed
from sami_train.envs.tasks import Task, Tasks, TaskSpace, draw

NO_RESET = int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
"""Flag of a model whose simulations stay as they are when they blow up: MuJoCo's own reset would hide it."""
LARGEST = 1e6
"""A position or velocity from this on [m, rad, m/s, rad/s] means that a simulation has blown up."""


def blown_up(qpos: np.ndarray, qvel: np.ndarray, fastest: float = LARGEST) -> NDArray[np.bool_]:
    """Return whether simulations at qpos (..., nq) and qvel (..., nv) have blown up, (...): a velocity is `fastest`."""
    return ~((np.abs(qpos).max(axis=-1) < LARGEST) & (np.abs(qvel).max(axis=-1) < fastest))  # so that NaN is too


class TaskEnv(Filmed, gym.Env[Any, np.ndarray]):
    """A model, a state, and tasks to draw from; observations are float32 vectors (D,), actions (A,) in [-1, 1].

    Args:
        model: the compiled model.
        space: the task space.
        tasks: the set to draw from at each reset, one task, or a sequence of tasks. A set of ranges, or a
            function, draws new values with the episode's seed.
        sizes: D and A.
        rate_hz: steps per second.
        render_mode: None, `"rgb_array"` (no display needed) or `"human"`.
        render_size: width and height of rendered images, in pixels.

    Raises:
        TaskError, UnknownName: the tasks or the render mode are not valid.
        SamiError: there is no display for `"human"`, or no OpenGL for `"rgb_array"`.
    """

    metadata = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012 (declared so by the base class)

    def __init__(
        self,
        model: mujoco.MjModel,
        space: TaskSpace,
        tasks: Tasks,
        sizes: tuple[int, int],
        rate_hz: float,
        render_mode: str | None,
        render_size: tuple[int, int],
    ) -> None:
        self.space, resolved = space, space.resolve(tasks)
        self._draw = space.drawn.get(tasks) if isinstance(tasks, str) else None
        self.tasks: tuple[Task, ...] = () if self._draw else tuple(resolved)
        """The tasks to draw from; empty for a set of ranges or a function, which has no finite list."""
        self.metadata = {**self.metadata, "render_fps": round(rate_hz)}
        model.opt.disableflags |= NO_RESET
        self.model, self.data = model, mujoco.MjData(model)
        self.observation_space: gym.Space[Any] = spaces.Box(-np.inf, np.inf, sizes[:1], np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, sizes[1:], np.float32)
        self._film(model, self.data, render_mode, render_size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in `options["task"]` or in a drawn task; the same seed gives the same task and state."""
        super().reset(seed=seed)
        task = (options or {}).get("task")
        if task is None:
            task = self._draw(self.np_random) if self._draw else draw(self.tasks, self.np_random)
        self.set_dynamics(task)
        beginning = self._begin()
        self._show()
        return beginning

    def set_dynamics(self, task: Task) -> None:
        """Change the model to a task."""
        raise NotImplementedError

    def _begin(self) -> tuple[Any, dict[str, Any]]:
        """Put the robot where an episode begins, and return the first observation and `info`."""
        raise NotImplementedError

    def _place(self, qpos: np.ndarray, qvel: np.ndarray | float) -> None:
        """Reset the simulation to positions (nq,) and velocities (nv,)."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel
        mujoco.mj_forward(self.model, self.data)

    def _recover(self, fastest: float = LARGEST, unstable: bool = False) -> bool:
        """Return whether the simulation is `unstable` or `blown_up`; if so, reset it to the model's initial pose."""
        if unstable := bool(unstable or blown_up(self.data.qpos, self.data.qvel, fastest)):
            self._place(self.model.qpos0, 0.0)
        return unstable
