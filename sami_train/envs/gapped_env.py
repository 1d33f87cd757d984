"""An environment seen through the gap between simulation and reality: training randomises it, evaluation measures."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.layout import flatten
from sami_train.envs.spec import EnvironmentSpec


class GappedEnv(gym.Wrapper, RecordConstructorArgs):
    """Disturbs what an environment observes and delays what it is told, as `Gapped` does it to an adapter.

    Reward, success and termination are those of the world as it is. The action of a step is the command: what an
    actuator with lag makes of it belongs to the dynamics.

    Args:
        env: one of this package's environments.
        spec: what the catalogue says of it.
        gap: what lies between.
        among: see `Gap.begin`: evaluation begins an episode with the same seed in each of several tasks.

    Raises:
        UnknownName, SamiError: the gap names a signal that is not there, or does not fit it.
    """

    def __init__(
        self, env: gym.Env[Any, Any], spec: EnvironmentSpec, gap: GapProfile, among: int | None = None
    ) -> None:
        RecordConstructorArgs.__init__(self, spec=spec, gap=gap, among=among)
        super().__init__(env)
        self.gap = Gap(gap, spec.signals, spec.action.size, 1.0 / spec.rate_hz)
        self._layout, self._among = spec.layout, among

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, and draw its gap by the same seed."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.gap.begin(seed, among=self._among)
        return self._seen(observation), info

    def step(self, action: np.ndarray) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment with what the actuators make of the action (A,)."""
        observation, reward, terminated, truncated, info = self.env.step(self.gap.actuate(np.asarray(action)))
        return self._seen(observation), reward, terminated, truncated, info

    def _seen(self, observation: Any) -> Any:
        """Return what arrived, laid out as the environment's own observation."""
        flat, order = flatten(observation), self._layout.order
        seen = flat.copy()
        seen[order], _ = self.gap.observe(flat[order])
        return self._layout.unflatten(seen)
