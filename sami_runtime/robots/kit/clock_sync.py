"""Another clock's stamps as times of ours, from when their messages came."""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise

from sami_runtime.errors import AdapterError

SLOT_S = 0.25
"""Of the messages of so long a time [s], the quickest one counts."""
ENOUGH = 10
"""Messages after which one that comes too early is a stepped clock, and no late beginning."""
PATIENCE = 5
"""Messages in a row that are older than those before, until that is a stepped clock, and no overtaken message."""

Pair = tuple[float, float]


class ClockSync:
    """Offset and drift of a clock, by the quickest of its messages: no delay is below the smallest one.

    The line of our time over theirs is the highest one that no message lies below, so that messages may be as late as
    they like. It cannot tell a delay that every message has from an offset: say it as `delay_s`, from the sensor's
    data sheet or a measurement. One thread at a time.

    >>> sync = ClockSync(delay_s=0.01)
    >>> for tick in range(100):
    ...     stamp = sync.local_time(stamp=5.0 + 0.1 * tick, received=100.01 + 0.1 * tick)
    >>> round(stamp, 6), round(sync.offset, 6)
    (109.9, 95.0)

    Args:
        delay_s: The smallest time [s] from a measurement to its message: exposure, transfer, computation.
        step_s: How far [s] a clock may leap without being taken for another one.
        memory_s: How long [s] messages count; drifts change with the temperature.
        max_drift: Largest drift that is believed; a quartz has 1e-4 at most.

    Raises:
        AdapterError: An argument is not positive, or the delay is negative.
    """

    def __init__(
        self, delay_s: float = 0.0, step_s: float = 0.05, memory_s: float = 60.0, max_drift: float = 1e-3
    ) -> None:
        if not (0.0 <= delay_s < math.inf and step_s > 0.0 and memory_s > SLOT_S and max_drift >= 0.0):
            raise AdapterError(
                f"a clock with delay_s {delay_s}, step_s {step_s}, memory_s {memory_s} and max_drift {max_drift} "
                f"cannot be followed. Give a delay of 0 or more, a step above 0, a memory above {SLOT_S} s and a drift "
                "of 0 or more."
            )
        self.delay_s, self.step_s, self.memory_s, self.max_drift = delay_s, step_s, memory_s, max_drift
        self.steps = 0
        """How often the clock was seen to step; each time what was learned about it was forgotten."""
        self.drift: float = 0.0
        """Seconds that our clock gains in a second of theirs."""
        self._forget()

    @property
    def offset(self) -> float:
        """Our time minus theirs [s], now; NaN before the first message."""
        return self._at(self._newest) - self.delay_s if self._quickest else math.nan

    def local_time(self, stamp: float, received: float) -> float:
        """Return when something was measured, by our clock [s].

        Args:
            stamp: Its stamp [s], by their clock.
            received: When its message came [s], by ours.

        Raises:
            AdapterError: A time is not finite.
        """
        if not (math.isfinite(stamp) and math.isfinite(received)):
            raise AdapterError(f"a message was stamped {stamp} and came at {received}; times are finite seconds.")
        if self._stepped(stamp, received - stamp):
            self._forget()
            self.steps += 1
        self._learn(stamp, received - stamp)
        return min(stamp + self._at(stamp) - self.delay_s, received)

    def _forget(self) -> None:
        self._quickest: deque[Pair] = deque()
        """Of each slot."""
        self._newest: float = -math.inf
        """Of the stamps that taught something, and that of the slot's first message."""
        self._slot: float = -math.inf
        self._last: float = -math.inf
        """The stamp before, which may be older, and how many of these came in a row."""
        self._behind: int = 0
        self._count: int = 0
        self._foot: Pair = (math.nan, 0.0)
        """Height of the line at some stamp."""
        self.drift = 0.0

    def _stepped(self, stamp: float, later: float) -> bool:
        """Whether a message comes before it can, or a row of them tells of a time that has passed."""
        if not self._quickest:
            return False
        behind = stamp < self._newest - self.step_s
        self._behind = self._behind + 1 if behind and stamp >= self._last else int(behind)
        self._last = stamp
        ahead = self._count >= ENOUGH and later < self._at(stamp) - self.step_s
        return ahead or self._behind >= PATIENCE

    def _learn(self, stamp: float, later: float) -> None:
        self._count += 1
        if stamp < self._newest:
            return  # overtaken by another one: it is late, and late ones teach nothing
        self._newest = stamp
        if self._quickest and stamp < self._slot + SLOT_S:
            if later >= self._quickest[-1][1]:
                return
            self._quickest[-1] = stamp, later
        else:
            self._slot = stamp
            self._quickest.append((stamp, later))
        while self._quickest[0][0] < stamp - self.memory_s:
            self._quickest.popleft()
        self._fit()

    def _fit(self) -> None:
        """Lay the line below the messages, as high as it goes on the average."""
        middle = sum(x for x, _ in self._quickest) / len(self._quickest)
        below = _lower_hull(self._quickest)
        # The edge above the middle is the one that lies highest on the average.
        start, end = next(
            ((point, other) for point, other in pairwise(below) if other[0] >= middle),
            (below[0], below[0]),
        )
        slope = (end[1] - start[1]) / (end[0] - start[0]) if end[0] > start[0] else 0.0
        self.drift = max(-self.max_drift, min(self.max_drift, slope))
        self._foot = min((y - self.drift * (x - middle), middle) for x, y in below)

    def _at(self, stamp: float) -> float:
        """Return how much later than its stamp the quickest message of a moment comes [s]."""
        height, middle = self._foot
        return height + self.drift * (stamp - middle)


def _lower_hull(points: deque[Pair]) -> list[Pair]:
    """Return the corners of the hull below points, which come in the order of their x."""
    hull: list[Pair] = []
    for x, y in points:
        while len(hull) > 1:
            (ax, ay), (bx, by) = hull[-2:]
            if (bx - ax) * (y - ay) > (by - ay) * (x - ax):
                break
            hull.pop()
        hull.append((x, y))
    return hull
