"""What every environment is called, and what training and export must know of it without making one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter, SignalSource
from sami_runtime.adapters.panda import (
    PANDA_ACTION,
    PANDA_EPISODE_STEPS,
    PANDA_RATE_HZ,
    PANDA_SOURCES,
)
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, SamiError, UnknownName
from sami_runtime.model.contract import Signal
from sami_train.envs.goals import Goal
from sami_train.envs.measure import RETURN, SUCCESS, Measure
from sami_train.envs.mujoco.table import ROWS, Row
from sami_train.envs.panda.reach import reach_action
from sami_train.envs.tasks import PANDA_TASKS, TaskSpace

if TYPE_CHECKING:
    from sami_train.envs.mujoco.batch import MujocoBatch


@dataclass(frozen=True)
class SignalSlice:
    """Where a signal of the contract lies in the flat observation vector."""

    signal: Signal
    start: int

    @property
    def indices(self) -> list[int]:
        """Positions of the signal's elements in the flat observation."""
        return list(range(self.start, self.start + self.signal.size))


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
    """What its presets and the extra that brings its simulator are named after: `pip install 'sami[FAMILY]'`."""
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
                f"environment {self.name!r} needs the package {error.name}; install it with: pip install "
                f"'sami[{self.family}]'."
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


FLAT_KEYS = ("observation", "achieved_goal", "desired_goal")
"""Order in which the parts of a goal environment's observation are laid into one flat vector."""


def flatten(observation: Any) -> np.ndarray:
    """Lay an observation (array, or Gymnasium's goal dictionary) into one float32 vector, ``(D,)``."""
    if isinstance(observation, dict):
        return np.concatenate([observation[key] for key in FLAT_KEYS]).astype(np.float32, copy=False)
    return np.asarray(observation, dtype=np.float32)


def flat_size(space: spaces.Space) -> int:
    """Length D of a flat observation.

    Raises:
        SamiError: a dictionary that is no goal environment's.
    """
    if isinstance(space, spaces.Dict):
        missing = [key for key in FLAT_KEYS if key not in space.spaces]
        if missing or len(space.spaces) != len(FLAT_KEYS):
            raise SamiError(
                f"the observation has {sorted(space.spaces)}; a dictionary must have exactly {sorted(FLAT_KEYS)}."
            )
        return sum(int(np.prod(space[key].shape or ())) for key in FLAT_KEYS)
    assert space.shape is not None
    return int(np.prod(space.shape))


_PANDA_OFFSET = {"observation": 0, "achieved_goal": 19, "desired_goal": 22}


def _mujoco(row: Row) -> EnvironmentSpec:
    ends = np.cumsum([signal.size for signal in row.body.signals])
    starts = [int(end) - signal.size for end, signal in zip(ends, row.body.signals, strict=True)]
    return EnvironmentSpec(
        name=row.name,
        id=row.id,
        entry_point="sami_train.envs.mujoco.env:MujocoSkillEnv",
        vector_entry_point="sami_train.envs.mujoco.vector:MujocoVectorEnv",
        arguments={"name": row.name},
        tasks=row.tasks,
        signals=tuple(SignalSlice(signal, start) for signal, start in zip(row.body.signals, starts, strict=True)),
        sources=tuple(
            SignalSource(signal, start=start) for signal, start in zip(row.body.signals, starts, strict=True)
        ),
        action=row.body.action,
        rate_hz=row.body.rate_hz,
        episode_steps=row.episode_steps,
        goal=None,
        reach=None,
        family="mujoco",
    )


ENVIRONMENTS = {
    "panda": EnvironmentSpec(
        name="panda",
        id="sami/PandaSkill-v0",
        entry_point="sami_train.envs.panda.env:PandaSkillEnv",
        tasks=PANDA_TASKS,
        signals=tuple(
            SignalSlice(source.signal, _PANDA_OFFSET[str(source.key)] + source.start) for source in PANDA_SOURCES
        ),
        action=PANDA_ACTION,
        rate_hz=PANDA_RATE_HZ,
        episode_steps=PANDA_EPISODE_STEPS,
        goal=Goal(achieved=slice(19, 22), desired=slice(22, 25), threshold=0.05, height=0.02, lowest=0.0),
        reach=reach_action,
        sources=PANDA_SOURCES,
        family="panda",
    ),
    **{row.name: _mujoco(row) for row in ROWS},
}


def environment(name: str) -> EnvironmentSpec:
    """Look an environment up by its name or its Gymnasium id.

    Raises:
        UnknownName: there is none; lists those that there are.
    """
    for spec in ENVIRONMENTS.values():
        if name in (spec.name, spec.id):
            return spec
    raise UnknownName("environment", name, list(ENVIRONMENTS))


def find(name: str) -> EnvironmentSpec | None:
    """As `environment`, but None where there is none: agents also learn on environments that are not ours."""
    try:
        return environment(name)
    except UnknownName:
        return None
