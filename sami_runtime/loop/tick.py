"""The record of one tick of a control loop: observation, action, limits, executed action, and times.

`LoopReport` counts the records of many ticks.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.model.contract import ACTION, CONTEXT, Contract
from sami_runtime.session.telemetry import Reading

Array = NDArray[np.float32]


class Outcome(str, Enum):
    """The outcome of a tick."""

    ACTED = "acted"
    """The policy made a step, and its action went to the gate."""
    STANDING = "standing"
    """The tick is between two ticks of the policy, whose last action stays in force."""
    HELD = "held"
    """The gate refused the observation, or its age exceeds the policy's lookahead; the policy made no step."""
    LATE = "late"
    """The policy's output came after its deadline and was dropped."""
    REFUSED = "refused"
    """The observation or the output was not finite, or the inference failed."""
    FALLBACK = "fallback"
    """The policy had been held for too long, and the gate's fallback acted; the reason says why the policy did not."""
    PILOTED = "piloted"
    """A person drove: the policy made a step, but the person's command went to the gate in place of its action."""
    PAUSED = "paused"
    """A person paused the robot: nothing was read, and the policy made no step."""


STEPPED = (Outcome.ACTED, Outcome.PILOTED)
"""Outcomes of a tick at which the policy made a step, whether policy or person drove."""


class SectionTimes(NamedTuple):
    """How long the sections of one tick took."""

    observe: float
    """The adapter's read [s]."""
    infer: float
    """The gate's check of the observation, and the session's step [s]."""
    gate: float
    """The safety gate's ruling on the action [s]."""
    write: float
    """The adapter's write [s]."""


class Swapped(NamedTuple):
    """A model that replaced another one in a running loop."""

    path: str
    """The model's file."""
    weights_sha256: str
    contract: Contract
    fed_from: int = 0
    """0; in recordings of earlier versions, the step of the episode from which on the model's state was rebuilt."""
    fed: int = 0
    """Number of steps in the episode before the model took over; 0 at an episode's beginning."""


@dataclass(frozen=True)
class StepRecord:
    """Everything about one tick of a loop. The policy's recurrent state changed only if it `stepped`."""

    step: int
    """Index of the tick in the episode, from 0."""
    outcome: Outcome
    observation: Observation | None
    """None between two ticks of the policy, except where a read between them caused a hold; None while paused."""
    action: Array | None
    """(A,): the policy's last proposal, in the action's unit; None before the first, or if it could not act now."""
    executed: Array | None
    """(A,): the action really sent. None if nothing was sent: there was no action to repeat, or the gate tripped."""
    context: Array
    """(C,): the context that the policy inferred last."""
    info: Mapping[str, Any]
    """The adapter's last `Executed.info`."""
    times: SectionTimes
    reason: str = ""
    """Why the policy did not act or the gate stopped the robot, its kind first: `"age: ..."`, `"pause: ..."`."""
    limited_by: tuple[str, ...] = ()
    """Every limit that changed the action, each as `"rate dx"`; `"stop"` if the gate tripped."""
    time: float = 0.0
    """When the tick began [s], by the loop's clock."""
    age: float | Mapping[str, float] = 0.0
    """Observation age plus command delay when the policy was last due [periods of the policy]: of all signals, or by
    signal."""
    passed: int = 1
    """Steps of the policy since the last tick at which it was due; more than 1 if some were missed. 0 between two such
    ticks, and at a tick that could not act but, with `slower`, may try the same step again in the next period."""
    lag: float = 0.0
    """How long after its due time the tick began [s]."""
    missed: int = 0
    """Number of ticks that were missed since the tick before."""
    extra: Mapping[str, Array] = field(default_factory=dict)
    """The policy's last extra outputs by their names in the graph, each (size,); see the contract's `extra_outputs`."""
    telemetry: Reading | None = None
    """Telemetry of the last step of the policy; None if no telemetry was computed."""
    state: str = ""
    """`Session.digest` after the tick; empty if the loop had no `on_step`."""
    swapped: Swapped | None = None
    """The model that took over just before this tick; None if none did."""

    @property
    def stepped(self) -> bool:
        """Whether the policy made a step at this tick, whether policy or person drove."""
        return self.outcome in STEPPED

    @property
    def answers(self) -> dict[str, Array | None]:
        """The policy's last outputs, by their names in the graph."""
        return {ACTION: self.action, CONTEXT: self.context, **self.extra}


