"""Telemetry of the context while a policy runs: its speed, the nearest training task, and an out-of-distribution score.

The telemetry averages the last contexts over a window and compares the mean with the model's in-distribution reference
(`Atlas`, which also stores the window and the thresholds `step`, `slow` and `fast`). The mean has three phases:

- `identifying`: from a reset on;
- `settled`: from step `step` on, once the mean drifts at most `slow` a step and there is no out-of-distribution alarm.
  A settled context need not identify the dynamics: only a readout measures that;
- `re-adapting`: after a settled mean drifts faster than `fast` or raises an alarm, until it settles again.

A drift between `slow` and `fast` does not change the phase, so that it does not flicker. An untrained policy (its
contract reports 0 updates) never settles, because a constant random context identifies nothing.
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
    """Whether the context still moves; the module's docstring defines the phases."""

    IDENTIFYING = "identifying"
    SETTLED = "settled"
    READAPTING = "re-adapting"

    @classmethod
    def _missing_(cls, value: object) -> Phase | None:
        """Accept the names of phases in older recordings."""
        return {"exploring": cls.IDENTIFYING, "adapted": cls.SETTLED}.get(str(value))


class Reading(NamedTuple):
    """Telemetry of one step of the policy; fields are None without a reference, or before the reference's `step`."""

    step: int
    """Step of the policy in the episode, from 0; -1 before the first."""
    speed: float
    """|c_t - c_(t-1)| of the contexts; 0 at the first step."""
    phase: Phase | None = None
    """None without an in-distribution reference."""
    drift: float | None = None
    """|m_t - m_(t-1)| of the mean m over the reference's window of the last contexts."""
    nearest: Mapping[str, Any] | None = None
    """The task of the reference whose contexts are nearest to the mean."""
    distance: float | None = None
    """Mahalanobis distance of the mean to the contexts of that task."""
    score: float | None = None
    """Out-of-distribution score; above 1 is an alarm."""
    alarm: bool = False
    """Whether the score is above 1: the mean is farther from all tasks than contexts of these tasks are."""

    def plain(self) -> dict[str, Any]:
        """Return the fields as values that JSON can represent."""
        return {**self._asdict(), "phase": self.phase and self.phase.value}


class Countdown:
    """Counts the policy's steps since telemetry detected a change: an alarm, or the phase `re-adapting`."""

    def __init__(self) -> None:
        self.steps: int | None = None
        """Steps since the change; None before a change, and once the context has settled again."""

    def update(self, reading: Reading) -> None:
        """Count one step of the policy."""
        if reading.phase is Phase.SETTLED:
            self.steps = None
        elif self.steps is not None:
            self.steps += 1
        elif reading.alarm or reading.phase is Phase.READAPTING:
            self.steps = 0


class ContextRecord(Protocol):
    """The fields of a tick that telemetry reads; a loop's `StepRecord` has them."""

    @property
    def step(self) -> int:
        """Index of the tick in the episode, from 0."""

    @property
    def stepped(self) -> bool:
        """Whether the policy made a step at this tick; if not, the context is that of an earlier tick."""

    @property
    def context(self) -> NDArray[np.float32]:
        """(C,): the context that the policy inferred last."""

    @property
    def extra(self) -> Mapping[str, NDArray[np.float32]]:
        """The policy's extra outputs by their names in the graph, each (size,)."""


class Telemetry:
    """Computes a `Reading` of each context of a policy; pass it to a loop as `on_step`, or call `update`.

    Args:
        contract: Of the policy. Without an in-distribution reference (`atlas`), readings only have a speed.
    """

    def __init__(self, contract: Contract) -> None:
        self.size = contract.context_size
        """C, the size of the context; 0 for a policy that infers none."""
        self.atlas, self.probe = contract.atlas, contract.probe
        self._learned = contract.training.get("updates") != 0  # early files lack `updates` and count as trained
        self._locate = None if contract.atlas is None else Locator(contract.atlas)
        window = 1 if contract.atlas is None else contract.atlas.window
        self._recent = np.zeros((window, contract.context_size))  # step t in row t % W
        self._last, self._mean = np.zeros(contract.context_size), np.zeros(contract.context_size)
        self.reset()

    def reset(self) -> None:
        """Begin an episode: drop all readings of the last one."""
        self.now = Reading(-1, 0.0, None if self._locate is None else Phase.IDENTIFYING)
        """The last reading."""
        self.adapted_at: int | None = None
        """Step at which the context settled for the first time."""
        self.alarm_at: int | None = None
        """Step of the first alarm."""
        self.readapted = 0
        """How often the phase became `re-adapting`."""
        self.highest: float | None = None
        """Highest out-of-distribution score so far."""
        self.probed: dict[str, dict[str, float]] = {}
        """The last estimates of the file's readout (`probe`), by feature and element; empty without a readout, and
        before the step from which it is valid."""

    def take(self, other: Telemetry) -> None:
        """Take over all content of another telemetry, which must not be used afterwards. This object stays the same."""
        vars(self).update(vars(other))

    def change_contract(self, contract: Contract) -> None:
        """Continue within an episode with the contract of another file of the same weights.

        The reference of the new contract applies from now on. If its window needs more contexts than were stored, the
        telemetry starts again from step 0.
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
        """Read one tick of a loop; ticks without a step of the policy change nothing."""
        if record.step == 0:
            self.reset()
        if record.stepped:
            self.update(record.context, record.extra)

    def update(self, context: NDArray[Any], extra: Mapping[str, NDArray[Any]] | None = None) -> Reading:
        """Read the context (C,) of the policy's next step, and its extra outputs by name, each (size,)."""
        step = self.now.step + 1
        if self.probe is not None and extra and step >= self.probe.step:
            self.probed = {
                signal.name.removeprefix(PROBE): dict(zip(signal.elements, map(float, extra[signal.name]), strict=True))
                for signal in self.probe.signals
            }
        distance = _move(self._last, context)
        speed = distance if step else 0.0
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
        """Return a summary of the episode so far, for JSON; values are None where readings had none."""
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
    """Move a point (C,) to another one in place, and return the distance."""
    np.subtract(to, point, out=point)
    distance = float(point @ point) ** 0.5
    point[:] = to
    return distance
