"""A user's own Gymnasium environment: what changes its physics, and what its spaces and its user say of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from sami_runtime.errors import SamiError
from sami_runtime.signals import Signal, SignalSource
from sami_train.envs.layout import UNIT, Layout, keys_in_order, signal
from sami_train.envs.measure import RETURN, SUCCESS, Goal, Measure, measure

SetTask = Callable[[Any, dict[str, Any]], object]
"""Gives the user's environment the physics of a task."""
SignalNames = Mapping[str, Any] | Sequence[Signal] | None
"""What a user says of signals: one after the other, by entry of a Dict observation, or nothing."""


@dataclass(frozen=True)
class PlainEnvironment:
    """A user's environment, and the functions that change its physics."""

    plain: str | Callable[..., gym.Env[Any, Any]]
    """Its Gymnasium id, or what makes it; `render_mode` is given to it where something is to be shown."""
    set_task: SetTask | None = None
    """Called with the plain environment and a task before each reset; None where there are no tasks."""
    set_dynamics: SetTask | None = None
    """The same within an episode; None where that is not possible."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of the id, or of what makes it."""

    def open(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """Make the plain environment; raises a `SamiError` where it cannot be made."""
        arguments = {**self.arguments, **({} if render_mode is None else {"render_mode": render_mode})}
        try:
            if not isinstance(self.plain, str):
                return self.plain(**arguments)
            # Without a limit: how long an episode is, is up to whoever makes it.
            return gym.make(self.plain, max_episode_steps=-1, disable_env_checker=True, **arguments)
        except gym.error.Error as error:
            raise SamiError(f"environment {self.plain!r} cannot be made: {error}. Import or install it.") from error


def bare(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return an environment without the time limit and the checks that Gymnasium put around it."""
    while isinstance(env, (TimeLimit, OrderEnforcing, PassiveEnvChecker)):
        env = env.env
    return env


def steps_of(steps: int | None, plain: str | Callable[..., Any], opened: gym.Env[Any, Any], name: str) -> int:
    """Return the most steps of an episode: the user's number, or the limit that the environment has by itself."""
    if steps is None:
        spec = opened.spec if not isinstance(plain, str) or opened.spec is None else gym.spec(opened.spec.id)
        steps = None if spec is None else spec.max_episode_steps
    if steps is None or steps < 1:
        raise SamiError(f"{name} does not say how many steps an episode has at most; give episode_steps.")
    return int(steps)


def rate_of(rate_hz: float | None, env: gym.Env[Any, Any], name: str) -> float:
    """Return how often it acts [1/s]: what is told, its time step, or its frames a second."""
    step_s = getattr(env.unwrapped, "dt", None)
    rate = rate_hz or (1.0 / step_s if isinstance(step_s, (int, float)) and step_s > 0 else None)
    rate = rate or env.metadata.get("render_fps")
    if not rate or not rate > 0:
        raise SamiError(f"{name} does not say how often it acts; give rate_hz, in actions a second.")
    return float(rate)


def measure_of(name: str | None, goal: Goal | None) -> Measure:
    """Return what policies are judged by: success where there is a goal, else what the user named or the return."""
    chosen = measure(name or (RETURN if goal is None else SUCCESS).name)
    if goal is not None and chosen is RETURN:
        raise SamiError('an environment with a goal is judged by how often it is reached; give measure="success".')
    return chosen


def goal_of(goal: float | Goal | None, layout: Layout, name: str) -> Goal | None:
    """Return a goal; of a distance, that of Gymnasium's goal environments."""
    if goal is None or isinstance(goal, Goal):
        return goal
    keys = {source.key: source.signal.name for source in layout.sources}
    if not {"achieved_goal", "desired_goal"} <= set(keys):
        raise SamiError(
            f"{name} has a goal within {goal:g} and observes no achieved_goal and desired_goal; observe both, or say "
            "where they lie: goal=Goal(...)."
        )
    achieved, desired = (layout.columns(keys[key]) for key in ("achieved_goal", "desired_goal"))
    return Goal(achieved, desired, threshold=float(goal))


def observed(space: spaces.Space[Any], declared: SignalNames, name: str) -> Layout:
    """Return where the signals of an observation lie; raises a `SamiError` where they do not fit the space.

    Args:
        space: a Box, or a Dict of them.
        declared: signals of a Box one after the other; of a Dict, those of each entry by its key. What is left out is
            one signal: `observation`, or the entry's key.
        name: of the environment, for messages.
    """
    parts = _parts(space, name)
    if not isinstance(space, spaces.Dict):
        if isinstance(declared, Mapping):
            raise SamiError(
                f"{name} observes one Box, and its signals are told by entry ({', '.join(declared)}); give a list of "
                "them."
            )
        by_key: dict[str | None, Sequence[Signal]] = {None: _sequence(declared)}
    else:
        if declared is not None and not isinstance(declared, Mapping):
            raise SamiError(f"{name} observes {', '.join(space)}; give the signals of each by its key, a dict.")
        if strange := [key for key in declared or {} if key not in space.spaces]:
            raise SamiError(f"{name} observes {', '.join(space)}, and signals are told of {', '.join(strange)}.")
        by_key = {key: _sequence((declared or {}).get(key)) for key in space}
    sources: list[SignalSource] = []
    for key in parts:
        low, high = (np.ravel(end) for end in (parts[key].low, parts[key].high))
        label = f"{name}'s observation" + ("" if key is None else f" {key!r}")
        start = 0
        for entry in by_key[key] or (signal(_name(key or "observation"), elements=len(low)),):
            end = start + entry.size
            sources.append(SignalSource(_bounded(entry, low[start:end], high[start:end], label), key, start))
            start = end
        if start != len(low):
            raise SamiError(f"the signals told of {label} have {start} numbers together; it has {len(low)}.")
    names = [source.signal.name for source in sources]
    if twice := sorted({entry for entry in names if names.count(entry) > 1}):
        raise SamiError(f"{name} observes two signals that are called {twice[0]}; name them in signals.")
    return Layout(tuple(sources))


def acted(space: spaces.Space[Any], action_signal: Signal | None, name: str) -> Signal:
    """Return what a policy writes: numbers from -1 to 1, whose meaning tells what they stand for.

    Args:
        space: a Box with bounds; a `SamiError` says what is wrong with another.
        action_signal: the true action, in its units; one called `action` without units, if None.
        name: of the environment, for messages.
    """
    if not isinstance(space, spaces.Box):
        raise SamiError(
            f"{name} acts by {space}; a policy of SaMI acts by continuous numbers, a Box with bounds. Discrete actions "
            "are not supported: give the environment a continuous action, e.g. a force instead of its sign."
        )
    low, high = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise SamiError(
            f"{name} acts by {space}, which has no bounds; give it some, e.g. with "
            "gymnasium.wrappers.TransformAction or in its action_space."
        )
    true, size = action_signal or signal("action", elements=len(low)), len(low)
    if true.size != size:
        raise SamiError(f"the action told of {name} has {true.size} numbers; it acts by {size}.")
    changes: dict[str, Any] = {"low": (-1.0,) * size, "high": (1.0,) * size}
    if not ((low == -1.0).all() and (high == 1.0).all()):
        unit = "" if true.unit == UNIT else f" {true.unit}"
        ends = [f"-1 to 1 stands for {a:g} to {b:g}{unit}" for a, b in zip(low, high, strict=True)]
        named = [f"{element}: {end}" for element, end in zip(true.elements, ends, strict=True)]
        scales = ends[0] if len(set(ends)) == 1 else ", ".join(named)
        changes |= {"unit": UNIT, "meaning": f"{true.meaning}; {scales}" if true.meaning else scales}
    return true.model_copy(update=changes)


def _parts(space: spaces.Space[Any], name: str) -> dict[str | None, spaces.Box]:
    """Return the Boxes of an observation in the order of the flat vector."""
    if isinstance(space, spaces.Dict):
        entries: dict[str | None, Any] = {key: space[key] for key in keys_in_order(space.spaces)}
    else:
        entries = {None: space}
    for key, entry in entries.items():
        part = "its observation" if key is None else f"its entry {key!r}"
        if not isinstance(entry, spaces.Box):
            raise SamiError(
                f"{name} observes {space}; a policy of SaMI reads a Box or a Dict of them, and {part} is a "
                f"{type(entry).__name__}. Wrap it, e.g. in gymnasium.wrappers.FlattenObservation."
            )
        if len(entry.shape) > 2:
            raise SamiError(f"{name}: {part} has the shape {entry.shape}; a policy of SaMI reads vectors, no pictures.")
    return entries


def _sequence(declared: Any) -> Sequence[Signal]:
    return (declared,) if isinstance(declared, Signal) else tuple(declared or ())


def _name(key: str) -> str:
    """Return an entry's key as the name of a signal."""
    return re.sub(r"^(?=\d)", "_", re.sub(r"\W+", "_", key))


def _bounded(entry: Signal, low: np.ndarray, high: np.ndarray, label: str) -> Signal:
    """Return a signal with the space's bounds where it has none of its own."""
    if len(low) < entry.size:
        raise SamiError(f"signal {entry.name!r} reaches beyond {label}; give fewer elements.")
    if any(bound is not None for bound in (*entry.low, *entry.high)):
        return entry
    most = np.finfo(np.float32).max  # a bound that is only the end of what float32 can hold is none
    ends = {"low": low, "high": high}
    known = {key: tuple(float(x) if abs(x) < most else None for x in bounds) for key, bounds in ends.items()}
    return entry.model_copy(update=known)
