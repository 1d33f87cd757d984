"""Makes environments from what the catalogue says of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import gymnasium

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError
from sami_train.envs.gapped_env import GappedEnv
from sami_train.envs.spec import EnvironmentSpec

if TYPE_CHECKING:
    from sami_train.envs.mujoco.batch import MujocoBatch


def make(spec: EnvironmentSpec, gap: str = "", **arguments: Any) -> Any:
    """Make an environment, behind a gap to reality.

    Args:
        spec: which.
        gap: what lies between, as `GapProfile.dumps` writes it; empty where nothing does.
        arguments: of the environment, and of `gymnasium.make`.

    Raises:
        AdapterError: the simulator is not installed.
        SamiError, UnknownName: the gap is not valid, or names a signal that is not there.
    """
    with _simulator(spec):
        env = gymnasium.make(spec.id, **arguments)
    return GappedEnv(env, spec, gap) if gap else env


def make_batch(spec: EnvironmentSpec, rows: int, threads: int) -> MujocoBatch:
    """Make many environments that native threads step together; the MuJoCo family has it.

    Args:
        spec: which.
        rows: how many.
        threads: of the simulation; 0 is one for each core.

    Raises:
        AdapterError: the simulator is not installed.
    """
    with _simulator(spec):
        from sami_train.envs.mujoco.batch import MujocoBatch

    return MujocoBatch(spec.name, rows, episode_steps=spec.episode_steps, threads=threads)


def make_adapter(spec: EnvironmentSpec, env: Any, clock: Clock | None = None) -> GymnasiumAdapter:
    """Make what a policy drives, around an environment that `make` made; `clock` stamps its observations."""
    return GymnasiumAdapter(env, spec.layout.sources, spec.action, clock)


@contextmanager
def _simulator(spec: EnvironmentSpec) -> Iterator[None]:
    """Say how to install the simulator where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise AdapterError(
            f"environment {spec.name!r} needs the package {error.name}; install it with: pip install "
            f"'sami[{spec.family}]'."
        ) from error
