"""Episodes whose dynamics change in the middle, run by a model file whose policy may be given another context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sami_runtime.adapters.base import require_compatible
from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session
from sami_train.envs.layout import flatten
from sami_train.envs.make import GappedEnv, make
from sami_train.envs.spec import EnvironmentSpec
from sami_train.studies.contexts.change import DynamicsChange
from sami_train.studies.contexts.policy_head import PolicyHead


class Variant(str, Enum):
    """Which context the policy is given from the change on."""

    LIVE = "live"
    """The one that its encoder infers, as it is deployed."""
    FROZEN = "frozen"
    """The one of the step at which the change happens, which cannot know of it."""
    RESET = "reset"
    """The one that its encoder infers after a reset at the change."""
    START = "from the start"
    """The one of the same step of an episode of the same start that had the new dynamics all along; its last one where
    that episode is over."""
    UNCHANGED = "unchanged"
    """The live one, and the old dynamics stay: what a change costs, and what is taken for one where there is none."""


class ChangedEpisode(NamedTuple):
    """One episode of T steps."""

    contexts: np.ndarray
    """What the encoder inferred, (T, C)."""
    given_context: np.ndarray
    """What the policy was given, (T, C)."""
    actions: np.ndarray
    """(T, A)"""
    rewards: np.ndarray
    """(T,)"""
    success: bool

    @property
    def ret(self) -> float:
        """Sum of rewards."""
        return float(np.sum(self.rewards))

    def context(self, t: int) -> np.ndarray:
        """Return what the encoder inferred at a step (C,), or lastly where the episode is over."""
        return np.asarray(self.contexts[min(t, len(self.contexts) - 1)])


class ChangedEpisodes:
    """Runs episodes of a model file whose dynamics change.

    Args:
        model: the file.
        spec: the environment.
        rows: n, episodes stepped together, at least 2.

    Raises:
        SamiError: the environment's dynamics cannot change within an episode, the model infers no context, or the file
            is not valid.
        AdapterError: the model reads or writes other signals than the environment has.
    """

    def __init__(self, model: Path, spec: EnvironmentSpec, rows: int) -> None:
        spec.require_changes()
        self.rows = rows
        artifact = read_artifact(model)
        self.contract = artifact.contract
        require_compatible(self.contract, spec.signals, spec.action, f"environment {spec.name!r}")
        self._head, self._session = PolicyHead(artifact), Session(artifact, batch=rows)
        self._layout, self._names = spec.layout, [signal.name for signal in self.contract.observation]
        self._spec = spec
        self._envs: list[Any] = [make(spec) for _ in range(rows)]

    def close(self) -> None:
        """Give the simulators back."""
        for env in self._envs:
            env.close()

    def round(
        self,
        seeds: Sequence[int],
        change: DynamicsChange,
        variant: Variant,
        starts: Sequence[ChangedEpisode] = (),
        on_step: Callable[[int, Sequence[Any], Sequence[int]], None] | None = None,
    ) -> list[ChangedEpisode]:
        """Run one episode in each row.

        Args:
            seeds: of their starts, (n,).
            change: what happens.
            variant: which context the policy is given.
            starts: for `Variant.START`, the episodes (n,) of these seeds that had the new dynamics all along.
            on_step: called before each step with its number, the environments, and the rows whose episode still runs.
        """
        task = {"task": dict(change.before)}
        envs = self._envs
        if change.gaps is not None:
            envs = [GappedEnv(env, self._spec, change.gaps[0]) for env in envs]
        begun = [env.reset(seed=seed, options=task)[0] for env, seed in zip(envs, seeds, strict=True)]
        observation = np.stack([flatten(first) for first in begun])
        self._session.reset()
        rows = [_ChangingRow() for _ in envs]
        for t in count():
            running = [n for n, row in enumerate(rows) if not row.over]
            if not running:
                break
            if t == change.step:
                if variant is not Variant.UNCHANGED:
                    for n in running:
                        envs[n].unwrapped.set_dynamics(change.after)
                        if change.gaps is not None:
                            envs[n].change_gap(change.gaps[1])
                if variant is Variant.RESET:
                    self._session.reset()
            if on_step is not None:
                on_step(t, envs, running)
            signals = self._layout.by_name(observation, self._names)
            step = self._session.step(signals)
            actions, given_context = step.action, step.context
            if t == change.step:
                frozen = step.context
            if t >= change.step and variant in (Variant.FROZEN, Variant.START):
                given_context = frozen if variant is Variant.FROZEN else np.stack([run.context(t) for run in starts])
                actions = self._head(signals, given_context, step.extra)
                self._session.executed(actions)
            for n in running:
                next_observation = rows[n].step(envs[n], actions[n], step.context[n], given_context[n])
                observation[n] = flatten(next_observation)
        return [row.run() for row in rows]


class _ChangingRow:
    """What an episode has done so far."""

    def __init__(self) -> None:
        self.contexts: list[np.ndarray] = []
        self.given_context: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []
        self.rewards: list[float] = []
        self.success, self.over = False, False

    def step(self, env: Any, action: np.ndarray, context: np.ndarray, given_context: np.ndarray) -> Any:
        self.contexts.append(context.copy())
        self.given_context.append(given_context.copy())
        self.actions.append(action.copy())
        observation, reward, terminated, truncated, info = env.step(action.copy())
        self.rewards.append(float(reward))
        self.success, self.over = bool(info.get("is_success", False)), bool(terminated or truncated)
        return observation

    def run(self) -> ChangedEpisode:
        return ChangedEpisode(
            np.stack(self.contexts),
            np.stack(self.given_context),
            np.stack(self.actions),
            np.array(self.rewards),
            self.success,
        )
