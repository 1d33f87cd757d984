"""The numbers of one episode's gap: a profile's own, and one from each of its ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sami_runtime.gap.profile import OF_ALL_SIGNALS, OF_EACH_ELEMENT, OF_EACH_SIGNAL, GapProfile, Span

Float64 = NDArray[np.float64]
ROUNDING = 1e-6
"""Share of a period that is no difference."""


def whole_periods(count: float) -> int:
    """Return the nearest whole number of periods, half a period up."""
    return math.floor(count + 0.5 + ROUNDING)


class Draw:
    """What a profile is in one episode, and the streams of what is random at every tick.

    Ranges are drawn in the order of the profile's keys, those of signals one signal after the other. Every kind of gap
    that is random at every tick has a stream of its own, so that it does not change the luck of another.

    Args:
        profile: What the gap is.
        where: Where each signal lies in what is observed, in order: D numbers.
        root: The episode's seed.
    """

    def __init__(self, profile: GapProfile, where: Mapping[str, slice], root: np.random.SeedSequence) -> None:
        self._rng, self.noise, self.loss, self.jitter = (np.random.default_rng(child) for child in root.spawn(4))
        self._numbers = {key: float(self._drawn(getattr(profile, key))[0]) for key in OF_ALL_SIGNALS}
        size = max(each.stop for each in where.values())
        self._elements = {key: np.zeros(size) for key in OF_EACH_SIGNAL}
        for name, each in where.items():
            for key, values in self._elements.items():
                drawn = each.stop - each.start if key in OF_EACH_ELEMENT else 1
                values[each] = self._drawn(profile.of_signal(key, name), drawn)

    def number(self, key: str) -> float:
        """Return the episode's value of a key that has one for all signals."""
        return self._numbers[key]

    def elements(self, key: str) -> Float64:
        """Return the episode's value of a key for each number that is observed, (D,)."""
        return self._elements[key]

    def _drawn(self, span: Span, size: int = 1) -> Float64:
        return self._rng.uniform(*span, size) if isinstance(span, tuple) else np.full(size, span)
