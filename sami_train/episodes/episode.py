"""One episode, and how training goes in each task over its last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sami_runtime.model.atlas import shown
from sami_train.envs.measure import SUCCESS, Measure
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
    """What would have been observed without a gap, then what is privileged, (T + 1, D + P) float32; None where it was
    not asked for."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the environment measured of it, see `EnvironmentSpec.metrics`."""

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def ret(self) -> float:
        """Undiscounted return, the sum of rewards: what the paper ranks trajectories by (section 4.3)."""
        return float(self.rewards.sum())


WINDOW = 50
"""Episodes of each task that are averaged over."""
RETURN_WINDOW = 4
"""The same for returns: where these count, tasks are many and episodes long."""


class TaskRecord:
    """Windows over the last episodes, by task: whether each succeeded, which skills it showed, and its return."""

    def __init__(self) -> None:
        self._success: dict[str, deque[float]] = {}
        self._skills: dict[str, deque[frozenset[str]]] = {}
        self._returns: dict[str, deque[float]] = {}

    def add(self, episode: Episode) -> None:
        """Take an episode into its task's windows."""
        named = [] if episode.task_index == DRAWN else episode.task.items()
        name = " ".join(f"{feature}={shown(value)}" for feature, value in named) or "all"
        self._success.setdefault(name, deque(maxlen=WINDOW)).append(float(episode.success))
        self._skills.setdefault(name, deque(maxlen=WINDOW)).append(episode.skills)
        self._returns.setdefault(name, deque(maxlen=RETURN_WINDOW)).append(episode.ret)

    def to_dict(self) -> dict[str, Any]:
        """Return the windows as JSON has them."""
        return {
            "success": {name: list(window) for name, window in self._success.items()},
            "skills": {name: [sorted(seen) for seen in window] for name, window in self._skills.items()},
            "returns": {name: list(window) for name, window in self._returns.items()},
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TaskRecord:
        """Return the record that `to_dict` wrote."""
        record = cls()
        record._success = {name: deque(window, WINDOW) for name, window in plain["success"].items()}
        record._skills = {name: deque(map(frozenset, window), WINDOW) for name, window in plain["skills"].items()}
        record._returns = {name: deque(window, RETURN_WINDOW) for name, window in plain["returns"].items()}
        return record

    def by_task(self, measure: Measure) -> dict[str, float]:
        """Return what counts, mean over each task's last episodes."""
        windows = self._success if measure is SUCCESS else self._returns
        return {name: float(np.mean(window)) for name, window in sorted(windows.items())}

    def mean(self, measure: Measure) -> float | None:
        """Return what counts, mean over tasks; None before the first episode."""
        values = list(self.by_task(measure).values())
        return float(np.mean(values)) if values else None

    def scalars(self, measure: Measure, outcomes: Mapping[str, str]) -> dict[str, float]:
        """Return what a log keeps where policies are judged so.

        Args:
            measure: what they are judged by.
            outcomes: what else is told of their episodes, see `EnvironmentSpec.outcomes`.
        """
        by_task = self.by_task(measure).items()
        if measure is not SUCCESS:
            return {f"return/{name}": value for name, value in by_task}
        scalars = {
            "rollout/success": self.mean(measure) or 0.0,
            **{f"success/{name}": share for name, share in by_task},
        }
        for column, skill in outcomes.items():
            for name, window in sorted(self._skills.items()):
                scalars[f"{column}/{name}"] = float(np.mean([skill in skills for skills in window]))
        return scalars
