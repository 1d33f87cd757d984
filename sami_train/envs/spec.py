"""What training and export must know of an environment without making one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from sami_runtime.errors import SamiError
from sami_runtime.model.contract import DataSheet
from sami_runtime.signals import Signal
from sami_train.envs.layout import Layout
from sami_train.envs.measure import Goal, Measure, Metric, Skill
from sami_train.envs.plain import (
    PlainEnvironment,
    SetTask,
    SignalNames,
    acted,
    bare,
    goal_of,
    measure_of,
    observed,
    rate_of,
    steps_of,
)
from sami_train.envs.tasks import Task, TaskSet, TaskSpace, task_space

Reach = Callable[[np.ndarray, np.random.Generator, Task], np.ndarray | None]
"""Scripted exploration: flat observation (D,) and the task -> action (A,), or None where the policy shall act."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """One environment: its names, its tasks and its layout. It holds no simulator; `envs.make` makes one.

    Those that come along are written out, field by field; `from_gymnasium` fills the fields in for a user's own.
    """

    name: str
    """Name on the command line, and in the files of models: what `environment` finds it by."""
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
    reach: Reach | None
    """Scripted exploration; None where there is none."""
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
    metrics: tuple[Metric, ...] = ()
    """What evaluations report beside it, in the order of their tables."""
    privileged: tuple[Signal, ...] = ()
    """What it reports beside the observation as `info["privileged"]`, flat (P,): training's critics may read it."""
    same_sensor: Mapping[str, str] = field(default_factory=dict)
    """Signals that come from another one's sensor, by name."""
    extra: str | None = None
    """The extra of this package that brings its simulator; None where no extra does."""
    original: str | None = None
    """Name of the environment that this one is in another engine: its shipped model drives this one, too."""
    engine: str | None = None
    """Name of the physics engine, where the task exists in several; results and recordings state it."""
    hyperparameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What it asks for beside what a preset makes of the fields above: values by preset and by dotted key."""
    sheet: DataSheet | None = None
    """Frame and home pose, which its model files tell; None where nobody wrote them down."""
    plain: PlainEnvironment | None = None
    """The user's environment and functions; None where `entry_point` makes one that applies tasks by itself."""
    commands: tuple[str, ...] = ()
    """Signals of an adopted policy that say what is wanted, where its contract does not."""
    tracks: str | None = None
    """Unit of the tracking error where the task is a command that the robot follows: a step's reward is the negative
    error."""
    can_change: bool = True
    """Whether its environments have `set_dynamics(task)`, which changes the dynamics within an episode."""

    @classmethod
    def from_gymnasium(
        cls,
        plain: str | Callable[..., gym.Env[Any, Any]],
        *,
        tasks: Mapping[str, TaskSet] | TaskSpace | None = None,
        set_task: SetTask | None = None,
        name: str | None = None,
        signals: SignalNames = None,
        action: Signal | None = None,
        rate_hz: float | None = None,
        episode_steps: int | None = None,
        measure: str | None = None,
        goal: float | Goal | None = None,
        reach: Reach | None = None,
        set_dynamics: SetTask | None = None,
        metrics: Sequence[Metric] = (),
        batch: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        ends_early: bool = True,
        hyperparameters: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> EnvironmentSpec:
        """Return the specification of any Gymnasium environment with continuous actions, and what is hidden in it.

        >>> from sami_train.envs import EnvironmentSpec, Range
        >>> def set_mass(env, task):
        ...     env.unwrapped.m = task["mass"]
        >>> spec = EnvironmentSpec.from_gymnasium(
        ...     "Pendulum-v1", tasks={"training": {"mass": Range(0.5, 2.0)}}, set_task=set_mass
        ... )
        >>> spec.rate_hz, spec.episode_steps, spec.action.meaning
        (20.0, 200, '-1 to 1 stands for -2 to 2')

        Args:
            plain: its id, or a function that makes it; it is made once, to see its spaces.
            tasks: sets of tasks by name, see `task_space`; `"training"` must be there, `"moderate"` and `"extreme"` are
                what the paper calls its test sets. None where nothing is hidden.
            set_task: called with the environment and a task before each reset: it changes the physics.
            name: in messages, until it is found by the name of its module.
            signals: what the observation holds, see `signal`: a list for a Box, by key for a Dict; what is not told is
                taken from the spaces, without units.
            action: the action in its own units. A policy acts from -1 to 1, and the meaning tells what that stands for.
            rate_hz: actions a second; by the environment's `dt` or its frames a second if None.
            episode_steps: longest episode; the id's own if None.
            measure: `"return"`, or `"success"` (then `info["is_success"]` must tell it); with a goal, success.
            goal: the distance within which Gymnasium's `achieved_goal` is at its `desired_goal`, or a `Goal`. Hindsight
                rewrites rewards as -1 or 0, so the reward must be that too.
            reach: scripted exploration, see `Reach`.
            set_dynamics: as `set_task`, but in the middle of an episode; often the same function.
            metrics: what evaluations report beside the measure; `info["metrics"]` must hold them at the last step.
            batch: MODULE:CLASS of a `Batch` that steps many of them.
            arguments: of the id, or of the function.
            ends_early: whether the environment may terminate an episode.
            hyperparameters: what it asks for beside a preset's values, see `hyperparameters`.

        Raises:
            SamiError: something that has to be known is not, or the spaces are not those that policies can have.
        """
        name = str(name or (plain if isinstance(plain, str) else getattr(plain, "__name__", type(plain).__name__)))
        space = task_space(tasks)
        if bool(space.features) != (set_task is not None):
            present, absent = ("tasks", "set_task") if space.features else ("set_task", "tasks")
            raise SamiError(f"{name} has {present} and no {absent}; give both, or neither where nothing is hidden.")
        source = PlainEnvironment(plain, set_task, set_dynamics, dict(arguments or {}))
        opened = source.open()
        env = bare(opened)
        try:
            layout = observed(env.observation_space, signals, name)
            known_goal = goal_of(goal, layout, name)
            return cls(
                name=name,
                id=f"sami/{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-') or 'own'}-v0",
                entry_point="sami_train.envs.user_env:UserEnv",
                tasks=space,
                layout=layout,
                action=acted(env.action_space, action, name),
                rate_hz=rate_of(rate_hz, env, name),
                episode_steps=steps_of(episode_steps, plain, opened, name),
                measure=measure_of(measure, known_goal),
                ends_early=ends_early,
                goal=known_goal,
                reach=reach,
                metrics=tuple(metrics),
                batch_entry_point=batch,
                hyperparameters=hyperparameters or {},
                plain=source,
                can_change=set_dynamics is not None,
            )
        finally:
            env.close()

    def require_changes(self) -> None:
        """Raise a `SamiError` where the dynamics cannot change within an episode."""
        if not self.tasks.features:
            raise SamiError(f"environment {self.name!r} has no tasks, so there are no dynamics that could change.")
        if not self.can_change:
            raise SamiError(
                f"environment {self.name!r} has no set_dynamics, so its dynamics cannot change within an episode; give "
                "EnvironmentSpec.from_gymnasium(set_dynamics=...) a function of the environment and a task."
            )

    @property
    def for_gymnasium(self) -> EnvSpec:
        """What Gymnasium makes it by, also in another process."""
        return EnvSpec(
            id=self.id,
            entry_point=self.entry_point,
            vector_entry_point=self.vector_entry_point,
            kwargs={**self.arguments, **({} if self.plain is None else {"spec": self})},
            max_episode_steps=self.episode_steps,
            disable_env_checker=True,
        )

    @property
    def short_name(self) -> str:
        """Its name as folders and files have it: without a path, and of letters, digits, dots and dashes."""
        name = PurePath(self.name).stem if self.name.endswith(".toml") else self.name
        return re.sub(r"[^\w.]+", "-", name).strip("-")

    @property
    def signals(self) -> tuple[Signal, ...]:
        """What a policy reads, in the contract's order."""
        return self.layout.signals

    @property
    def true_size(self) -> int:
        """Length D + P of the true state: what would be observed without a gap, and the privileged signals."""
        return self.layout.size + sum(signal.size for signal in self.privileged)

    @property
    def estimated(self) -> tuple[Signal, ...]:
        """Signals whose present a policy may estimate: all but goals and commands, which are no measurements."""
        goals = range(0) if self.goal is None else range(self.goal.desired.start, self.goal.desired.stop)
        measured = (signal for signal in self.signals if not signal.command)
        return tuple(signal for signal in measured if self.layout.columns(signal.name).start not in goals)

    @property
    def outcomes(self) -> dict[str, str]:
        """What evaluations tell of an episode beside what it is judged by: the skill of each column."""
        return {skill.column: skill.name for skill in self.skills if skill.column is not None}
