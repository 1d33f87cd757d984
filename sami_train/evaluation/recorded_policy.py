"""RecordedPolicy: wraps a policy, and records its observations, actions and contexts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sami_train.envs.tasks import Task
from sami_train.episodes.rollout import Policy


class RecordedPolicy:
    """A policy whose observations, actions and contexts are recorded, round by round.

    Args:
        policy: the policy that acts.
        explore: maps its actions (n, A) to those to execute; None leaves them unchanged.
    """

    def __init__(self, policy: Policy, explore: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        self.policy, self.explore = policy, explore
        self.rounds: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = []
        """Observations (n, D), actions (n, A) and contexts (n, C) of each step of each round."""

    @property
    def previous_action(self) -> np.ndarray:
        """As `Policy`'s."""
        return self.policy.previous_action

    @previous_action.setter
    def previous_action(self, action: np.ndarray) -> None:
        self.policy.previous_action = action

    @property
    def state(self) -> tuple[np.ndarray, ...]:
        """As `Policy`'s."""
        return self.policy.state

    def reset(self, tasks: Sequence[Task] = ()) -> None:
        """Start new episodes in all rows, and a new round of the record."""
        self.policy.reset(tasks)
        self.rounds.append([])

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Step as the policy, replace its actions by `explore`, and record the step."""
        action, context = self.policy.step(observation, noise)
        if self.explore is not None:
            action = self.explore(action)
        self.rounds[-1].append((np.array(observation), np.array(action), np.array(context)))
        return action, context

    def episodes(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return observations (T, D), actions (T, A) and contexts (T, C) of each row of each round.

        Rows of a round are stepped until the last one ends, so that steps after an episode's end are included.
        """
        episodes = []
        for steps in self.rounds:
            observations, actions, contexts = (np.stack(part, axis=1) for part in zip(*steps, strict=True))
            episodes += list(zip(observations, actions, contexts, strict=True))
        return episodes
