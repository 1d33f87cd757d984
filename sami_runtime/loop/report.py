"""What a loop did over many ticks: counts, limits, and the time that each section took."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from typing import NamedTuple

from sami_runtime.loop.tick import Outcome, SectionTimes, StepRecord

SECTIONS = (*SectionTimes._fields, "total", "lag")
"""What is timed: the sections of a tick, all of them together, and how late ticks began."""

ALWAYS_TOLD = (Outcome.ACTED, Outcome.HELD, Outcome.LATE, Outcome.REFUSED)
"""Outcomes that the table tells also where there were none."""

LOWEST_S = 1e-7
"""Times below this [s] count as none."""
HIGHEST_S = 1e4
"""Times above this [s] share one bin."""
GROWTH = 1.01
"""Each bin ends at so much times its beginning."""
_BINS = 2 + math.ceil(math.log(HIGHEST_S / LOWEST_S) / math.log(GROWTH))


class Percentiles(NamedTuple):
    """Of one section's time [s], to half a percent; the worst exactly."""

    p50: float
    p99: float
    p999: float
    worst: float


class Histogram:
    """Times of any number of ticks in constant memory: percentiles to half a percent, mean and worst exactly.

    It counts them in bins that grow with them.

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
        """Count one time [s]."""
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
        """Return the time [s] that so many percent do not exceed; 0 where there is none."""
        wanted, passed = percent / 100 * self.count, 0
        for at, count in enumerate(self._bins):
            passed += count
            if passed >= wanted and count:
                middle = LOWEST_S * GROWTH ** (at - 0.5) if at else 0.0
                return min(middle, self.worst)
        return 0.0


class LoopReport:
    """Counts and times of every tick that it was told about; `add` can be a loop's `on_step`.

    Adding the records of several episodes gives the report of all of them. It takes the same memory however many.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        """How many ticks came to each outcome."""
        self.limited: Counter[str] = Counter()
        """How often each limit changed an action, such as `"rate dx"`."""
        self.reasons: Counter[str] = Counter()
        """How often each kind of reason kept the policy from acting, such as `"age"`."""
        self.overruns = 0
        """Ticks that ended after the next one was due; of an episode's last one nobody knows."""
        self.missed = 0
        """Ticks that passed without a turn, because of overruns."""
        self.swaps = 0
        """How often another model took over."""
        self.times = {name: Histogram() for name in SECTIONS}
        """By what is timed."""
        self._elapsed, self._periods, self._last = 0.0, 0, 0.0

    def add(self, record: StepRecord) -> None:
        """Count one tick."""
        self.outcomes[record.outcome] += 1
        self.limited.update(record.limited_by)
        if record.reason:
            self.reasons[record.reason.partition(":")[0]] += 1
        self.overruns += record.missed > 0
        self.missed += record.missed
        self.swaps += record.swapped is not None
        for name, seconds in zip(SECTIONS, (*record.times, sum(record.times), record.lag), strict=True):
            self.times[name].add(seconds)
        if record.step > 0:
            self._elapsed += record.time - self._last
            self._periods += 1 + record.missed
        self._last = record.time

    @property
    def ticks(self) -> int:
        """How many ticks were counted."""
        return sum(self.outcomes.values())

    @property
    def mean_period(self) -> float | None:
        """Mean time from tick to tick [s], missed ones included; None before there are two."""
        return self._elapsed / self._periods if self._periods else None

    def percentiles(self) -> dict[str, Percentiles]:
        """Time [s] by section, of all four together as `total`, and how late ticks began as `lag`; empty at first."""
        if not self.ticks:
            return {}
        return {
            name: Percentiles(times.percentile(50), times.percentile(99), times.percentile(99.9), times.worst)
            for name, times in self.times.items()
        }

    def __str__(self) -> str:
        """Return a table, as `sami run` prints it at the end."""
        outcomes = ", ".join(f"{self.outcomes[outcome]} {outcome.value}" for outcome in Outcome if self._tells(outcome))
        lines = [f"{self.ticks} ticks: {outcomes}; {self.overruns} overruns, {self.missed} missed"]
        if self.swaps:
            lines[0] += f", {self.swaps} swaps of the model"
        if self.mean_period:
            lines[0] += f"; mean period {1e3 * self.mean_period:.6g} ms"
        for kind, counter in (("not acted", self.reasons), ("limited", self.limited)):
            if counter:
                lines.append(f"{kind}: " + ", ".join(f"{name} {count}" for name, count in counter.most_common()))
        lines.append("".join(f"{word:>10}" for word in ("us", "p50", "p99", "p99.9", "worst")))
        for name, row in self.percentiles().items():
            lines.append(f"{name:>10}" + "".join(f"{1e6 * value:>10.1f}" for value in row))
        return "\n".join(lines)

    def _tells(self, outcome: Outcome) -> bool:
        return outcome in ALWAYS_TOLD or self.outcomes[outcome] > 0
