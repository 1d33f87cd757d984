"""One turn of a control loop: what was observed, proposed, limited and executed, and how long it took.

`LoopReport` counts many of them.
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
    """What became of a tick."""

    ACTED = "acted"
    """The policy was asked, and its answer went to the gate."""
    STANDING = "standing"
    """Between two ticks of the policy: its last answer stands."""
    HELD = "held"
    """The observation was too old or frozen; the policy was not asked."""
    LATE = "late"
    """The answer came after its deadline and was dropped."""
    REFUSED = "refused"
    """The observation or the answer was not finite, or the inference failed."""
    FALLBACK = "fallback"
    """There was no answer for too long, and the gate's fallback acted; the reason says why there was none."""
    PILOTED = "piloted"
    """A person drove: the policy was asked, and the person's command went to the gate in place of its answer."""
    PAUSED = "paused"
    """A person wants the robot to rest: nothing was read, and the policy was not asked."""


STEPPED = (Outcome.ACTED, Outcome.PILOTED)
"""Outcomes of a tick at which the policy was asked and its state advanced, whoever drove."""


class SectionTimes(NamedTuple):
    """How long the sections of one tick took."""

    observe: float
    """The adapter's read [s]."""
    infer: float
    """Judging the observation, and the session's step: checks and inference [s]."""
    gate: float
    """The safety gate's ruling on the action [s]."""
    write: float
    """The adapter's write [s]."""


class Swapped(NamedTuple):
    """A model that took over from another one."""

    path: str
    """Its file."""
    weights_sha256: str
    contract: Contract
    fed_from: int = 0
    """0; in recordings of earlier versions, from which of the episode's steps on its state had been rebuilt."""
    fed: int = 0
    """How many steps of the episode had been made when it took over; 0 at an episode's beginning."""


@dataclass(frozen=True)
class StepRecord:
    """One tick of a loop, whole: whoever keeps it needs nothing else. Unless the policy `stepped`, its state stands."""

    step: int
    """Index of the tick in the episode, from 0."""
    outcome: Outcome
    observation: Observation | None
    """None between two ticks of the policy, unless it was read there and is why the robot was held."""
    action: Array | None
    """(A,): what the policy proposed last; None if it never did, or was not asked or could not answer at this tick."""
    executed: Array | None
    """(A,): what was really sent. None if nothing was: there is no action yet that could stand, or the gate tripped."""
    context: Array
    """(C,): the context that the policy inferred last."""
    info: Mapping[str, Any]
    """What the adapter told."""
    times: SectionTimes
    reason: str = ""
    """Why the policy did not act, or the gate stopped the robot, its kind first: `"age: ..."`, `"pause: ..."`."""
    limited_by: tuple[str, ...] = ()
    """Every limit that changed the action, each as `"rate dx"`; `"stop"` where the gate tripped."""
    time: float = 0.0
    """When the tick began [s], by the loop's clock."""
    age: float | Mapping[str, float] = 0.0
    """How old the observation was when the policy was asked [periods of the policy], with the command's own delay: of
    all signals, or by signal."""
    passed: int = 1
    """Steps of the policy since the last tick at which it was due: 0 between two of them, and where a step that takes
    several periods may still be answered in the next one; more where some were missed."""
    lag: float = 0.0
    """How long [s] after it was due."""
    missed: int = 0
    """Ticks that had passed without a turn since the tick before."""
    extra: Mapping[str, Array] = field(default_factory=dict)
    """By the graph's output, each (size,): what else the policy answered last; see the contract's `extra_outputs`."""
    telemetry: Reading | None = None
    """What the contexts have told so far; None where nothing read them."""
    state: str = ""
    """Digest of the session's state after the tick, as `Session.digest` tells it; empty where nobody listened."""
    swapped: Swapped | None = None
    """The model that took over before this tick; None at all others."""

    @property
    def stepped(self) -> bool:
        """Whether the policy was asked and its state advanced, whoever drove."""
        return self.outcome in STEPPED

    @property
    def answers(self) -> dict[str, Array | None]:
        """What the policy answered last, by the graph's output."""
        return {ACTION: self.action, CONTEXT: self.context, **self.extra}


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
        target, passed = percent / 100 * self.count, 0
        for at, count in enumerate(self._bins):
            passed += count
            if passed >= target and count:
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
        outcomes = ", ".join(f"{self.outcomes[kind]} {kind.value}" for kind in Outcome if self._is_reported(kind))
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

    def _is_reported(self, outcome: Outcome) -> bool:
        return outcome in ALWAYS_TOLD or self.outcomes[outcome] > 0
