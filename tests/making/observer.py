"""An observer that judges writes by its own arithmetic in float64, and shares no code with the safety gate."""

from collections import Counter

import numpy as np

from tests.making.allowed_writes import AllowedWrites

ROUNDING = 1e-6
"""Tolerance for the rounding of float32 of an action of about 1, in its unit."""


class Observer:
    """Sees every write at the robot's side, and judges it.

    Args:
        low: Smallest allowed value of any element of an action.
        high: Largest allowed value.
        rate: Largest rate of change [1/s].
        period: Of the loop [s]; the rate allows the change of two periods at most, and of one for the first write.
        exact: Whether the gate ruled at the time of the write, as with a clock that stands still during a tick.
        compares: Whether bounds and rate are the only limits, so that the observer can predict `limited_by`.
    """

    def __init__(self, low, high, rate, period, exact=True, compares=True):
        self.low, self.high = float(np.float32(low)), float(np.float32(high))
        self.compares = compares and exact
        self.rate, self.period, self.exact = rate, period, exact
        self.counts = Counter()
        """Numbers of writes, ticks, missed ticks, ..., and of limited actions by limit."""
        self.violations = []
        """Descriptions of violations, at most 20."""
        self.may_write = False
        self.begin()

    def begin(self):
        """Begin an episode."""
        self.may_write = True
        self.written, self.limited, self.start = None, None, np.zeros(2)
        self.at, self.tick, self.first = 0.0, None, None
        self.allowed = AllowedWrites(self.low, self.high, self.rate, self.period)

    def end(self, reason):
        """Note that the gate tripped or the robot was stopped: no write is allowed until the next episode."""
        self.may_write = False
        self.counts[reason] += 1

    def read(self, now):
        """Note that a tick begins at this time [s]."""
        self.counts["reads"] += 1
        self.limited = self.last_executed = None
        self.first = now if self.first is None else self.first
        tick = round((now - self.first) / self.period)
        self.passed = 0 if self.tick is None else tick - self.tick - 1
        self.tick = tick

    def write(self, action, now):
        """Judge an action that is written at this time [s]."""
        self.counts["writes"] += 1
        values = np.array(action, np.float64)
        if not self.may_write:
            self._object(f"{values} was written after a stop or a trip")
        if values.shape != (2,) or not np.isfinite(values).all():
            self._object(f"{values} was written")
            return
        self.start = np.zeros(2) if self.written is None else self.written
        span = self.period if self.written is None else min(max(now - self.at, 0.0), 2 * self.period)
        self.longest = self.rate * span
        objection = self.allowed.judge(values, now if self.exact else 3 * self.period * self.counts["writes"])
        if objection:
            self._object(objection)
        self.written, self.at = values, now

    def report_executed(self, executed):
        """Note the executed action (2,) that the robot reports."""
        self.last_executed = np.array(executed, np.float32)

    def judge(self, record):
        """Compare the loop's record of a tick with the observed reads and writes."""
        if not self.exact:  # the operating system may suspend a process between the tick and its read
            due = record.time - record.lag
            self.due, passed = (due, 0) if record.step == 0 else (self.due, round((due - self.due) / self.period))
            self.passed, self.tick = passed - (0 if record.step == 0 else self.last_period + 1), passed
            self.last_period = passed
        self.counts["ticks"] += 1
        self.counts["missed"] += self.passed
        self.counts["overruns"] += self.passed > 0
        self.counts[record.outcome.value] += 1
        report = None if record.executed is None else record.executed.tobytes()
        if report != (None if self.last_executed is None else self.last_executed.tobytes()):
            self._object(f"executed: {record.executed} is said, {self.last_executed} was")
        if self.last_executed is None:
            return
        adapter = self._names("adapter", self.last_executed != self.written)
        if record.outcome.value == "acted":
            proposed = record.action.astype(np.float64)
            bounded = proposed.clip(self.low, self.high)
            too_fast = np.abs(bounded - self.start) - self.longest
            if self.compares and (np.abs(too_fast) > ROUNDING).all():
                limits = (*self._names("bounds", bounded != proposed), *self._names("rate", too_fast > 0), *adapter)
                self._compare(limits, record.limited_by)
        results = [name for name in record.limited_by if name.startswith("adapter")]
        self._compare(adapter, tuple(results))
        self.counts.update(adapter)

    def _compare(self, expected, message):
        if expected != message:
            self._object(f"limited by {expected}, said is {message}")

    def _names(self, limit, where):
        return tuple(f"{limit} {name}" for name, is_there in zip(("fx", "fy"), where, strict=True) if is_there)

    def _object(self, message):
        if len(self.violations) < 20:
            self.violations.append(f"tick {self.tick}: {message}")


def resident_bytes():
    """Return the resident memory of this process [bytes]."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
