"""What every adapter around another one passes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import (
    Adapter,
    Executed,
    Observation,
    command_delay_of,
    emergency_stop_of,
    require_executed,
    require_observation,
    waits,
    watch_of,
)
from sami_runtime.signals import Signal


class Around:
    """Passes on all that is not read or written; whoever extends it does those.

    An observation goes on with what it knows of its age: `dataclasses.replace(self.observed(), values=...)`.

    Args:
        inner: The adapter behind.
    """

    def __init__(self, inner: Adapter) -> None:
        self.inner = inner
        self.observation: tuple[Signal, ...] = inner.observation
        self.action: Signal = inner.action

    def reset(self, seed: int | None = None) -> None:
        """Begins an episode of the adapter behind."""
        self.inner.reset(seed)

    def observed(self) -> Observation:
        """Return what the adapter behind observes.

        Raises:
            AdapterError: Its `read` returned something else.
        """
        return require_observation(self.inner.read(), self.inner)

    def sent(self, action: NDArray[np.float32]) -> Executed:
        """Write an action (A,) to the adapter behind; return what it says was executed.

        Raises:
            AdapterError: Its `write` returned something else.
        """
        return require_executed(self.inner.write(action), self.inner)

    def stop(self) -> None:
        """Stop the adapter behind, at once."""
        self.inner.stop()

    @property
    def command_delay_s(self) -> float:
        """As the adapter behind says."""
        return command_delay_of(self.inner)

    @property
    def waits(self) -> bool:
        """Whether the world of the adapter behind stands still while nothing is written."""
        return waits(self.inner)

    @property
    def emergency_stop(self) -> Callable[[], object] | None:
        """What stops the adapter behind from any thread, where it has that."""
        return emergency_stop_of(self.inner)

    @property
    def watch(self) -> Callable[[Any], None] | None:
        """What the adapter behind wants to be told of each tick, where it does."""
        return watch_of(self.inner)

    def close(self) -> None:
        """Close the adapter behind."""
        self.inner.close()
