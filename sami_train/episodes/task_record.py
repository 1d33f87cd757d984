"""How training goes in each task: success, skills and return over each task's last episodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from sami_train.envs.measure import SUCCESS, Measure
from sami_train.envs.tasks import shown
from sami_train.episodes.episode import DRAWN, Episode

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
        named = [] if episode.task_index == DRAWN else episode.task.items()
        name = " ".join(f"{feature}={shown(value)}" for feature, value in named) or "all"
        self._success.setdefault(name, deque(maxlen=WINDOW)).append(float(episode.success))
        self._skills.setdefault(name, deque(maxlen=WINDOW)).append(episode.skills)
        self._returns.setdefault(name, deque(maxlen=RETURN_WINDOW)).append(episode.ret)

    def to_dict(self) -> dict[str, Any]:
        """Return the windows as JSON has them."""
        skills = {name: [sorted(seen) for seen in window] for name, window in self._skills.items()}
        return {
            "success": {name: list(window) for name, window in self._success.items()},
            "skills": skills,
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
