"""Converts stamps of another clock to times of ours, based on when the stamped messages arrived."""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise

from sami_runtime.errors import AdapterError

SLOT_S = 0.25
"""Only the message with the smallest delay in each slot of this time [s] counts."""
ENOUGH = 10
"""Messages after which a too early message means a clock step, rather than that all messages before were late."""
PATIENCE = 5
"""Old messages in a row that mean a clock step, rather than messages that were overtaken."""

Pair = tuple[float, float]


class ClockSync:
    """Estimates offset and drift of another clock from its messages with the smallest delays.

    It fits the highest line of (receipt - stamp) over the stamp that has no message below, so that late messages have
    no effect. A delay common to all messages looks like an offset: pass it as `delay_s`, from the sensor's data sheet
    or a measurement. Use it from one thread at a time.

    >>> sync = ClockSync(delay_s=0.01)
    >>> for tick in range(100):
    ...     stamp = sync.local_time(stamp=5.0 + 0.1 * tick, received=100.01 + 0.1 * tick)
    >>> round(stamp, 6), round(sync.offset, 6)
    (109.9, 95.0)

    Args:
        delay_s: The smallest time [s] from a measurement to its message: exposure, transfer, computation.
        step_s: Largest leap [s] of the clock that does not count as a step.
        memory_s: Time [s] for which messages count, as drift changes with the temperature.
        max_drift: Largest drift that is accepted; a quartz clock has at most 1e-4.

    Raises:
        AdapterError: An argument is out of range: negative, 0 for `step_s`, or at most 0.25 s for `memory_s`.
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
        """Number of detected clock steps; each of them resets the estimate."""
        self.drift: float = 0.0
        """Seconds that our clock gains per second of the other clock."""
        self._forget()

    @property
    def offset(self) -> float:
        """Our time minus the other clock's [s] at the newest message; NaN before the first."""
        return self._at(self._newest) - self.delay_s if self._quickest else math.nan

    def local_time(self, stamp: float, received: float) -> float:
        """Return the time of a measurement, by our clock [s]; never later than the receipt.

        Args:
            stamp: The measurement's stamp [s], by the other clock.
            received: Receipt of its message [s], by our clock.

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
        """Stamp and (receipt - stamp) of the quickest message of each slot."""
        self._newest: float = -math.inf
        """The newest stamp; `_slot` is the stamp of the first message of the present slot."""
        self._slot: float = -math.inf
        self._last: float = -math.inf
        """The stamp of the last message, which may be old; `_behind` is the number of old messages in a row."""
        self._older_stamps: int = 0
        self._count: int = 0
        self._foot: Pair = (math.nan, 0.0)
        """A point of the line: its height, and the stamp there."""
        self.drift = 0.0

    def _stepped(self, stamp: float, later: float) -> bool:
        """Whether a message arrives too early to be possible, or too many in a row have old stamps."""
        if not self._quickest:
            return False
        is_older = stamp < self._newest - self.step_s
        self._older_stamps = self._older_stamps + 1 if is_older and stamp >= self._last else int(is_older)
        self._last = stamp
        ahead = self._count >= ENOUGH and later < self._at(stamp) - self.step_s
        return ahead or self._older_stamps >= PATIENCE

    def _learn(self, stamp: float, later: float) -> None:
        self._count += 1
        if stamp < self._newest:
            return  # an overtaken message is late and adds no information
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
        """Fit the line that has no message below and the greatest mean height."""
        middle = sum(x for x, _ in self._quickest) / len(self._quickest)
        below = _lower_hull(self._quickest)
        # The edge of the lower hull at the mean stamp has the greatest mean height.
        start, end = next(
            ((point, other) for point, other in pairwise(below) if other[0] >= middle), (below[0], below[0])
        )
        slope = (end[1] - start[1]) / (end[0] - start[0]) if end[0] > start[0] else 0.0
        self.drift = max(-self.max_drift, min(self.max_drift, slope))
        self._foot = min((y - self.drift * (x - middle), middle) for x, y in below)

    def _at(self, stamp: float) -> float:
        """Return the line's (receipt - stamp) at a stamp [s], which is that of the quickest messages."""
        height, middle = self._foot
        return height + self.drift * (stamp - middle)


def _lower_hull(points: deque[Pair]) -> list[Pair]:
    """Return the corners of the lower convex hull of points, which are in the order of x."""
    hull: list[Pair] = []
    for x, y in points:
        while len(hull) > 1:
            (ax, ay), (bx, by) = hull[-2:]
            if (bx - ax) * (y - ay) > (by - ay) * (x - ax):
                break
            hull.pop()
        hull.append((x, y))
    return hull
