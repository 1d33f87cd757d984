"""Goals and hindsight: what an episode would have taught, had its goal been where the cube went."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Goal:
    """Where goals lie in the flat observation, and when one is reached."""

    achieved: slice
    """Columns of the achieved goal (the cube's position, [m])."""
    desired: slice
    """Columns of the desired goal [m]."""
    threshold: float
    """A goal is reached when the distance to it is below this [m]."""
    height: float | None = None
    """Third coordinate of every goal [m], where all have the same: the paper's goals lie on the table."""
    lowest: float | None = None
    """Below this third coordinate [m] the cube has fallen: its position is no goal. None where every one is."""

    def reached(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Whether `achieved` (..., G) is at `desired` (..., G): bool (...)."""
        distance = np.linalg.norm(achieved.astype(np.float64) - desired, axis=-1)
        return distance < self.threshold
