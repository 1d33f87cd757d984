"""Times of any number of ticks in constant memory: percentiles to half a percent, the mean and the worst exactly."""

from __future__ import annotations

import math
from array import array

LOWEST_S = 1e-7
"""Times below this [s] count as none."""
HIGHEST_S = 1e4
"""Times above this [s] share one bin."""
GROWTH = 1.01
"""Each bin ends at so much times its beginning."""
_BINS = 2 + math.ceil(math.log(HIGHEST_S / LOWEST_S) / math.log(GROWTH))


class Histogram:
    """Counts times in bins that grow with them.

    >>> times = Histogram()
    >>> for milliseconds in range(1, 101):
    ...     times.add(milliseconds / 1000)
    >>> round(times.percentile(50), 3), times.worst
    (0.05, 0.1)
    """

    def __init__(self) -> None:
        self.count = 0
        """How many times were added."""
        self.total = 0.0
        """Their sum [s]."""
        self.worst = 0.0
        """The largest [s]."""
        self._bins = array("Q", bytes(8 * _BINS))

    def add(self, seconds: float) -> None:
        """Counts one time [s]."""
        self.count += 1
        self.total += seconds
        if seconds > self.worst:
            self.worst = seconds
        at = 1 + int(math.log(min(seconds, HIGHEST_S) / LOWEST_S) / math.log(GROWTH)) if seconds >= LOWEST_S else 0
        self._bins[at] += 1

    @property
    def mean(self) -> float:
        """Their mean [s]; 0 where there is none."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The time [s] that so many percent do not exceed; 0 where there is none."""
        wanted, passed = percent / 100 * self.count, 0
        for at, count in enumerate(self._bins):
            passed += count
            if passed >= wanted and count:
                middle = LOWEST_S * GROWTH ** (at - 0.5) if at else 0.0
                return min(middle, self.worst)
        return 0.0
