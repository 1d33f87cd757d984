"""Creates environments from their specification, with or without a sim-to-real profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.utils import RecordConstructorArgs

from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError
from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import ENVIRONMENTS
from sami_train.envs.layout import flatten
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task

TRUE_OBSERVATION = "true_observation"
"""Key of `info` with the undisturbed observation, flat (D,), in an environment with a sim-to-real profile."""
GAP_SIZE = "gap_size"
"""Key of a reset's options with the size of the episode's gap, as a fraction of the profile."""


class GappedEnv(gym.Wrapper, RecordConstructorArgs):
    """Disturbs an environment's observations and delays its actions, as `Gapped` does for an adapter.

    Reward, success and termination are those of the undisturbed world. The action of a step is the command; the lag of
    the actuators belongs to the dynamics. `info` has the undisturbed observation, see `TRUE_OBSERVATION`.

    Args:
        env: one of this package's environments.
        spec: its specification.
        gap: the sim-to-real profile.
        among: see `Gap.begin`: evaluation starts an episode with the same seed in each of several tasks.

    Raises:
        UnknownName, SamiError: the profile names an unknown signal, or does not fit its signal.
    """

    def __init__(
        self, env: gym.Env[Any, Any], spec: EnvironmentSpec, gap: GapProfile, among: int | None = None
    ) -> None:
        RecordConstructorArgs.__init__(self, spec=spec, gap=gap, among=among)
        super().__init__(env)
        self.gap = Gap(gap, spec.signals, spec.action.size, 1.0 / spec.rate_hz, elements=spec.action.elements)
        self._layout, self._among = spec.layout, among

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, and draw the values of its gap with the same seed."""
        inner_options = dict(options or {})
        size = inner_options.pop(GAP_SIZE, 1.0)
        observation, info = self.env.reset(seed=seed, options=inner_options or None)
        self.gap.begin(seed, size, self._among)
        return self._delivered(observation, info), info

    def step(self, action: np.ndarray) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment with the action (A,) as the profile's delay and actuators change it."""
        observation, reward, terminated, truncated, info = self.env.step(self.gap.actuate(np.asarray(action)))
        return self._delivered(observation, info), reward, terminated, truncated, info

    def _delivered(self, observation: Any, info: dict[str, Any]) -> Any:
        """Return the disturbed observation in the environment's own form; the undisturbed one goes into `info`."""
        flat, order = flatten(observation), self._layout.order
        delivered = flat.copy()
        info[TRUE_OBSERVATION] = flat
        delivered[order], _ = self.gap.observe(flat[order])
        return self._layout.unflatten(delivered)


class Batch(Protocol):
    """Many environments of one kind, each in a task of its own, stepped together."""

    rows: int
    """Number n of environments."""
    episode_steps: int

    @property
    def terminated(self) -> np.ndarray:
        """Whether the last step terminated each row's episode, bool (n,)."""

    @property
    def metrics(self) -> Mapping[str, np.ndarray]:
        """The metrics of the rows' episodes so far, by name, (n,) each; see `EnvironmentSpec.metrics`."""

    def reset(self, seeds: Sequence[int | None], tasks: Sequence[Task]) -> np.ndarray:
        """Start an episode in every row, with its seed and task; return observations (n, D)."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step every row, also finished ones, by actions (n, A); return observations (n, D) and rewards (n,)."""


def make(spec: EnvironmentSpec, gap: GapProfile | None = None, **arguments: Any) -> Any:
    """Create an environment, with a sim-to-real profile if one is given.

    Args:
        spec: its specification.
        gap: the sim-to-real profile, or None.
        arguments: keyword arguments of the environment and of `gymnasium.make`.

    Raises:
        AdapterError: the simulator is not installed.
        UnknownName, SamiError: the profile names an unknown signal, or does not fit its signal.
    """
    with _simulator(spec):
        # A user's environment in another folder may have the same id, so that only built-in ones go by their id.
        env = gym.make(spec.id if spec is ENVIRONMENTS.get(spec.name) else spec.for_gymnasium, **arguments)
    return env if gap is None else GappedEnv(env, spec, gap)


def make_batch(spec: EnvironmentSpec, rows: int, threads: int) -> Batch:
    """Create a batch of `rows` environments by `spec.batch_entry_point`, which must be set.

    `threads` is the number of simulation threads; 0 is one for each core. AdapterError: no simulator is installed.
    """
    assert spec.batch_entry_point is not None, spec.name
    with _simulator(spec):
        creator: Any = load_env_creator(spec.batch_entry_point)
    batch: Batch = creator(rows=rows, episode_steps=spec.episode_steps, threads=threads, **spec.arguments)
    return batch


@contextmanager
def _simulator(spec: EnvironmentSpec) -> Iterator[None]:
    """Turn a missing simulator into an AdapterError that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = "install it here; no extra of sami includes it"
        if spec.extra:
            remedy = f"install it with: {install_hint(spec.extra)}"
        raise AdapterError(f"environment {spec.name!r} needs the package {error.name}; {remedy}.") from error
