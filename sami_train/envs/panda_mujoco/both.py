"""The Panda's task in two physics engines, one of which each reset draws."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sami_runtime.errors import AdapterError
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.panda_mujoco.env import PandaMujocoEnv
from sami_train.envs.tasks import Task, Tasks

try:
    from sami_train.envs.panda.env import PandaSkillEnv
except ModuleNotFoundError as error:
    raise AdapterError(
        f"environment 'panda-both' needs PyBullet beside MuJoCo, and {error.name} is not installed here. Use Python "
        "3.11, which both have wheels for, and install sami-rl[panda] there; or name panda or panda-mujoco."
    ) from error

ENGINES = ("pybullet", "mujoco")
"""Values of `info["engine"]` and `options["engine"]`."""
_ENGINE_SEED = 0x0B07
"""Separates the random draw of the engine from the draws of the first state, which are the same in both engines."""


class PandaBothEnv(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """`PandaSkillEnv` and `PandaMujocoEnv`, one of them drawn at each reset.

    A policy that succeeds in both does not exploit the artefacts of one engine. With the same seed and actions, an
    episode is the same, bit for bit, as in the environment of its engine.

    Raises:
        TaskError, UnknownName, SamiError: an argument is not valid.
    """

    metadata = PandaMujocoEnv.metadata

    def __init__(self, tasks: Tasks = "training", **arguments: Any) -> None:
        self.tasks = PANDA_TASKS.resolve(tasks)
        self.engines: dict[str, PandaSkillEnv | PandaMujocoEnv] = {
            "pybullet": PandaSkillEnv(tasks, **arguments),
            "mujoco": PandaMujocoEnv(tasks, **arguments),
        }
        self.engine = ENGINES[0]
        """The engine of this episode."""
        self.render_mode = arguments.get("render_mode")
        self.observation_space, self.action_space = self.now.observation_space, self.now.action_space
        self._engine_rng = np.random.default_rng()

    @property
    def now(self) -> PandaSkillEnv | PandaMujocoEnv:
        """The environment of this episode."""
        return self.engines[self.engine]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode in the engine `options["engine"]`, or in a drawn engine, as its environment does."""
        if seed is not None:
            self._engine_rng = np.random.default_rng((_ENGINE_SEED, seed))
        engine = ENGINES[int(self._engine_rng.integers(len(ENGINES)))]
        inner_options = dict(options or {})
        self.engine = inner_options.pop("engine", engine)
        return self.now.reset(seed=seed, options=inner_options or None)

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Apply one action (4,) for 40 ms."""
        return self.now.step(action)

    def set_dynamics(self, task: Task) -> None:
        """Set the cube's mass [kg] and the table's lateral friction, also in the middle of an episode."""
        self.now.set_dynamics(task)

    def skill(self) -> str:
        """Return the skill in the present state."""
        return self.now.skill()

    def render(self) -> Any:
        """Return an image (H, W, 3) for `"rgb_array"`."""
        return self.now.render()

    def close(self) -> None:
        """Close the environments of both engines."""
        for engine in self.engines.values():
            engine.close()
