"""Velocities from stamped readings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.errors import AdapterError
from sami_runtime.robots.kit.rotation import Array, as_text, numbers, rotation_vector


class Differentiator:
    """Estimates a velocity as the slope of readings over their stamps; 0 until there are two readings.

    >>> velocity = Differentiator()
    >>> velocity([0.0, 0.0], time=1.0), velocity([0.1, -0.2], time=1.5)
    (array([0., 0.]), array([ 0.2, -0.4]))

    A reading that is not newer than the last, because it was sent twice or overtaken, has no effect.

    Args:
        window_s: Time [s] over which readings are fitted by least squares; at least the two newest count. A longer
            window reduces noise, and adds half of its length as delay.
        period: Period of cyclic readings, such as 2 pi for angles [rad] that jump from pi to -pi; None if not cyclic.
    """

    def __init__(self, window_s: float = 0.0, period: float | None = None) -> None:
        if not window_s >= 0.0 or (period is not None and not period > 0.0):
            raise AdapterError(
                f"window_s is {window_s} and period {period}; give a window of 0 s or more, and a period above 0 or "
                "None."
            )
        self.window_s, self.period = window_s, period
        self._between: Callable[[Array, Array], Array] = self._difference
        self.reset()

    @classmethod
    def of_rotations(cls, window_s: float = 0.0) -> Differentiator:
        """Return a differentiator of rotations (3, 3) to angular velocities (3,) [rad/s] about the fixed axes.

        A rotation by more than half a turn between two readings counts as the shorter rotation the other way.
        """
        result = cls(window_s)
        result._between = lambda before, now: rotation_vector(now @ before.T)
        return result

    def reset(self) -> None:
        """Forget all readings; the next reading has a velocity of 0."""
        self._last: Array | None = None
        self._path: deque[tuple[float, Array]] = deque()
        self._velocity: Array = np.zeros(0)

    def __call__(self, value: ArrayLike, time: float) -> NDArray[np.float64]:
        """Return the velocity, in the value's unit per second.

        Args:
            value: A reading.
            time: Time of its measurement [s].

        Raises:
            AdapterError: The reading or its stamp is not finite, or the reading has another shape than the last.
        """
        now = numbers(value, (), "a reading")
        if not np.isfinite(time):
            raise AdapterError(f"a reading {as_text(now)} is stamped {time}; stamps are finite seconds.")
        if self._last is None:
            self._last = now
            self._path.append((time, np.zeros_like(self._between(now, now))))
            self._velocity = self._path[-1][1]
        elif now.shape != self._last.shape:
            raise AdapterError(f"a reading has shape {now.shape}, and the one before {self._last.shape}.")
        elif time > self._path[-1][0]:
            self._path.append((time, self._path[-1][1] + self._between(self._last, now)))
            self._last = now
            while len(self._path) > 2 and self._path[0][0] < time - self.window_s * (1 + 1e-6):  # stamps are rounded
                self._path.popleft()
            self._velocity = self._slope()
        return self._velocity.copy()

    def _difference(self, before: Array, now: Array) -> Array:
        change = now - before
        return change if self.period is None else change - self.period * np.round(change / self.period)

    def _slope(self) -> Array:
        times = np.array([time for time, _ in self._path])
        path = np.array([place for _, place in self._path])
        times -= times.mean()
        slope: Array = np.tensordot(times, path, 1) / (times @ times)
        return slope
