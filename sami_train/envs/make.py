"""Makes environments from their specification, also behind the gap between simulation and reality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import gymnasium
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


class Batch(Protocol):
    """Many environments of one kind, each in a task of its own, stepped together."""

    rows: int
    """n."""
    episode_steps: int

    @property
    def terminated(self) -> np.ndarray:
        """Rows whose episode the world ended in the last step, bool (n,)."""

    @property
    def metrics(self) -> Mapping[str, np.ndarray]:
        """What the rows' episodes are judged by so far, by name, (n,) each; see `EnvironmentSpec.metrics`."""

    def reset(self, seeds: Sequence[int | None], tasks: Sequence[Task]) -> np.ndarray:
        """Begin an episode in every row, each by its seed and in its task: observations (n, D)."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step every row by its action (n, A), also those whose episode is over: observations (n, D), rewards (n,)."""


def make(spec: EnvironmentSpec, gap: GapProfile | None = None, **arguments: Any) -> Any:
    """Make an environment, behind a gap to reality.

    Args:
        spec: which.
        gap: what lies between; None where nothing does.
        arguments: of the environment, and of `gymnasium.make`.

    Raises:
        AdapterError: the simulator is not installed.
        UnknownName, SamiError: the gap names a signal that is not there, or does not fit it.
    """
    with _simulator(spec):
        # By its id where that means this one: another folder's may have been given the same.
        env = gymnasium.make(spec.id if spec is ENVIRONMENTS.get(spec.name) else spec.for_gymnasium, **arguments)
    return env if gap is None else GappedEnv(env, spec, gap)


def make_batch(spec: EnvironmentSpec, rows: int, threads: int) -> Batch:
    """Make many environments that native threads step together, where `spec.batch_entry_point` names what does.

    `threads` are those of the simulation; 0 is one for each core. Raises an `AdapterError` where it is not installed.
    """
    assert spec.batch_entry_point is not None, spec.name
    with _simulator(spec):
        creator: Any = load_env_creator(spec.batch_entry_point)
    batch: Batch = creator(rows=rows, episode_steps=spec.episode_steps, threads=threads, **spec.arguments)
    return batch


@contextmanager
def _simulator(spec: EnvironmentSpec) -> Iterator[None]:
    """Say how to install the simulator where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = "install it here: no extra brings it"
        if spec.extra:
            remedy = f"install it with: {install_hint(spec.extra)}"
        raise AdapterError(f"environment {spec.name!r} needs the package {error.name}; {remedy}.") from error
