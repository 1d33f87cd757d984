"""A user's own Gymnasium environment: the functions that change its physics, and the spec's fields from its spaces."""

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
"""Signals as users declare them: a sequence for a Box observation, by key for a Dict, or None."""


@dataclass(frozen=True)
class PlainEnvironment:
    """A user's environment, and the functions that change its physics."""

    plain: str | Callable[..., gym.Env[Any, Any]]
    """Its Gymnasium id, or a function that creates it, which gets `render_mode` only for rendering."""
    set_task: SetTask | None = None
    """Called with the user's environment and a task before each reset; None without tasks."""
    set_dynamics: SetTask | None = None
    """Called in the same way within an episode; None if that is not possible."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the id, or of the function."""

    def open(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """Create the user's environment; raise SamiError if Gymnasium cannot create it."""
        arguments = {**self.arguments, **({} if render_mode is None else {"render_mode": render_mode})}
        try:
            if not isinstance(self.plain, str):
                return self.plain(**arguments)
            # Without a time limit, which `EnvironmentSpec.episode_steps` sets.
            return gym.make(self.plain, max_episode_steps=-1, disable_env_checker=True, **arguments)
        except gym.error.Error as error:
            raise SamiError(f"environment {self.plain!r} cannot be made; import or install it: {error}") from error


def bare(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return an environment without Gymnasium's wrappers for time limit and checks."""
    while isinstance(env, (TimeLimit, OrderEnforcing, PassiveEnvChecker)):
        env = env.env
    return env


def steps_of(steps: int | None, plain: str | Callable[..., Any], env: gym.Env[Any, Any], name: str) -> int:
    """Return the longest episode, in steps: the user's number, or the environment's own time limit; else SamiError."""
    if steps is None:
        spec = env.spec if not isinstance(plain, str) or env.spec is None else gym.spec(env.spec.id)
        steps = None if spec is None else spec.max_episode_steps
    if steps is None or steps < 1:
        raise SamiError(f"{name} has no time limit of at least 1 step; give episode_steps.")
    return int(steps)


def rate_of(rate_hz: float | None, env: gym.Env[Any, Any], name: str) -> float:
    """Return the rate of actions [Hz]: the user's number, 1 / `dt`, or `render_fps`; SamiError if it is not above 0."""
    step_s = getattr(env.unwrapped, "dt", None)
    if rate_hz is None:
        rate_hz = 1.0 / step_s if isinstance(step_s, (int, float)) and step_s > 0 else env.metadata.get("render_fps")
    if rate_hz is None or not rate_hz > 0:
        raise SamiError(f"the rate of {name}, by rate_hz, dt or render_fps, is {rate_hz}; give a rate_hz above 0 [Hz].")
    return float(rate_hz)


def measure_of(name: str | None, goal: Goal | None) -> Measure:
    """Return how policies are judged: by success if there is a goal, else as named, or by the return."""
    result = measure(name or (RETURN if goal is None else SUCCESS).name)
    if goal is not None and result is RETURN:
        raise SamiError('an environment with a goal is judged by how often it is reached; give measure="success".')
    return result


def goal_of(goal: float | Goal | None, layout: Layout, name: str) -> Goal | None:
    """Return the goal; a distance [unit of the goal] stands for the goal of Gymnasium's goal environments."""
    if goal is None or isinstance(goal, Goal):
        return goal
    keys = {source.key: source.signal.name for source in layout.sources}
    if not {"achieved_goal", "desired_goal"} <= set(keys):
        raise SamiError(
            f"{name} has a goal within {goal:g}, but its observation lacks achieved_goal or desired_goal; add them, or "
            "give their columns: goal=Goal(...)."
        )
    achieved, desired = (layout.columns(keys[key]) for key in ("achieved_goal", "desired_goal"))
    return Goal(achieved, desired, threshold=float(goal))


def observed(space: spaces.Space[Any], declared: SignalNames, name: str) -> Layout:
    """Return the layout of an observation's signals; raise SamiError if they do not fit the space.

    Args:
        space: a Box, or a Dict of Boxes.
        declared: the signals of a Box in order, or those of each entry of a Dict by its key. Without a declaration, a
            Box is one signal named `observation`, and each entry one signal named by its key.
        name: the environment's name, for messages.
    """
    parts = _parts(space, name)
    if not isinstance(space, spaces.Dict):
        if isinstance(declared, Mapping):
            raise SamiError(
                f"{name} observes one Box, but its signals are declared by entry ({', '.join(declared)}); give a list "
                "of signals."
            )
        by_key: dict[str | None, Sequence[Signal]] = {None: _sequence(declared)}
    else:
        if declared is not None and not isinstance(declared, Mapping):
            raise SamiError(f"{name} observes {', '.join(space)}; give a dict with the signals of each by its key.")
        if strange := [key for key in declared or {} if key not in space.spaces]:
            raise SamiError(f"{name} observes {', '.join(space)}, but signals declares {', '.join(strange)}.")
        by_key = {key: _sequence((declared or {}).get(key)) for key in space}
    sources: list[SignalSource] = []
    for key in parts:
        low, high = (np.ravel(end) for end in (parts[key].low, parts[key].high))
        label = f"{name}'s observation" + ("" if key is None else f" {key!r}")
        start, identifier = 0, re.sub(r"^(?=\d)|\W+", "_", key or "observation")
        for entry in by_key[key] or (signal(identifier, elements=len(low)),):
            end = start + entry.size
            sources.append(SignalSource(_bounded(entry, low[start:end], high[start:end], label), key, start))
            start = end
        if start != len(low):
            raise SamiError(f"the signals declared for {label} have {start} numbers together; it has {len(low)}.")
    names = [source.signal.name for source in sources]
    if twice := sorted({entry for entry in names if names.count(entry) > 1}):
        raise SamiError(f"{name} observes two signals named {twice[0]}; give them different names in signals.")
    return Layout(tuple(sources))


def acted(space: spaces.Space[Any], action_signal: Signal | None, name: str) -> Signal:
    """Return the policy's action signal: numbers from -1 to 1, whose meaning states their scale in the true units.

    Args:
        space: a Box with bounds; other spaces raise SamiError.
        action_signal: the true action, in its units; if None, a signal `action` without units.
        name: the environment's name, for messages.
    """
    if not isinstance(space, spaces.Box):
        raise SamiError(
            f"the action space of {name} is {space}; it must be a Box with bounds. Discrete actions are not "
            "supported: give the environment a continuous action, e.g. a force instead of its sign."
        )
    low, high = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise SamiError(
            f"the action space of {name} is {space}, without finite bounds; set them in its action_space, or with "
            "gymnasium.wrappers.TransformAction."
        )
    true, size = action_signal or signal("action", elements=len(low)), len(low)
    if true.size != size:
        raise SamiError(f"the action declared for {name} has {true.size} numbers; its action space has {size}.")
    changes: dict[str, Any] = {"low": (-1.0,) * size, "high": (1.0,) * size}
    if not ((low == -1.0).all() and (high == 1.0).all()):
        unit = "" if true.unit == UNIT else f" {true.unit}"
        ends = [f"-1 to 1 stands for {a:g} to {b:g}{unit}" for a, b in zip(low, high, strict=True)]
        parts = [f"{element}: {end}" for element, end in zip(true.elements, ends, strict=True)]
        scales = ends[0] if len(set(ends)) == 1 else ", ".join(parts)
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
                f"{name} observes {space}; it must be a Box or a Dict of Boxes, but {part} is a "
                f"{type(entry).__name__}. Wrap it, e.g. in gymnasium.wrappers.FlattenObservation."
            )
        if len(entry.shape) > 2:
            raise SamiError(f"{name}: {part} has the shape {entry.shape}; policies read vectors, not images.")
    return entries


def _sequence(declared: Any) -> Sequence[Signal]:
    return (declared,) if isinstance(declared, Signal) else tuple(declared or ())


def _bounded(entry: Signal, low: np.ndarray, high: np.ndarray, label: str) -> Signal:
    """Return a signal, with the space's bounds if it has none of its own."""
    if len(low) < entry.size:
        raise SamiError(f"signal {entry.name!r} has more elements than are left in {label}; give fewer elements.")
    if any(bound is not None for bound in (*entry.low, *entry.high)):
        return entry
    most = np.finfo(np.float32).max  # float32's largest number as a bound means no bound
    ends = {"low": low, "high": high}
    bounded = {key: tuple(float(x) if abs(x) < most else None for x in bounds) for key, bounds in ends.items()}
    return entry.model_copy(update=bounded)
