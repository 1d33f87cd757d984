"""What training and export must know of an environment without making one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sami_runtime.model.data_sheet import DataSheet
from sami_runtime.signals import Signal
from sami_train.envs.goals import Goal
from sami_train.envs.layout import Layout
from sami_train.envs.measure import Measure
from sami_train.envs.skills import Skill
from sami_train.envs.tasks import TaskSpace


@dataclass(frozen=True)
class EnvironmentSpec:
    """One environment: its names, its tasks and its layout. It holds no simulator; `envs.make` makes one."""

    name: str
    """Name on the command line."""
    id: str
    """Gymnasium id."""
    entry_point: str
    tasks: TaskSpace
    layout: Layout
    """Where each signal lies in the environment's own observation."""
    action: Signal
    rate_hz: float
    episode_steps: int
    measure: Measure
    """What policies are judged by."""
    ends_early: bool
    """Whether an episode may be over before its last step: the world terminates it."""
    goal: Goal | None
    """How goals are reached and relabelled; None where the environment has none."""
    reach: Callable[[np.ndarray, np.random.Generator], np.ndarray] | None
    """Scripted exploration: flat observation -> action; None where there is none."""
    family: str
    """What its presets and the extra that brings its simulator are named after."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What Gymnasium's id fills in when it makes the environment."""
    vector_entry_point: str | None = None
    """What `gymnasium.make_vec` makes; None for copies of the one."""
    batch_entry_point: str | None = None
    """MODULE:CLASS of what steps many of them by native threads, see `envs.make.Batch`; None where nothing does."""
    training_options: tuple[str, ...] = ()
    """Keys of a configuration's `collection` that the environment takes as arguments in training."""
    skills: tuple[Skill, ...] = ()
    """Skills that it labels, the rarest first: an episode is named after the first of them that it shows."""
    same_sensor: Mapping[str, str] = field(default_factory=dict)
    """Signals that come from another one's sensor, by name."""
    sheet: DataSheet | None = None
    """Frame and home pose, which its model files tell; None where nobody wrote them down."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """What a policy reads, in the contract's order."""
        return self.layout.signals

    @property
    def outcomes(self) -> dict[str, str]:
        """What evaluations tell of an episode beside what it is judged by: the skill of each column."""
        return {skill.column: skill.name for skill in self.skills if skill.column is not None}
