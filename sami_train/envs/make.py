"""Makes environments from what the catalogue says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.clock import Clock
from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import ENVIRONMENTS
from sami_train.envs.gapped_env import GappedEnv
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task


class Batch(Protocol):
    """Many environments of one kind, each in a task of its own, stepped together; all episodes end by time."""

    rows: int
    """n."""
    episode_steps: int

    def reset(self, seeds: Sequence[int | None], tasks: Sequence[Task]) -> np.ndarray:
        """Begin an episode in every row, each by its seed and in its task: observations (n, D)."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step every row by its action (n, A): observations (n, D) and rewards (n,)."""


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

    Args:
        spec: which.
        rows: how many.
        threads: of the simulation; 0 is one for each core.

    Raises:
        AdapterError: the simulator is not installed.
    """
    assert spec.batch_entry_point is not None, spec.name
    with _simulator(spec):
        creator: Any = load_env_creator(spec.batch_entry_point)
    batch: Batch = creator(rows=rows, episode_steps=spec.episode_steps, threads=threads, **spec.arguments)
    return batch


def make_adapter(spec: EnvironmentSpec, env: Any, clock: Clock | None = None) -> GymnasiumAdapter:
    """Make what a policy drives, around an environment that `make` made; `clock` stamps its observations."""
    return GymnasiumAdapter(env, spec.layout.sources, spec.action, clock)


@contextmanager
def _simulator(spec: EnvironmentSpec) -> Iterator[None]:
    """Say how to install the simulator where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        brought = (
            f"install it with: {install_hint(spec.extra)}" if spec.extra else "install it here: no extra brings it"
        )
        raise AdapterError(f"environment {spec.name!r} needs the package {error.name}; {brought}.") from error
