"""Clocks that a loop can run on: the machine's, or one that a test moves by hand; and the pace of the loop's ticks."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from sami_runtime.errors import SamiError


class Clock(Protocol):
    """A time that never goes back."""

    def now(self) -> float:
        """Return the time [s] since an arbitrary start."""

    def sleep_until(self, deadline: float) -> None:
        """Return at `deadline` [s], or at once when it has passed."""


BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""The system clock that keeps counting while the machine is suspended; None where the system has none."""
_SUSPENDED_S = 0.0 if BOOTTIME is None else time.clock_gettime(BOOTTIME) - time.perf_counter()
"""How far `BOOTTIME` is ahead of `time.perf_counter` [s]: how long the machine was suspended before this import."""


class MonotonicClock:
    """The machine's monotonic clock; it also counts time while the machine is suspended, if the system can measure it.

    It equals `time.perf_counter` until the machine is suspended. From then on, stamps that an adapter takes from
    `time.perf_counter` lag behind, and its observations count as too old.

    Args:
        awake_s: How long before each deadline [s] to spin instead of sleep: a sleeping core wakes up late and with cold
            caches. 0.0003 is enough on most machines. A SamiError is raised if it is negative or not finite.
    """

    def __init__(self, awake_s: float = 0.0) -> None:
        if not 0.0 <= awake_s < math.inf:
            raise SamiError(f"awake_s is {awake_s}; it must be a number of seconds, at least 0.")
        self.awake_s = awake_s

    def now(self) -> float:
        """See `Clock`."""
        return time.perf_counter() if BOOTTIME is None else time.clock_gettime(BOOTTIME) - _SUSPENDED_S

    def sleep_until(self, deadline: float) -> None:
        """See `Clock`."""
        if (remaining := deadline - self.awake_s - self.now()) > 0:
            time.sleep(remaining)
        if self.awake_s:
            while self.now() < deadline:
                pass


class ManualClock:
    """A clock that stands still until somebody moves it; sleeping moves it to the deadline.

    It is the time of a simulation that runs as fast as it can, and a test's fake.

    >>> clock = ManualClock()
    >>> clock.advance(0.5)
    >>> clock.sleep_until(2.0)
    >>> clock.now()
    2.0
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self.deadlines: deque[float] = deque(maxlen=1000)
        """The last thousand deadlines [s] that were slept for."""

    def now(self) -> float:
        """Return the time [s]."""
        return self._now

    def sleep_until(self, deadline: float) -> None:
        """Move to `deadline` [s], unless it has passed."""
        self.deadlines.append(deadline)
        self._now = max(self._now, deadline)

    def advance(self, seconds: float) -> None:
        """Move the time forward, as slow work would."""
        self._now += seconds


class Pace:
    """Absolute deadlines at a fixed rate: after a late turn, it skips the missed ticks instead of catching up.

    Tick k is due at start + k * period, whatever happened before, so that timing errors do not add up.

    Args:
        clock: Measures the time; tick 0 is due at once.
        period: Time between two ticks [s].
    """

    def __init__(self, clock: Clock, period: float) -> None:
        self.period = period
        self.tick = 0
        """Number of the current tick."""
        self._clock = clock
        self._start = clock.now()

    @property
    def due(self) -> float:
        """When the current tick was due [s], by the clock."""
        return self._start + self.tick * self.period

    def wait(self, early: float = 0.0, prepare: Callable[[], None] | None = None) -> int:
        """Sleep until the next tick whose time has not passed yet.

        Args:
            early: How long before the tick [s] to call `prepare`. If that time has passed, `prepare` is not called.
            prepare: Called before the tick. If it takes longer than `early`, the tick begins late but is not missed.

        Returns:
            How many ticks were missed because the last turn took too long.
        """
        self.tick += 1
        periods = (self._clock.now() - self._start) / self.period
        missed = 0
        # A millionth of a period is rounding, not lateness.
        if periods > self.tick + 1e-6:
            missed = math.ceil(periods - 1e-6) - self.tick
            self.tick += missed
        if prepare and self._clock.now() <= self.due - early:
            self._clock.sleep_until(self.due - early)
            prepare()
        self._clock.sleep_until(self.due)
        return missed
