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

TRUE_OBSERVATION = "true_observation"
"""Key of `info` by which an environment behind a gap tells what would have been observed without it, flat (D,)."""
GAP_SIZE = "gap_size"
"""Key of a reset's options that says how large the gap is, as a share of its profile."""


class GappedEnv(gym.Wrapper, RecordConstructorArgs):
    """Disturbs what an environment observes and delays what it is told, as `Gapped` does it to an adapter.

    Reward, success and termination are those of the world as it is. The action of a step is the command: what an
    actuator with lag makes of it belongs to the dynamics. `info` tells what would have been observed without the gap.

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
        self.gap = Gap(gap, spec.signals, spec.action.size, 1.0 / spec.rate_hz, elements=spec.action.elements)
        self._layout, self._among = spec.layout, among

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, and draw its gap by the same seed."""
        inner_options = dict(options or {})
        size = inner_options.pop(GAP_SIZE, 1.0)
        observation, info = self.env.reset(seed=seed, options=inner_options or None)
        self.gap.begin(seed, size, self._among)
        return self._seen(observation, info), info

    def change_gap(self, gap: GapProfile) -> None:
        """Go on behind another gap from the next step on, see `Gap.change`."""
        self.gap.change(gap)

    def step(self, action: np.ndarray) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment with what the actuators make of the action (A,)."""
        observation, reward, terminated, truncated, info = self.env.step(self.gap.actuate(np.asarray(action)))
        return self._seen(observation, info), reward, terminated, truncated, info

    def _seen(self, observation: Any, info: dict[str, Any]) -> Any:
        """Return what arrived, laid out as the environment's own observation; the truth goes into `info`."""
        flat, order = flatten(observation), self._layout.order
        seen = flat.copy()
        info[TRUE_OBSERVATION] = flat
        seen[order], _ = self.gap.observe(flat[order])
        return self._layout.unflatten(seen)
