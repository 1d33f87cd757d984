"""Wraps `MujocoBatch` as a vector environment of stable-baselines3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from sami_train.envs.mujoco.batch import MujocoBatch


class MujocoVecEnv(VecEnv):
    """A vector environment that draws a task at each reset, and resets a row in the step that ends its episode.

    `info["task"]` is the task of the step; a step that ends an episode also has stable-baselines3's
    `terminal_observation` and `TimeLimit.truncated`. `set_options({"task": ...})` sets the task of the next reset.

    Args:
        batch: what is stepped.
    """

    def __init__(self, batch: MujocoBatch) -> None:
        self.batch = batch
        self._actions = np.zeros((batch.rows, *batch.action_space.shape), np.float32)
        super().__init__(batch.rows, batch.observation_space, batch.action_space)

    def reset(self) -> VecEnvObs:
        """Begin an episode in every row."""
        tasks = [options.get("task") for options in self._options]
        observations = self.batch.reset(self._seeds, tasks)
        self.reset_infos = [{"task": task} for task in self.batch.current_tasks]
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions (n, A), which `step_wait` executes."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step every row."""
        batch = self.batch
        observations, rewards = batch.step(self._actions)
        infos: list[dict[str, Any]] = [{"task": task} for task in batch.current_tasks]
        over = batch.truncated
        if over.any():
            rows = np.flatnonzero(over)
            for row in rows:
                infos[row] |= {"terminal_observation": observations[row].copy(), "TimeLimit.truncated": True}
            observations[rows] = batch.reset(rows=rows)
            for row in rows:
                self.reset_infos[row] = {"task": batch.current_tasks[row]}
        return observations, rewards.astype(np.float32), over, infos

    def close(self) -> None:
        """Do nothing: the batch is freed with its last reference."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return rows' `render_mode`, or one of the batch's attributes (`current_tasks` gives each row its own)."""
        rows = list(self._get_indices(indices))
        if attr_name == "render_mode":
            return [None] * len(rows)
        if attr_name == "current_task":
            return [self.batch.current_tasks[row] for row in rows]
        return [getattr(self.batch, attr_name)] * len(rows)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of the batch; rows share them."""
        setattr(self.batch, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call one of the batch's methods that take a row (`set_dynamics`, `model`, `data`) for each of the rows."""
        method = getattr(self.batch, method_name)
        return [method(row, *method_args, **method_kwargs) for row in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Never: there are no single environments inside."""
        return [False] * len(list(self._get_indices(indices)))

    def get_images(self) -> Sequence[np.ndarray | None]:
        """None: a batch draws nothing."""
        return [None] * self.num_envs
