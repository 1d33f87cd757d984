"""Time, as something that a loop is given: the machine's, or one that a test moves by hand."""

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
"""The system's clock that goes on while the machine is suspended, where there is one."""
_SLEPT_BEFORE = 0.0 if BOOTTIME is None else time.clock_gettime(BOOTTIME) - time.perf_counter()
"""What it is ahead of `time.perf_counter` [s]: how long the machine was suspended before now."""


class MonotonicClock:
    """The machine's monotonic clock, on which time passes also while the machine is suspended, where it can tell.

    It is `time.perf_counter` until that happens: an adapter that stamps by that one falls behind from then on, and what
    it observes counts as too old.

    Args:
        awake_s: How long before each deadline [s] it stays awake instead of asleep: a sleeping core wakes up late, and
            cold. It costs so much of a core at every tick; 0.0003 is enough on most machines.
    """

    def __init__(self, awake_s: float = 0.0) -> None:
        if not 0.0 <= awake_s < math.inf:
            raise SamiError(f"awake_s is {awake_s}; it must be a number of seconds, at least 0.")
        self.awake_s = awake_s

    def now(self) -> float:
        """See `Clock`."""
        return time.perf_counter() if BOOTTIME is None else time.clock_gettime(BOOTTIME) - _SLEPT_BEFORE

    def sleep_until(self, deadline: float) -> None:
        """See `Clock`."""
        if (left := deadline - self.awake_s - self.now()) > 0:
            time.sleep(left)
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
        """Lets time pass, as slow work does."""
        self._now += seconds


class Pace:
    """Absolute deadlines at a fixed rate: a late turn skips ticks and never makes up for them in a burst.

    Tick k is due at start + k * period, whatever happened before, so that no error adds up.

    Args:
        clock: Whose time it is; tick 0 is now.
        period: Time between two ticks [s].
    """

    def __init__(self, clock: Clock, period: float) -> None:
        self.period = period
        self.tick = 0
        """Number of the tick that runs now."""
        self._clock = clock
        self._start = clock.now()

    @property
    def due(self) -> float:
        """When the tick that runs now was due [s]."""
        return self._start + self.tick * self.period

    def wait(self, early: float = 0.0, prepare: Callable[[], None] | None = None) -> int:
        """Sleeps until the next tick that lies ahead.

        Args:
            early: How long before the tick [s] to prepare it. If that moment has passed, the tick goes unprepared.
            prepare: What to do then. Where it takes longer, the tick begins late; it is not missed.

        Returns:
            How many ticks passed without a turn, because the last turn ended after its deadline.
        """
        self.tick += 1
        passed = (self._clock.now() - self._start) / self.period
        missed = 0
        # A millionth of a period is rounding, not lateness.
        if passed > self.tick + 1e-6:
            missed = math.ceil(passed - 1e-6) - self.tick
            self.tick += missed
        if prepare and self._clock.now() <= self.due - early:
            self._clock.sleep_until(self.due - early)
            prepare()
        self._clock.sleep_until(self.due)
        return missed
