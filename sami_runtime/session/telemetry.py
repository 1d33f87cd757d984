"""What a context tells while a policy runs: how fast it moves, which dynamics it resembles, whether they are known.

Phases, with the numbers of the model's atlas (see `Atlas`), of the mean over its window of the last contexts:

- `identifying`, from a reset on;
- `settled`, once the atlas counts (`step`), the mean is at rest (drift at most `slow`) and in distribution (no alarm).
  That the context identifies the dynamics does not follow: a readout measures it;
- `re-adapting`, when a settled mean leaves: it is quicker than `fast`, or there is an alarm. It ends as identifying
  does.

Between `slow` and `fast` the phase stays as it is, so that it does not flicker. A policy that has not learned (its
contract tells of 0 updates) never settles: a random context at rest has identified nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sami_runtime.model.atlas import Locator
from sami_runtime.model.contract import Contract
from sami_runtime.model.probe import PROBE


class Phase(str, Enum):
    """Whether the context still moves."""

    IDENTIFYING = "identifying"
    SETTLED = "settled"
    READAPTING = "re-adapting"

    @classmethod
    def _missing_(cls, value: object) -> Phase | None:
        """Read the words of older recordings."""
        return {"exploring": cls.IDENTIFYING, "adapted": cls.SETTLED}.get(str(value))


class Reading(NamedTuple):
    """What the context told at one step of the policy; None where the model has no atlas, or it does not count yet."""

    step: int
    """Step of the policy in the episode, from 0; -1 before the first."""
    speed: float
    """|c_t - c_(t-1)|; 0 at the first step."""
    phase: Phase | None = None
    """None without an atlas."""
    drift: float | None = None
    """|m_t - m_(t-1)| of the mean over the atlas's window of the last contexts."""
    nearest: Mapping[str, Any] | None = None
    """The known dynamics that this mean is nearest to."""
    distance: float | None = None
    """Mahalanobis distance to them."""
    score: float | None = None
    """Out-of-distribution score; above 1 is an alarm."""
    alarm: bool = False
    """Whether the mean is further from all known dynamics than they lead to."""

    def plain(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return {**self._asdict(), "phase": self.phase and self.phase.value}


class Countdown:
    """Counts the policy's steps since a change was detected: by an alarm, or a settled context that left its place."""

    def __init__(self) -> None:
        self.steps: int | None = None
        """So far; None while none is detected, or once the context has settled again."""

    def heed(self, reading: Reading) -> None:
        """Count a step of the policy."""
        if reading.phase is Phase.SETTLED:
            self.steps = None
        elif self.steps is not None:
            self.steps += 1
        elif reading.alarm or reading.phase is Phase.READAPTING:
            self.steps = 0


class ContextRecord(Protocol):
    """What telemetry reads of a tick: a loop's `StepRecord` has it."""

    @property
    def step(self) -> int:
        """Index of the tick in the episode, from 0."""

    @property
    def stepped(self) -> bool:
        """Whether the policy was asked and its state advanced; else the context is an old one."""

    @property
    def context(self) -> NDArray[np.float32]:
        """(C,)."""

    @property
    def extra(self) -> Mapping[str, NDArray[np.float32]]:
        """By the graph's output, each (size,): what else the policy answered last."""


class Telemetry:
    """Reads the contexts of a policy; it is a loop's `on_step`, or is fed by hand.

    Args:
        contract: Of the policy. Without an atlas, only speeds are told.
    """

    def __init__(self, contract: Contract) -> None:
        self.size = contract.context_size
        """C; 0 for a policy that infers no context, which tells nothing."""
        self.atlas, self.probe = contract.atlas, contract.probe
        self._learned = contract.training.get("updates") != 0  # files of early versions do not say
        self._locate = None if contract.atlas is None else Locator(contract.atlas)
        window = 1 if contract.atlas is None else contract.atlas.window
        self._recent = np.zeros((window, contract.context_size))  # step t in row t % W
        self._last, self._mean = np.zeros(contract.context_size), np.zeros(contract.context_size)
        self.reset()

    def reset(self) -> None:
        """Forgets the episode."""
        self.now = Reading(-1, 0.0, None if self._locate is None else Phase.IDENTIFYING)
        """The last reading."""
        self.adapted_at: int | None = None
        """Step at which the context settled for the first time."""
        self.alarm_at: int | None = None
        """Step of the first alarm."""
        self.readapted = 0
        """How often adaptation began again."""
        self.highest: float | None = None
        """Highest out-of-distribution score so far."""
        self.probed: dict[str, dict[str, float]] = {}
        """By feature and element, what the file's probe told last; empty without one, and before the step that it
        counts from."""

    def take(self, other: Telemetry) -> None:
        """Become equal to another one, which is given away: whoever looks at this one sees what that one read."""
        vars(self).update(vars(other))

    def change_contract(self, contract: Contract) -> None:
        """Go on in the middle of an episode by the contract of another file of the same weights.

        Its atlas judges the contexts from now on. Where it averages over more of them than were kept, telemetry begins
        anew.
        """
        new, steps = Telemetry(contract), self.now.step + 1
        length, needed = len(self._recent), len(new._recent)
        if new.atlas is not None:
            if self.atlas is None or min(steps, needed) > length:
                self.take(new)
                return
            for step in range(max(0, steps - needed), steps):
                new._recent[step % needed] = self._recent[step % length]
        self.atlas, self.probe = new.atlas, new.probe
        self._learned, self._locate, self._recent = new._learned, new._locate, new._recent
        self._mean = self._recent.mean(axis=0)

    def __call__(self, record: ContextRecord) -> None:
        """Read the tick of a loop; a tick at which the policy was not asked tells nothing new."""
        if record.step == 0:
            self.reset()
        if record.stepped:
            self.update(record.context, record.extra)

    def update(self, context: NDArray[Any], extra: Mapping[str, NDArray[Any]] | None = None) -> Reading:
        """Read the context (C,) of the next step of the policy, and what else it answered, by the graph's output."""
        step = self.now.step + 1
        if self.probe is not None and extra and step >= self.probe.step:
            self.probed = {
                signal.name.removeprefix(PROBE): dict(zip(signal.elements, map(float, extra[signal.name]), strict=True))
                for signal in self.probe.signals
            }
        moved = _move(self._last, context)
        speed = moved if step else 0.0
        if self.atlas is None or self._locate is None:
            self.now = Reading(step, speed)
            return self.now
        self._recent[step % len(self._recent)] = context
        drift = _move(self._mean, self._recent.mean(axis=0))
        if step < self.atlas.step:
            self.now = Reading(step, speed, Phase.IDENTIFYING)
        else:
            place = self._locate(self._mean)
            alarm = place.score > 1.0
            phase = self._phase(drift, alarm)
            self._note(step, phase, alarm, place.score)
            nearest = self.atlas.tasks[place.nearest]
            self.now = Reading(step, speed, phase, drift, nearest, place.distance, place.score, alarm)
        return self.now

    def summary(self) -> dict[str, Any]:
        """Return the episode so far, for JSON; None where the model has no atlas, or it never counted."""
        now = self.now
        return {
            "phase": now.phase and now.phase.value,
            "adapted_at": self.adapted_at,
            "readapted": self.readapted,
            "nearest": now.nearest and dict(now.nearest),
            "distance": now.distance and round(now.distance, 4),
            "score": self.highest and round(self.highest, 4),
            "alarm_at": self.alarm_at,
            "speed": round(now.speed, 6),
            **({} if self.probe is None else {"probe": dict(self.probed), "not_carried": list(self.probe.silent)}),
        }

    def _phase(self, drift: float, alarm: bool) -> Phase:
        assert self.atlas is not None
        assert self.now.phase is not None
        if not self._learned:
            return Phase.IDENTIFYING
        if alarm or drift > self.atlas.fast:
            return Phase.IDENTIFYING if self.now.phase is Phase.IDENTIFYING else Phase.READAPTING
        return Phase.SETTLED if drift <= self.atlas.slow else self.now.phase

    def _note(self, step: int, phase: Phase, alarm: bool, score: float) -> None:
        if alarm and self.alarm_at is None:
            self.alarm_at = step
        if phase is Phase.SETTLED and self.adapted_at is None:
            self.adapted_at = step
        self.readapted += phase is Phase.READAPTING and self.now.phase is not Phase.READAPTING
        self.highest = max(score, self.highest or 0.0)


def _move(point: NDArray[np.float64], to: NDArray[Any]) -> float:
    """Move a point (C,), and says how far."""
    np.subtract(to, point, out=point)
    distance = float(point @ point) ** 0.5
    point[:] = to
    return distance
