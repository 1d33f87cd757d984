"""An adapter that only watches another one: nothing is ever written to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.around import Around
from sami_runtime.adapters.base import Executed, Observation


class DryRun(Around):
    """Passes everything on but `write`: the action that would have been written counts as executed.

    `reset` and `stop` are passed on, so an adapter whose reset moves the robot moves it.

    Args:
        inner: The adapter that is not written to.
    """

    def read(self) -> Observation:
        """Return what the watched adapter observes."""
        return self.observed()

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Nothing, but for saying that the action was executed."""
        return Executed(np.array(action, np.float32))
