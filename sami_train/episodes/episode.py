"""An episode, and the record of the last episodes of each task, which training logs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sami_runtime.model.atlas import text_of
from sami_train.envs.measure import SUCCESS, Measure
from sami_train.envs.tasks import Task

DRAWN_TASK = -1
"""`task_index` of a task that was drawn for one episode only."""


@dataclass(frozen=True)
class Episode:
    """A whole episode of T steps with D observation numbers and A action numbers."""

    index: int
    """Number of the episode in its run; with the run's seed it determines the episode's randomness."""
    task: Task
    task_index: int
    """Position of the task in the training set; `DRAWN_TASK` if each episode draws a new task."""
    observations: np.ndarray
    """Flat observations, (T + 1, D) float32: one before each step and one after the last."""
    actions: np.ndarray
    """Executed actions, (T, A) float32."""
    rewards: np.ndarray
    """Rewards, (T,) float32."""
    terminated: bool
    """Whether the environment ended the episode; False after a time-out, whose last state has a value."""
    success: bool
    skills: frozenset[str]
    """Skills seen at any step; empty where the environment labels none."""
    states: tuple[np.ndarray, ...] = ()
    """The encoder's state before steps 0, n, 2 n, ..., (ceil(T / n), ...) each; empty if the rollout stores none."""
    true_observations: np.ndarray | None = None
    """True states, (T + 1, D + P) float32: the observation without a sim-to-real profile, then privileged numbers; None
    if the rollout stores none."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The environment's metrics of the episode, see `EnvironmentSpec.metrics`."""

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def ret(self) -> float:
        """Undiscounted return, the sum of rewards: what the paper ranks trajectories by (section 4.3)."""
        return float(self.rewards.sum())


WINDOW = 50
"""Number of episodes of each task to average over."""
RETURN_WINDOW = 4
"""The number for returns: environments judged by return have many tasks and long episodes."""


class TaskRecord:
    """The last episodes of each task: whether each succeeded, the skills it showed, and its return."""

    def __init__(self) -> None:
        self._success: dict[str, deque[float]] = {}
        self._skills: dict[str, deque[frozenset[str]]] = {}
        self._returns: dict[str, deque[float]] = {}

    def add(self, episode: Episode) -> None:
        """Add an episode to the windows of its task; all episodes in drawn tasks share the name `all`."""
        features = [] if episode.task_index == DRAWN_TASK else episode.task.items()
        name = " ".join(f"{feature}={text_of(value)}" for feature, value in features) or "all"
        self._success.setdefault(name, deque(maxlen=WINDOW)).append(float(episode.success))
        self._skills.setdefault(name, deque(maxlen=WINDOW)).append(episode.skills)
        self._returns.setdefault(name, deque(maxlen=RETURN_WINDOW)).append(episode.ret)

    def to_dict(self) -> dict[str, Any]:
        """Return the windows as values for JSON."""
        return {
            "success": {name: list(window) for name, window in self._success.items()},
            "skills": {name: [sorted(skills) for skills in window] for name, window in self._skills.items()},
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
        """Return the success rate or mean return of each task's last episodes."""
        windows = self._success if measure is SUCCESS else self._returns
        return {name: float(np.mean(window)) for name, window in sorted(windows.items())}

    def mean(self, measure: Measure) -> float | None:
        """Return the success rate or return, mean over tasks; None before the first episode."""
        values = list(self.by_task(measure).values())
        return float(np.mean(values)) if values else None

    def scalars(self, measure: Measure, outcomes: Mapping[str, str]) -> dict[str, float]:
        """Return scalars for the log, by column.

        Args:
            measure: whether to log success or return.
            outcomes: the skill to count in each further column, see `EnvironmentSpec.outcomes`.
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
