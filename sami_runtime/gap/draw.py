"""The numbers of one episode's gap: a profile's own, and one from each of its ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sami_runtime.gap.profile import OF_ACTIONS, OF_ALL_SIGNALS, OF_EACH_ELEMENT, OF_EACH_SIGNAL, GapProfile, Span

FIXED = ("stuck_at_s",)
"""Keys that a smaller gap does not make smaller: a sensor that sticks does so for a shorter time."""
LONGEST = 1e12
"""Stands for infinity where that is multiplied [s]."""

Float64 = NDArray[np.float64]
ROUNDING = 1e-6
"""Share of a period that is no difference."""


def whole_periods(count: float) -> int:
    """Return the nearest whole number of periods, half a period up."""
    return math.floor(count + 0.5 + ROUNDING)


class Draw:
    """What a profile is in one episode, and the streams of what is random at every tick.

    Ranges are drawn in the order of the profile's keys, those of signals and lines one after the other. Every kind of
    gap that is random at every tick has a stream of its own, so that it does not change the luck of another.

    Args:
        profile: What the gap is.
        where: Where each signal lies in what is observed, in order: D numbers.
        root: The episode's seed.
        size: Share of the profile that the gap has, see `Gap.begin`.
        actions: Names of the action's elements.
    """

    def __init__(
        self,
        profile: GapProfile,
        where: Mapping[str, slice],
        root: np.random.SeedSequence,
        size: float = 1.0,
        actions: Sequence[str] = (),
    ) -> None:
        self._rng, self.noise, self.loss, self.jitter = (np.random.default_rng(child) for child in root.spawn(4))
        self._numbers: dict[str, float | dict[str, float]] = {}
        lines = dict.fromkeys(map(profile.line_of, where))
        for key in OF_ALL_SIGNALS:
            if isinstance(value := getattr(profile, key), dict):
                self._numbers[key] = {line: float(self._drawn(value.get(line, 0.0))[0]) * size for line in lines}
            else:
                self._numbers[key] = float(self._drawn(value)[0]) * size
        self._elements = {key: np.zeros(max(columns.stop for columns in where.values())) for key in OF_EACH_SIGNAL}
        for name, columns in where.items():
            for key, values in self._elements.items():
                drawn = columns.stop - columns.start if key in OF_EACH_ELEMENT else 1
                values[columns] = self._drawn(profile.of_signal(key, name), drawn)
        if size != 1.0:
            for key in self._elements.keys() - FIXED:
                self._elements[key] = np.minimum(self._elements[key], LONGEST) * size
        pace, limit, commit = (self._of_elements(profile, key, actions) for key in OF_ACTIONS)
        self.pace = 1.0 + (pace - 1.0) * size
        """Share of each element of an action that is executed, (A,), or (1,) where they are alike."""
        self.limit = limit / size if size else np.full_like(limit, math.inf)
        """Most of each element, the same way."""
        self.commit = commit * size
        """How long each goes on at its limit [s], the same way."""

    def number(self, key: str, line: str = "") -> float:
        """Return the episode's value of a key for all signals, or for a line, see `GapProfile.line_of`."""
        value = self._numbers[key]
        return value[line] if isinstance(value, dict) else value

    def elements(self, key: str) -> Float64:
        """Return the episode's value of a key for each number that is observed, (D,)."""
        return self._elements[key]

    def _of_elements(self, profile: GapProfile, key: str, actions: Sequence[str]) -> Float64:
        value, default = getattr(profile, key), type(profile).model_fields[key].default
        if not isinstance(value, dict):
            return self._drawn(value)
        return np.array([float(self._drawn(value.get(name, default))[0]) for name in actions])

    def _drawn(self, span: Span, size: int = 1) -> Float64:
        return self._rng.uniform(*span, size) if isinstance(span, tuple) else np.full(size, span)
