"""How training goes in each task: success and lifting over each task's last episodes."""

from __future__ import annotations

from collections import deque

import numpy as np

from .episode import Episode
from .tasks import shown

WINDOW = 50
"""Episodes of each task that are averaged over."""


class TaskRecord:
    """Windows over the last episodes, by task."""

    def __init__(self) -> None:
        self._success: dict[str, deque[float]] = {}
        self._lifted: dict[str, deque[float]] = {}

    def add(self, episode: Episode) -> None:
        """Take an episode into its task's windows."""
        name = " ".join(f"{feature}={shown(value)}" for feature, value in episode.task.items()) or "all"
        for windows, value in (
            (self._success, episode.success),
            (self._lifted, "pick_and_place" in episode.skills),
        ):
            windows.setdefault(name, deque(maxlen=WINDOW)).append(float(value))

    @property
    def success(self) -> dict[str, float]:
        """Share of the last episodes that reached the goal, by task."""
        return {name: float(np.mean(window)) for name, window in sorted(self._success.items())}

    @property
    def lifted(self) -> dict[str, float]:
        """Share of the last episodes with Pick&Place at any step, by task."""
        return {name: float(np.mean(window)) for name, window in sorted(self._lifted.items())}

    @property
    def mean_success(self) -> float:
        """Mean over tasks; 0 before the first episode."""
        return float(np.mean(list(self.success.values()))) if self._success else 0.0
