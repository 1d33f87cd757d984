"""The interface of a person to the loop, who may drive, pause and end an episode."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError

Array = NDArray[np.float32]


class Ending(str, Enum):
    """What ended an episode."""

    WORLD = "world"
    """The world ended it: `Executed.done`."""
    STEPS = "steps"
    """It reached its largest number of steps."""
    SUCCESS = "success"
    """A person said that it succeeded."""
    FAILURE = "failure"
    """A person said that it failed."""
    REDO = "redo"
    """A person wants to repeat it: it does not count."""
    STOP = "stop"
    """A person ended the episode and the whole run."""


class Request(NamedTuple):
    """A person's request at a tick."""

    pause: bool = False
    """Whether the robot should rest: the policy makes no step, and the tick does not count as a step of the episode."""
    command: Array | None = None
    """(A,): an action in place of the policy's, in the same unit. None: the policy drives."""
    end: Ending | None = None
    """How to end the episode at once: nothing more is written, and the adapter is stopped. None: it goes on."""


class Pilot(Protocol):
    """An input device of a person who attends the loop: a keyboard, a gamepad, a leader arm."""

    def reset(self) -> None:
        """Begin an episode: the policy drives."""

    def request(self, standing: Array | None) -> Request:
        """Return the person's request. The loop calls this at every tick; it must not block.

        Args:
            standing: (A,): the action executed last, in its unit; None before the first one.
        """


def request_of(pilot: Pilot | None, standing: Array | None) -> Request:
    """Return a pilot's request, an empty one if there is no pilot; raise SamiError if it returns something else."""
    request = pilot.request(standing) if pilot else Request()
    if not isinstance(request, Request):
        name = f"{type(pilot).__name__}.request()"
        raise SamiError(f"{name} returned {request!r}. Return a Request; Request() lets the policy drive.")
    return request
