"""What is evaluated, a model file or weights, as a policy that plays episodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sami_runtime.adapters.base import require_compatible
from sami_runtime.session.session import Session
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.numpy_policy import NumpyPolicy, Weights
from sami_train.episodes.rollout import Policy

Source = Path | Weights
"""What is evaluated: a model file, or weights as `ContextPolicy.numpy_weights` gives them."""


def policy_of(source: Source, spec: EnvironmentSpec, rows: int) -> Policy:
    """Return the policy that plays `rows` episodes side by side."""
    return SessionPolicy(source, spec, rows) if isinstance(source, Path) else NumpyPolicy(source, rows)


class SessionPolicy:
    """A model file, stepped as rollouts step policies: evaluation runs what a robot would run.

    Args:
        path: the model.
        spec: the environment, whose layout names the signals.
        rows: episodes stepped together, at least 2 (a session of one takes and gives arrays without rows).

    Raises:
        AdapterError: the model reads or writes other signals than the environment has.
    """

    def __init__(self, path: Path, spec: EnvironmentSpec, rows: int) -> None:
        self._session = Session.load(path, batch=rows)
        require_compatible(self._session.contract, spec.signals, spec.action, f"environment {spec.name!r}")
        self._layout = spec.layout
        self._names = [signal.name for signal in self._session.contract.observation]
        self.previous_action = np.zeros((rows, self._session.contract.action.size), np.float32)
        self._acted = False

    @property
    def state(self) -> tuple[np.ndarray, ...]:
        """The encoder's state, (n, ...) each."""
        return tuple(self._session.state.tensors.values())

    def reset(self, tasks: Sequence[Task] = ()) -> None:
        """Begin new episodes in all rows; a model file is told no task."""
        self._session.reset()
        self._acted = False

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Actions (n, A) and contexts (n, C) for flat observations (n, D); a model file samples no actions."""
        if noise is not None:
            raise ValueError("a model file acts deterministically; it takes no noise")
        if self._acted:
            self._session.executed(self.previous_action)
        step = self._session.step(self._layout.by_name(observation, self._names))
        self._acted = True
        return step.action, step.context