SECTIONS = (*SectionTimes._fields, "total", "lag")
"""Names of the measured times: the sections of a tick, their sum, and how late ticks began."""

ALWAYS_LISTED = (Outcome.ACTED, Outcome.HELD, Outcome.LATE, Outcome.REFUSED)
"""Outcomes that the table prints even if their count is 0."""

LOWEST_S, HIGHEST_S, GROWTH = 1e-7, 1e4, 1.01
"""Times [s] below the first count as 0, above the second share one bin; the upper end of a bin by its lower one."""
_BINS = 2 + math.ceil(math.log(HIGHEST_S / LOWEST_S) / math.log(GROWTH))


class Percentiles(NamedTuple):
    """Percentiles of one section's time [s], accurate to half a percent; `worst` is exact."""

    p50: float
    p99: float
    p999: float
    worst: float


class Histogram:
    """Times of any number of ticks in constant memory: percentiles to half a percent, exact mean and worst.

    It counts the times in bins whose width is proportional to the time.

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
        """Mean of the times [s]; 0 if there are none."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the time [s] that `percent` percent of the times do not exceed; 0 if there are none."""
        target, total = percent / 100 * self.count, 0
        for at, count in enumerate(self._bins):
            total += count
            if total >= target and count:
                middle = LOWEST_S * GROWTH ** (at - 0.5) if at else 0.0
                return min(middle, self.worst)
        return 0.0


class LoopReport:
    """Counts and times of all ticks that were passed to `add`, which can be a loop's `on_step`.

    Records of several episodes may be added to one report. Its memory does not grow with their number.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        """Number of ticks by outcome."""
        self.limited: Counter[str] = Counter()
        """How often each limit changed an action, such as `"rate dx"`."""
        self.reasons: Counter[str] = Counter()
        """How often each kind of reason kept the policy from acting, such as `"age"`."""
        self.overruns = 0
        """Ticks that ended so late that the next one was missed; an episode's last tick is not counted."""
        self.missed = 0
        """Ticks that were missed, because of overruns."""
        self.swaps = 0
        """How often another model took over."""
        self.times = {name: Histogram() for name in SECTIONS}
        """Times [s] by the names in `SECTIONS`."""
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
        """Mean time between two due ticks [s], missed ones included; None before the second tick."""
        return self._elapsed / self._periods if self._periods else None

    def percentiles(self) -> dict[str, Percentiles]:
        """Return percentiles by the names in `SECTIONS`; an empty table before the first tick."""
        if not self.ticks:
            return {}
        return {
            name: Percentiles(times.percentile(50), times.percentile(99), times.percentile(99.9), times.worst)
            for name, times in self.times.items()
        }

    def __str__(self) -> str:
        """Return a table, as `sami run` prints it at the end."""
        listed = [kind for kind in Outcome if kind in ALWAYS_LISTED or self.outcomes[kind] > 0]
        outcomes = ", ".join(f"{self.outcomes[kind]} {kind.value}" for kind in listed)
        lines = [f"{self.ticks} ticks: {outcomes}; {self.overruns} overruns, {self.missed} missed"]
        if self.swaps:
            lines[0] += f", {self.swaps} swaps of the model"
        if self.mean_period:
            lines[0] += f"; mean period {1e3 * self.mean_period:.6g} ms"
        for kind, counter in (("not acted", self.reasons), ("limited", self.limited)):
            if counter:
                lines.append(f"{kind}: " + ", ".join(f"{name} {count}" for name, count in counter.most_common()))
        lines.append("".join(f"{word:>10}" for word in ("µs", "p50", "p99", "p99.9", "worst")))
        for name, row in self.percentiles().items():
            lines.append(f"{name:>10}" + "".join(f"{1e6 * value:>10.1f}" for value in row))
        return "\n".join(lines)
