"""One episode, as it is collected, stored and ranked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sami_train.envs.tasks import Task

DRAWN = -1
"""Position of a task that no other episode has."""


@dataclass(frozen=True)
class Episode:
    """A whole episode of T steps with D observation numbers and A action numbers."""

    index: int
    """Number of the episode in its run; with the run's seed it determines the episode's randomness."""
    task: Task
    task_index: int
    """Position of the task in the set that training draws from; `DRAWN` where that has no end."""
    observations: np.ndarray
    """Flat observations, (T + 1, D) float32: one before each step and one after the last."""
    actions: np.ndarray
    """Executed actions, (T, A) float32."""
    rewards: np.ndarray
    """Rewards, (T,) float32."""
    terminated: bool
    """The world ended the episode (a time-out does not: its last state has a value)."""
    success: bool
    skills: frozenset[str]
    """Skills seen at any step; empty where the environment labels none."""
    states: tuple[np.ndarray, ...] = ()
    """The encoder's state before steps 0, n, 2 n, ..., (ceil(T / n), ...) each; empty where none were asked for."""
    true_observations: np.ndarray | None = None
    """What would have been observed without a gap, (T + 1, D) float32; None where it was not asked for."""

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def ret(self) -> float:
        """Undiscounted return, the sum of rewards: what the paper ranks trajectories by (section 4.3)."""
        return float(self.rewards.sum())
