"""How training goes in each task: success, skills and return over each task's last episodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from sami_train.envs.measure import SUCCESS, Measure
from sami_train.envs.tasks import shown
from sami_train.episodes.episode import Episode

WINDOW = 50
"""Episodes of each task that are averaged over."""
RETURN_WINDOW = 4
"""The same for returns: where these count, tasks are many and episodes long."""


class TaskRecord:
    """Windows over the last episodes, by task."""

    def __init__(self) -> None:
        self._success: dict[str, deque[float]] = {}
        self._skills: dict[str, deque[frozenset[str]]] = {}
        self._returns: dict[str, deque[float]] = {}

    def add(self, episode: Episode) -> None:
        """Take an episode into its task's windows."""
        name = " ".join(f"{feature}={shown(value)}" for feature, value in episode.task.items()) or "all"
        self._success.setdefault(name, deque(maxlen=WINDOW)).append(float(episode.success))
        self._skills.setdefault(name, deque(maxlen=WINDOW)).append(episode.skills)
        self._returns.setdefault(name, deque(maxlen=RETURN_WINDOW)).append(episode.ret)

    @property
    def success(self) -> dict[str, float]:
        """Share of the last episodes that reached the goal, by task."""
        return {name: float(np.mean(window)) for name, window in sorted(self._success.items())}

    def shows(self, skill: str) -> dict[str, float]:
        """Return the share of the last episodes with a skill at any step, by task."""
        return {
            name: float(np.mean([skill in skills for skills in window]))
            for name, window in sorted(self._skills.items())
        }

    @property
    def returns(self) -> dict[str, float]:
        """Mean return of the last episodes, by task."""
        return {name: float(np.mean(window)) for name, window in sorted(self._returns.items())}

    def by_task(self, measure: Measure) -> dict[str, float]:
        """Return what counts, by task."""
        return self.success if measure is SUCCESS else self.returns

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
        if measure is not SUCCESS:
            return {f"return/{name}": value for name, value in self.returns.items()}
        return {
            "rollout/success": self.mean(measure) or 0.0,
            **{f"success/{name}": share for name, share in self.success.items()},
            **{
                f"{column}/{name}": share
                for column, skill in outcomes.items()
                for name, share in self.shows(skill).items()
            },
        }
