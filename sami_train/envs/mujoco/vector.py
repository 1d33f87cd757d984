"""`MujocoBatch` as a Gymnasium vector environment, what `gymnasium.make_vec` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_train.envs.mujoco.batch import MujocoBatch
from sami_train.envs.tasks import Task


class MujocoVectorEnv(VectorEnv[np.ndarray, np.ndarray, NDArray[Any]]):
    """Many environments, each in a task drawn at its resets; an episode that is over begins anew in the same step.

    Args:
        name: of the environment; Gymnasium's ids fill it in.
        num_envs: how many.
        tasks, threads, options: see `MujocoBatch`.
        max_episode_steps: length of an episode; the paper's if None.
        render_mode: None; a batch draws nothing.

    Raises:
        TaskError, UnknownName, SamiError: an argument is not valid.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012 (as the base class)

    def __init__(
        self,
        name: str,
        num_envs: int = 1,
        tasks: str | Task | Sequence[Task] = "training",
        max_episode_steps: int | None = None,
        threads: int = 0,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        if render_mode is not None:
            raise SamiError(f"render mode is {render_mode!r}; a batch draws nothing, make one environment instead.")
        self.batch = MujocoBatch(name, num_envs, tasks, max_episode_steps, threads, **options)
        self.num_envs, self.render_mode = num_envs, None
        self.single_observation_space, self.single_action_space = self.batch.observation_space, self.batch.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._tasks: dict[str, Any] = {}

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode in every row, or in those of `options["reset_mask"]`.

        Args:
            seed: of the first row, the others count on; or one for each row.
            options: `"task"` sets every row's task; `"reset_mask"` is a bool for each row.
        """
        chosen = options or {}
        mask = np.asarray(chosen.get("reset_mask", np.ones(self.num_envs, bool)), bool)
        rows = np.flatnonzero(mask)
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        observations = self.batch.observations()
        observations[rows] = self.batch.reset(
            seeds=None if seeds is None else [seeds[int(i)] for i in rows],
            tasks=[chosen["task"]] * len(rows) if "task" in chosen else None,
            rows=rows,
        )
        self._tell_tasks()
        return observations, {"task": self._tasks, "_task": mask}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Step every row with its action (n, A); `info["final_obs"]` and `info["final_info"]` tell of those over."""
        observations, rewards = self.batch.step(actions)
        truncated = self.batch.truncated
        info: dict[str, Any] = {}
        if truncated.any():
            rows = np.flatnonzero(truncated)
            for row in rows:
                final = {"final_obs": observations[row].copy(), "final_info": {"task": self.batch.current_tasks[row]}}
                info = self._add_info(info, final, int(row))
            observations[rows] = self.batch.reset(rows=rows)
            self._tell_tasks()
        info |= {"task": self._tasks, "_task": np.ones(self.num_envs, bool)}
        return observations, rewards, np.zeros(self.num_envs, bool), truncated, info

    def _tell_tasks(self) -> None:
        self._tasks = {}
        for row, task in enumerate(self.batch.current_tasks):
            self._tasks = self._add_info(self._tasks, dict(task), row)
