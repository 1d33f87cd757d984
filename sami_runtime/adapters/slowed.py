"""An adapter as a policy sees it that acts more slowly than it learned to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.around import Around
from sami_runtime.adapters.base import Adapter, Executed, Observation
from sami_runtime.errors import SamiError


class Slowed(Around):
    """Tells speeds as they would be at the policy's own pace: so many times as high.

    A policy that is asked every third of its periods lives in a world three times as quick as the real one: what moves
    by 1 cm between two of its steps moves at a third of the speed that it would have in training. Signals in a unit by
    second are multiplied, accelerations twice; everything else is passed on as it is.

    Args:
        inner: The adapter behind.
        slower: How many of its periods a policy's step takes.

    Raises:
        SamiError: That is less than 1.
    """

    def __init__(self, inner: Adapter, slower: int) -> None:
        super().__init__(inner)
        if slower < 1:
            raise SamiError(f"slower is {slower}; a step takes at least 1 of the policy's periods.")
        self._powers = {signal.name: _by_second(signal.unit) for signal in inner.observation}
        self._slower = slower

    def read(self) -> Observation:
        """Return what the adapter behind observes, with speeds as the policy knows them."""
        seen = self.observed()
        values = {name: self._slowed_value(name, value) for name, value in seen.values.items()}
        return replace(seen, values=values)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Pass an action on."""
        return self.sent(action)

    def _slowed_value(self, name: str, value: NDArray[np.float32]) -> NDArray[np.float32]:
        power = self._powers.get(name, 0)
        try:
            return np.asarray(value, np.float32) * np.float32(self._slower**power) if power else value
        except (TypeError, ValueError):
            return value  # no numbers: the session that reads them names the signal


def _by_second(unit: str) -> int:
    """Return how many times a unit is by second: 1 of `m/s`, 2 of `m/s2` and `rad/s^2`."""
    _, slash, by = unit.partition("/")
    return {"s": 1, "s2": 2, "s^2": 2, "s²": 2}.get(by, 0) if slash else 0
