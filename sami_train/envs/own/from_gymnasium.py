"""Makes the specification of a Gymnasium environment that its user brings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym

from sami_runtime.errors import SamiError
from sami_runtime.signals import Signal
from sami_train.envs.goals import Goal
from sami_train.envs.layout import Layout
from sami_train.envs.measure import RETURN, SUCCESS, Measure
from sami_train.envs.measure import measure as measure_named
from sami_train.envs.own.env import Own, SetTask, bare
from sami_train.envs.own.ranges import TaskSet, task_space
from sami_train.envs.own.signals import Told, acted, observed
from sami_train.envs.spec import EnvironmentSpec, Reach
from sami_train.envs.tasks import TaskSpace

ENTRY_POINT = "sami_train.envs.own.env:OwnEnv"


def from_gymnasium(
    plain: str | Callable[..., gym.Env[Any, Any]],
    *,
    tasks: Mapping[str, TaskSet] | TaskSpace | None = None,
    set_task: SetTask | None = None,
    name: str | None = None,
    signals: Told = None,
    action: Signal | None = None,
    rate_hz: float | None = None,
    episode_steps: int | None = None,
    measure: str | None = None,
    goal: float | Goal | None = None,
    reach: Reach | None = None,
    set_dynamics: SetTask | None = None,
    batch: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    ends_early: bool = True,
    hyperparameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> EnvironmentSpec:
    """See `EnvironmentSpec.from_gymnasium`."""
    name = str(name or (plain if isinstance(plain, str) else getattr(plain, "__name__", type(plain).__name__)))
    space = task_space(tasks)
    if bool(space.features) != (set_task is not None):
        given, lacks = ("tasks", "set_task") if space.features else ("set_task", "tasks")
        raise SamiError(f"{name} has {given} and no {lacks}; give both, or neither where nothing is hidden.")
    own = Own(plain, set_task, set_dynamics, dict(arguments or {}))
    opened = own.open()
    env = bare(opened)
    try:
        layout = observed(env.observation_space, signals, name)
        found = _goal(goal, layout, name)
        return EnvironmentSpec(
            name=name,
            id=f"sami/{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-') or 'own'}-v0",
            entry_point=ENTRY_POINT,
            tasks=space,
            layout=layout,
            action=acted(env.action_space, action, name),
            rate_hz=_rate(rate_hz, env, name),
            episode_steps=_steps(episode_steps, _limit(plain, opened), name),
            measure=_measure(measure, found),
            ends_early=ends_early,
            goal=found,
            reach=reach,
            batch_entry_point=batch,
            hyperparameters=hyperparameters or {},
            own=own,
            can_change=set_dynamics is not None,
        )
    finally:
        env.close()


def _limit(plain: str | Callable[..., Any], opened: gym.Env[Any, Any]) -> int | None:
    """Return the time limit that the environment has by itself."""
    spec = opened.spec if not isinstance(plain, str) or opened.spec is None else gym.spec(opened.spec.id)
    return None if spec is None else spec.max_episode_steps


def _steps(steps: int | None, limit: int | None, name: str) -> int:
    found = limit if steps is None else steps
    if found is None or found < 1:
        raise SamiError(f"{name} does not say how many steps an episode has at most; give episode_steps.")
    return int(found)


def _rate(rate_hz: float | None, env: gym.Env[Any, Any], name: str) -> float:
    """Return how often it acts [1/s]: what is told, its time step, or its frames a second."""
    step_s = getattr(env.unwrapped, "dt", None)
    found = rate_hz or (1.0 / step_s if isinstance(step_s, (int, float)) and step_s > 0 else None)
    found = found or env.metadata.get("render_fps")
    if not found or not found > 0:
        raise SamiError(f"{name} does not say how often it acts; give rate_hz, in actions a second.")
    return float(found)


def _measure(name: str | None, goal: Goal | None) -> Measure:
    chosen = measure_named(name or (RETURN if goal is None else SUCCESS).name)
    if goal is not None and chosen is RETURN:
        raise SamiError('an environment with a goal is judged by how often it is reached; give measure="success".')
    return chosen


def _goal(goal: float | Goal | None, layout: Layout, name: str) -> Goal | None:
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
