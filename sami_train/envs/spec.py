"""What training and export must know of an environment without making one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter, SignalSource
from sami_runtime.clock import Clock
from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError
from sami_runtime.signals import Signal
from sami_train.envs.goals import Goal
from sami_train.envs.measure import RETURN, SUCCESS, Measure
from sami_train.envs.tasks import TaskSpace

if TYPE_CHECKING:
    from sami_train.envs.mujoco.batch import MujocoBatch
from sami_train.envs.layout import SignalSlice


@dataclass(frozen=True)
class EnvironmentSpec:
    """One environment: its names, its tasks and its layout."""

    name: str
    """Name on the command line."""
    id: str
    """Gymnasium id."""
    entry_point: str
    tasks: TaskSpace
    signals: tuple[SignalSlice, ...]
    action: Signal
    rate_hz: float
    episode_steps: int
    goal: Goal | None
    """How goals are reached and relabelled; None where the environment has none."""
    reach: Callable[[np.ndarray, np.random.Generator], np.ndarray] | None
    """Scripted exploration: flat observation -> action; None where there is none."""
    sources: tuple[SignalSource, ...]
    """Where each signal lies in the environment's own observation."""
    family: str
    """What its presets and the extra that brings its simulator are named after."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What Gymnasium's id fills in when it makes the environment."""
    vector_entry_point: str | None = None
    """What `gymnasium.make_vec` makes; None for copies of the one."""

    def make(self, gap: str = "", **kwargs: Any) -> Any:
        """Make the environment, behind the gap to reality that `gap` describes (as `GapProfile.dumps` writes it).

        Raises:
            AdapterError: the simulator is not installed.
            SamiError, UnknownName: the gap is not valid, or names a signal that is not there.
        """
        import gymnasium

        from sami_train.envs.gapped_env import GappedEnv

        with self._simulator():
            env = gymnasium.make(self.id, **kwargs)
            return GappedEnv(env, gap) if gap else env

    def batch(self, rows: int, threads: int) -> MujocoBatch:
        """Many of them, stepped together by native threads; the MuJoCo family has it.

        Raises:
            AdapterError: the simulator is not installed.
        """
        with self._simulator():
            from sami_train.envs.mujoco.batch import MujocoBatch

        return MujocoBatch(self.name, rows, episode_steps=self.episode_steps, threads=threads)

    @contextmanager
    def _simulator(self) -> Iterator[None]:
        try:
            yield
        except ModuleNotFoundError as error:
            raise AdapterError(
                f"environment {self.name!r} needs the package {error.name}; install it with: "
                f"{install_hint(self.family)}."
            ) from error

    def adapter(self, env: Any, clock: Clock | None = None) -> GymnasiumAdapter:
        """What a policy drives, around an environment that `make` made; `clock` stamps its observations."""
        return GymnasiumAdapter(env, self.sources, self.action, clock)

    @property
    def measure(self) -> Measure:
        """What policies are judged by."""
        return RETURN if self.goal is None else SUCCESS

    @property
    def observation_size(self) -> int:
        """Length of the flat observation."""
        return sum(item.signal.size for item in self.signals)
