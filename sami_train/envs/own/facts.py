"""What an `EnvironmentSpec` needs to know of a plain environment: told by its user, or read from the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from sami_runtime.errors import SamiError
from sami_train.envs.goals import Goal
from sami_train.envs.layout import Layout
from sami_train.envs.measure import RETURN, SUCCESS, Measure
from sami_train.envs.measure import measure as measure_named


def time_limit(plain: str | Callable[..., Any], opened: gym.Env[Any, Any]) -> int | None:
    """Return the time limit that the environment has by itself."""
    spec = opened.spec if not isinstance(plain, str) or opened.spec is None else gym.spec(opened.spec.id)
    return None if spec is None else spec.max_episode_steps


def steps_of(steps: int | None, limit: int | None, name: str) -> int:
    """Return the most steps of an episode: the user's number, or the environment's own limit."""
    most = limit if steps is None else steps
    if most is None or most < 1:
        raise SamiError(f"{name} does not say how many steps an episode has at most; give episode_steps.")
    return int(most)


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
    chosen = measure_named(name or (RETURN if goal is None else SUCCESS).name)
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
