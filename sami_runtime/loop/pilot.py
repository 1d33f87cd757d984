"""A person beside the loop, who may drive, pause and end an episode."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class Ending(str, Enum):
    """What ended an episode."""

    WORLD = "world"
    """The world did: `Executed.done`."""
    STEPS = "steps"
    """It had as many steps as it may have."""
    SUCCESS = "success"
    """A person said that it succeeded."""
    FAILURE = "failure"
    """A person said that it failed."""
    REDO = "redo"
    """A person wants it again: it does not count."""
    STOP = "stop"
    """A person ended it, and with it the run."""


class Request(NamedTuple):
    """What a person wants at a tick."""

    pause: bool = False
    """That the robot rests: the policy is not asked, its state stands, and the tick is no step of the episode."""
    command: Array | None = None
    """(A,): what is to be done in place of the policy's action, in its unit. None: the policy drives."""
    end: Ending | None = None
    """That the episode ends, at once: nothing more is written but the adapter's stop."""


class Pilot(Protocol):
    """A person's way into the loop: a keyboard, a gamepad, a leader arm."""

    def reset(self) -> None:
        """Begin an episode: the policy drives."""

    def request(self, standing: Array | None) -> Request:
        """Return what the person wants now. Asked at every tick of the loop; it must not block.

        Args:
            standing: (A,): what was executed last; None where nothing was yet.
        """
