"""UserEnv: a user's Gymnasium environment with tasks, in the form that training, evaluation and runs use."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sami_runtime.errors import SamiError
from sami_train.envs.measure import SUCCESS
from sami_train.envs.plain import bare
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task, Tasks, draw


class UserEnv(gym.Env[Any, np.ndarray]):
    """The user's environment with a task in each episode, actions from -1 to 1, and observations in float32.

    Args:
        spec: its specification.
        tasks: a set's name, a task, or several to draw from; ranges and functions give each reset a new one by seed.
        render_mode: the render mode of the user's environment.

    Raises:
        TaskError, UnknownName, SamiError: the tasks are invalid, or the environment cannot be created.
    """

    metadata = {"render_modes": ["human", "rgb_array"]}  # noqa: RUF012 (to ask for; an instance has the user's own)

    def __init__(self, spec: EnvironmentSpec, tasks: Tasks = "training", render_mode: str | None = None) -> None:
        assert spec.plain is not None, spec.name
        self.environment, self.plain, self.space = spec, spec.plain, spec.tasks
        resolved = self.space.resolve(tasks)
        self._draw = self.space.drawn.get(tasks) if isinstance(tasks, str) else None
        self.tasks: tuple[Task, ...] = () if self._draw else resolved
        """The tasks to draw from; empty if each episode draws a new one."""
        self.env = bare(self.plain.open(render_mode))
        self.render_mode, self.metadata = render_mode, self.env.metadata
        self.observation_space = _float32(self.env.observation_space)
        action: Any = self.env.action_space
        self._low, self._high = np.ravel(action.low).astype(np.float64), np.ravel(action.high).astype(np.float64)
        self._shape, self._dtype = action.shape, action.dtype
        self._unit = bool((self._low == -1.0).all() and (self._high == 1.0).all())
        self.action_space = spaces.Box(-1.0, 1.0, (len(self._low),), np.float32)
        self.current_task: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in a drawn task or in `options["task"]`; the user's environment gets the other options."""
        super().reset(seed=seed)
        rest = dict(options or {})
        task = rest.pop("task", None)
        if task is None:
            (rng,) = self.np_random.spawn(1)  # another stream than the one that draws the start
            task = self._draw(rng) if self._draw else draw(self.tasks, rng)
        self.current_task = dict(self.space.check(task))
        if self.plain.set_task is not None:
            self.plain.set_task(self.env, dict(self.current_task))
        observation, info = self.env.reset(seed=seed, options=rest or None)
        return _flat(observation), {**info, "task": dict(self.current_task)}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply one action (A,) from -1 to 1, rescaled to the range of the user's environment.

        Raises:
            SamiError: policies are judged by success, but `info` has no `is_success`.
        """
        unit = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        native = unit if self._unit else self._low + (unit + 1.0) / 2.0 * (self._high - self._low)
        native = native.astype(self._dtype).reshape(self._shape)
        observation, reward, terminated, truncated, info = self.env.step(native)
        if self.environment.measure is SUCCESS and "is_success" not in info:
            raise SamiError(
                f"{self.environment.name} is judged by success, but its info has no is_success after a step; add it, "
                'or judge it by its return (measure="return").'
            )
        info = {**info, "task": dict(self.current_task)}
        return _flat(observation), float(reward), bool(terminated), bool(truncated), info

    def set_dynamics(self, task: Task) -> None:
        """Give the environment the physics of a task in the middle of an episode.

        Raises:
            SamiError: the spec has no `set_dynamics`, or the task is invalid.
        """
        self.environment.require_changes()
        assert self.plain.set_dynamics is not None
        self.current_task = dict(self.space.check(task))
        self.plain.set_dynamics(self.env, dict(self.current_task))

    def render(self) -> Any:
        """Return the user's environment's rendering."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def _flat(observation: Any) -> Any:
    """Return an observation whose arrays are float32 vectors."""
    if isinstance(observation, dict):
        return {key: np.ravel(value).astype(np.float32) for key, value in observation.items()}
    return np.ravel(observation).astype(np.float32)


def _float32(space: Any) -> spaces.Space[Any]:
    """Return the space of these float32 observations."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _float32(entry) for key, entry in space.items()})
    low, high = (np.ravel(end).astype(np.float32) for end in (space.low, space.high))
    return spaces.Box(low, high, dtype=np.float32)
