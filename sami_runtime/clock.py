"""Time, as something that a loop is given: the machine's, or one that a test moves by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A time that never goes back."""

    def now(self) -> float:
        """The time [s] since an arbitrary start."""
        ...

    def sleep_until(self, deadline: float) -> None:
        """Returns at `deadline` [s], or at once when it has passed."""
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        """The time [s] since an arbitrary start."""
        return time.perf_counter()

    def sleep_until(self, deadline: float) -> None:
        """Returns at `deadline` [s], or at once when it has passed."""
        if (left := deadline - time.perf_counter()) > 0:
            time.sleep(left)


class ManualClock:
    """A fake clock that stands still until somebody moves it; sleeping moves it to the deadline.

    >>> clock = ManualClock()
    >>> clock.advance(0.5)
    >>> clock.sleep_until(2.0)
    >>> clock.now()
    2.0
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self.deadlines: list[float] = []
        """Every deadline [s] that was slept for."""

    def now(self) -> float:
        """The time [s]."""
        return self._now

    def sleep_until(self, deadline: float) -> None:
        """Moves to `deadline` [s], unless it has passed."""
        self.deadlines.append(deadline)
        self._now = max(self._now, deadline)

    def advance(self, seconds: float) -> None:
        """Lets time pass, as slow work does."""
        self._now += seconds
