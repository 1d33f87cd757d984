"""A plain Gymnasium environment of a user's, and what changes its physics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from sami_runtime.errors import SamiError

SetTask = Callable[[Any, dict[str, Any]], object]
"""Gives the user's environment the physics of a task."""


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
        """Make the plain environment.

        Raises:
            SamiError: it cannot be made.
        """
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
