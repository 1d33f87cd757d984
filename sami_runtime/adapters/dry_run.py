"""An adapter that only watches another one: nothing is ever written to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Executed, Observation, command_delay_of, emergency_stop_of, waits
from sami_runtime.signals import Signal


class DryRun:
    """Passes everything on but `write`: the action that would have been written counts as executed.

    `reset` and `stop` are passed on, so an adapter whose reset moves the robot moves it.

    Args:
        watched: The adapter that is not written to.
    """

    def __init__(self, watched: Adapter) -> None:
        self.watched = watched
        self.observation: tuple[Signal, ...] = watched.observation
        self.action: Signal = watched.action

    def reset(self, seed: int | None = None) -> None:
        """Begins an episode of the watched adapter."""
        self.watched.reset(seed)

    def read(self) -> Observation:
        """Return what the watched adapter observes."""
        return self.watched.read()

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Nothing, but for saying that the action was executed."""
        return Executed(np.array(action, np.float32))

    def stop(self) -> None:
        """Stop the watched adapter."""
        self.watched.stop()

    @property
    def command_delay_s(self) -> float:
        """As the watched adapter says."""
        return command_delay_of(self.watched)

    @property
    def waits(self) -> bool:
        """Whether the world of the watched adapter stands still while nothing is written."""
        return waits(self.watched)

    @property
    def emergency_stop(self) -> Callable[[], object] | None:
        """What stops the watched adapter from any thread, where it has that."""
        return emergency_stop_of(self.watched)

    def close(self) -> None:
        """Close the watched adapter."""
        self.watched.close()
