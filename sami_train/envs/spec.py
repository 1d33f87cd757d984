"""EnvironmentSpec: everything that training and export need to know about an environment without creating one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
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
"""Scripted exploration: maps a flat observation (D,), a generator and the task to an action (A,); None: policy acts."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """Description of one environment: names, tasks, signals. It has no simulator; `envs.make` creates the environment.

    The built-in environments set the fields themselves; `from_gymnasium` derives them for a user's own environment.
    """

    name: str
    """Name on the command line and in model files, by which `environment` finds it."""
    id: str
    """Gymnasium id."""
    entry_point: str
    tasks: TaskSpace
    layout: Layout
    """Where each signal is in the environment's own observation."""
    action: Signal
    rate_hz: float
    episode_steps: int
    measure: Measure
    """How evaluations judge policies: by success or by return."""
    ends_early: bool
    """Whether the environment may terminate an episode before its time limit, except where a simulation blows up."""
    goal: Goal | None = None
    """How goals are reached and relabelled; None without goals."""
    reach: Reach | None = None
    """Scripted exploration, or None."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the entry point."""
    vector_entry_point: str | None = None
    """Entry point of `gymnasium.make_vec`; None makes copies of the single environment."""
    batch_entry_point: str | None = None
    """MODULE:CLASS of a `envs.make.Batch`, which steps many environments in native threads, or None."""
    training_options: tuple[str, ...] = ()
    """Keys of a configuration's `collection` that the environment takes as arguments in training."""
    skills: tuple[Skill, ...] = ()
    """Skills in its `info["skill"]`, the rarest first: an episode is named after the first of these that it shows."""
    metrics: tuple[Metric, ...] = ()
    """Further numbers that evaluations report, in the order of their tables."""
    privileged: tuple[Signal, ...] = ()
    """Signals in `info["privileged"]`, flat (P,), which critics may read in training, but no policy."""
    same_sensor: Mapping[str, str] = field(default_factory=dict)
    """Signals measured by the sensor of another signal: that signal's name, by name."""
    extra: str | None = None
    """The extra of this package that installs its simulator, or None."""
    original: str | None = None
    """Name of the same environment in its original engine, whose shipped models also drive this one."""
    engine: str | None = None
    """Name of the physics engine, if the task exists in several; results and recordings state it."""
    hyperparameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Hyperparameters of this environment that override a preset's: values by preset and by dotted key."""
    sheet: DataSheet | None = None
    """Frames and home pose, for the contract of its model files, or None."""
    plain: PlainEnvironment | None = None
    """The user's environment and functions; None if the environment of `entry_point` applies tasks itself."""
    commands: tuple[str, ...] = ()
    """Signals of an adopted policy that are commands, if its contract does not mark them."""
    tracks: str | None = None
    """Unit of the tracking error, if the task is a command that the robot follows: the reward of a step is the negative
    error."""
    can_change: bool = True
    """Whether the environment has `set_dynamics(task)`, which changes the dynamics within an episode."""

    @property
    def numbers(self) -> list[str]:
        """What each number of the flat observation and of the action is, and the rate; a run was trained with these."""
        flat = sorted(self.signals, key=lambda signal: self.layout.columns(signal.name).start)
        names = [f"{part.name}.{element} [{part.unit}]" for part in (*flat, self.action) for element in part.elements]
        return [*names, f"{self.rate_hz:g} Hz"]

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
        """Return the specification of a Gymnasium environment with continuous actions, and of its hidden tasks.

        >>> from sami_train.envs import EnvironmentSpec, Range
        >>> def set_mass(env, task):
        ...     env.unwrapped.m = task["mass"]
        >>> spec = EnvironmentSpec.from_gymnasium(
        ...     "Pendulum-v1", tasks={"training": {"mass": Range(0.5, 2.0)}}, set_task=set_mass
        ... )
        >>> spec.rate_hz, spec.episode_steps, spec.action.meaning
        (20.0, 200, '-1 to 1 stands for -2 to 2')

        Args:
            plain: its Gymnasium id, or a function that creates it; it is created once here, to read its spaces.
            tasks: task sets by name, see `task_space`. `"training"` is required; `"moderate"` and `"extreme"` are the
                paper's names of test sets. None without hidden tasks.
            set_task: called with the environment and a task before each reset; it changes the physics.
            name: name in messages, until `environment` finds the spec under MODULE:SPEC.
            signals: the signals of the observation, see `signal`: a list for a Box, by key for a Dict. Missing ones are
                taken from the spaces, without units.
            action: the action in its own units. A policy acts from -1 to 1; the meaning states the scale.
            rate_hz: actions a second [Hz]; if None, from the environment's `dt` or its `render_fps`.
            episode_steps: longest episode, in steps; if None, that of the id.
            measure: `"return"`, or `"success"` (then `info["is_success"]` is required); with a goal it is success.
            goal: the distance within which Gymnasium's `achieved_goal` reaches its `desired_goal`, or a `Goal`. The
                reward must be -1 or 0, because hindsight writes such rewards.
            reach: scripted exploration, see `Reach`.
            set_dynamics: like `set_task`, but within an episode; often the same function.
            metrics: further numbers for evaluations; `info["metrics"]` must have them at the last step.
            batch: MODULE:CLASS of a `Batch` that steps many environments.
            arguments: keyword arguments of the id, or of the function.
            ends_early: whether the environment may terminate an episode.
            hyperparameters: values that override a preset's, by preset and by dotted key.

        Raises:
            SamiError: a required value is missing, arguments contradict one another, or a policy cannot use a space.
        """
        name = str(name or (plain if isinstance(plain, str) else getattr(plain, "__name__", type(plain).__name__)))
        space = task_space(tasks)
        if bool(space.features) != (set_task is not None):
            present, absent = ("tasks", "set_task") if space.features else ("set_task", "tasks")
            raise SamiError(f"{name} has {present} but no {absent}; give both, or neither if there are no tasks.")
        source = PlainEnvironment(plain, set_task, set_dynamics, dict(arguments or {}))
        gym_env = source.open()
        with closing(bare(gym_env)) as env:
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
                episode_steps=steps_of(episode_steps, plain, gym_env, name),
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

    def require_changes(self) -> None:
        """Raise a `SamiError` if the dynamics cannot change within an episode."""
        if not self.tasks.features:
            raise SamiError(f"environment {self.name!r} has no tasks, so there are no dynamics that could change.")
        if not self.can_change:
            raise SamiError(
                f"environment {self.name!r} has no set_dynamics, so its dynamics cannot change within an episode; give "
                "EnvironmentSpec.from_gymnasium(set_dynamics=...) a function of the environment and a task."
            )

    @property
    def for_gymnasium(self) -> EnvSpec:
        """The specification for Gymnasium, which can create the environment in another process, too."""
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
        """Its name for folders and files: without a path, only letters, digits, `_`, dots and dashes."""
        name = PurePath(self.name).stem if self.name.endswith(".toml") else self.name
        return re.sub(r"[^\w.]+", "-", name).strip("-")

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The signals that a policy reads, in the contract's order."""
        return self.layout.signals

    @property
    def true_size(self) -> int:
        """Length D + P of the true state: the observation without a sim-to-real profile, and the privileged signals."""
        return self.layout.size + sum(signal.size for signal in self.privileged)

    @property
    def estimated(self) -> tuple[Signal, ...]:
        """Signals whose present a policy may estimate: all but goals and commands, which no sensor measures."""
        goals = range(0) if self.goal is None else range(self.goal.desired.start, self.goal.desired.stop)
        measured = (signal for signal in self.signals if not signal.command)
        return tuple(signal for signal in measured if self.layout.columns(signal.name).start not in goals)

    @property
    def outcomes(self) -> dict[str, str]:
        """Further columns of evaluations: the skill whose share of episodes each column reports."""
        return {skill.column: skill.name for skill in self.skills if skill.column is not None}
