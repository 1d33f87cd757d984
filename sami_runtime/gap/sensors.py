"""Sensors that tell something else than what is there: one class a kind of error.

Each class begins an episode with what is drawn for it, and then changes at every tick what the sensors say, in place.
What a kind does not touch stays as it is, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sami_runtime.gap.draw import Draw, Float64, whole_periods

FOREVER = 2.0**53
"""A tick that no episode reaches."""


class Sensor(Protocol):
    """One kind of error."""

    def begin(self, draw: Draw) -> None:
        """Begin an episode."""
        ...

    def apply(self, values: Float64, tick: int) -> None:
        """Change what the sensors say at a tick, (D,)."""
        ...


class Bias:
    """A constant error within an episode: an offset and an error of gain."""

    def begin(self, draw: Draw) -> None:
        """Take both from the draw."""
        offset, gain = draw.elements("bias"), draw.elements("bias_relative")
        self._at = np.flatnonzero((offset != 0) | (gain != 0))
        self._offset, self._gain = offset[self._at], gain[self._at]

    def apply(self, values: Float64, tick: int) -> None:
        """Add the error."""
        values[self._at] += self._gain * values[self._at] + self._offset


class Noise:
    """White normal noise, its deviation constant or a share of the value."""

    def begin(self, draw: Draw) -> None:
        """Take deviations and stream from the draw."""
        constant, share = draw.elements("noise"), draw.elements("noise_relative")
        self._at = np.flatnonzero((constant != 0) | (share != 0))
        self._constant, self._share = constant[self._at], share[self._at]
        self._stream = draw.noise

    def apply(self, values: Float64, tick: int) -> None:
        """Add the noise of this tick."""
        deviation = self._constant + self._share * np.abs(values[self._at])
        values[self._at] += deviation * self._stream.standard_normal(len(self._at))


class Quantisation:
    """Rounding to the nearest multiple of a step."""

    def begin(self, draw: Draw) -> None:
        """Take the steps from the draw."""
        steps = draw.elements("quantisation")
        self._at = np.flatnonzero(steps)
        self._steps = steps[self._at]

    def apply(self, values: Float64, tick: int) -> None:
        """Round."""
        values[self._at] = np.round(values[self._at] / self._steps) * self._steps


class Sticking:
    """Sensors that stick and go on to say the same, for some time.

    Args:
        period: Time between two ticks [s].
    """

    def __init__(self, period: float) -> None:
        self._period = period

    def begin(self, draw: Draw) -> None:
        """Take from the draw when each number sticks, and for how long."""
        first, lasts = draw.elements("stuck_at_s"), draw.elements("stuck_for_s")
        self._at = np.flatnonzero(np.isfinite(first))
        first, end = first[self._at], first[self._at] + lasts[self._at]
        self._first, self._end = (self._ticks(times) for times in (first, end))
        self._kept = np.zeros(len(self._at))

    def apply(self, values: Float64, tick: int) -> None:
        """Keep the value of the tick at which a number sticks, until it works again."""
        if not len(self._at):
            return
        readings = values[self._at]
        self._kept = np.where(self._first == tick, readings, self._kept)
        values[self._at] = np.where((self._first <= tick) & (tick < self._end), self._kept, readings)

    def _ticks(self, times: Float64) -> Float64:
        return np.array([whole_periods(min(time / self._period, FOREVER)) for time in times], np.float64)


class Copies:
    """Signals that come from another one's sensor, and say what that one says.

    Args:
        pairs: Where a signal lies, and where the one lies that it copies.
    """

    def __init__(self, pairs: Sequence[tuple[slice, slice]]) -> None:
        self._pairs = pairs

    def begin(self, draw: Draw) -> None:
        """Nothing is drawn."""

    def apply(self, values: Float64, tick: int) -> None:
        """Copy."""
        for target, source in self._pairs:
            values[target] = values[source]
