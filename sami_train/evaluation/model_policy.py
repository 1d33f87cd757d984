"""Policies for evaluation: a model file, or weights in numpy, with the interface of a rollout's policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import gymnasium as gym
import numpy as np

from sami_runtime.adapters.base import require_compatible
from sami_runtime.gap.gap import Gap, whole_periods
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.artifact import Artifact, artifact_of
from sami_runtime.session.session import Session
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.numpy_policy import NumpyPolicy, NumpyWeights
from sami_train.episodes.rollout import Policy

Source = Path | NumpyWeights
"""The policy to evaluate: a model file, or weights that `ContextPolicy.numpy_weights` returned."""


def policy_of(source: Source, spec: EnvironmentSpec, rows: int) -> Policy:
    """Return the policy that steps `rows` episodes together."""
    return SessionPolicy(source, spec, rows) if isinstance(source, Path) else NumpyPolicy(source, rows)


def connect_ages(policy: Policy, envs: Sequence[gym.Env], gap: GapProfile | None) -> None:
    """Give a model file the observation ages under a sim-to-real profile: observation latency plus command delay.

    Time stamps give the first, as on a robot. The second, which a robot's user measures, is the profile's action
    latency, or the middle of its range.
    """
    policy = getattr(policy, "policy", policy)  # a `RecordedPolicy` contains the policy
    if not isinstance(policy, SessionPolicy):
        return
    if gap is None:
        policy.ages = None
        return
    running: list[Gap] = [env.get_wrapper_attr("gap") for env in envs]
    span, period = gap.action_latency_s, running[0].period
    delay = sum(span) / 2 / period if isinstance(span, tuple) else float(whole_periods(span / period))
    policy.ages = lambda: np.array([[gap_of_row.late[name] + delay for name in policy.names] for gap_of_row in running])


class SessionPolicy:
    """A model file with the interface of a rollout's policy: evaluation runs the same file as a robot.

    Args:
        model: the file, or a model file in memory.
        spec: the environment, whose layout names the signals.
        rows: episodes stepped together, at least 2 (a session with batch 1 has arrays without rows).

    Raises:
        AdapterError: the model reads or writes other signals than the environment has.
    """

    def __init__(self, model: Path | Artifact, spec: EnvironmentSpec, rows: int) -> None:
        self._session = Session(artifact_of(model), batch=rows)
        require_compatible(self._session.contract, spec.signals, spec.action, f"environment {spec.name!r}")
        self._layout = spec.layout
        self.names = [signal.name for signal in self._session.contract.observation]
        self.previous_action = np.zeros((rows, self._session.contract.action.size), np.float32)
        self.ages: Callable[[], np.ndarray] | None = None
        """Returns the age of each signal in each row, (n, S) [periods]; None without a profile."""
        self._acted = False

    @property
    def state(self) -> tuple[np.ndarray, ...]:
        """The encoder's state, (n, ...) each."""
        return tuple(self._session.state.tensors.values())

    def reset(self, tasks: Sequence[Task] = ()) -> None:
        """Start new episodes in all rows; a model file does not read the tasks."""
        self._session.reset()
        self._acted = False

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return actions (n, A) and contexts (n, C) for flat observations (n, D); ValueError if `noise` is given."""
        if noise is not None:
            raise ValueError("a model file acts deterministically; it takes no noise")
        session, signals = self._session, self._layout.by_name(observation, self.names)
        if self._acted:
            session.executed(self.previous_action)
        self._acted = True
        if self.ages is None or session.contract.lookahead is None:
            return session.step(signals)[:2]
        ages = self.ages()
        lookahead = session.contract.lookahead
        counts = [name in lookahead.changing for name in self.names]
        old = np.any(ages[:, counts] > lookahead.steps, axis=1)
        if not old.any():
            return session.step(signals, ages)[:2]
        # As a control loop does: rows with too old observations hold action, state and context.
        session.elapse(rows=old)
        before = session.state
        session.step(signals, np.where(old[:, None], 0.0, ages))
        session.restore(session.state.with_rows(old, before))
        return session.last[:2]
