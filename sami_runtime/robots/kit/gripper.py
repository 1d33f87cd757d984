"""Converts a gripper's width to the numbers of its driver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sami_runtime.errors import AdapterError


@dataclass(frozen=True)
class Gripper:
    """A linear map between width and command.

    >>> robotiq = Gripper(closed=255, open=0, widest_m=0.085)  # counts, 255 closed
    >>> robotiq.command(0.0), robotiq.command(0.2), round(robotiq.width(51), 3)
    (255.0, 0.0, 0.068)

    Raises:
        AdapterError: The widest opening is not positive, or both commands are equal or not finite.
    """

    closed: float
    """Command that closes the gripper."""
    open: float
    """Command that opens the gripper to its widest."""
    widest_m: float
    """Widest opening [m]."""

    def __post_init__(self) -> None:
        if not (self.widest_m > 0.0 and self.open != self.closed and np.isfinite([self.open, self.closed]).all()):
            raise AdapterError(
                f"a gripper that opens to {self.widest_m} m from command {self.closed} to {self.open} does not move. "
                "Give its widest opening [m], above 0, and two different commands."
            )

    def command(self, width_m: float) -> float:
        """Return the command for a width [m]; beyond its range, that of the nearest end."""
        share = float(np.clip(width_m / self.widest_m, 0.0, 1.0))
        return self.closed + share * (self.open - self.closed)

    def width(self, command: float) -> float:
        """Return the width [m] of a command, or of a reading in the command's numbers."""
        return (command - self.closed) / (self.open - self.closed) * self.widest_m
