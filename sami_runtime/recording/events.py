"""What happened in a run that a person would want to be told of: one line each, where something changes."""

from __future__ import annotations

from typing import NamedTuple

from sami_runtime.loop.tick import Outcome, StepRecord
from sami_runtime.session.telemetry import Phase

QUIET = (Outcome.ACTED, Outcome.STANDING)
"""Outcomes that nobody needs to be told of, unless another one ends."""


class Event(NamedTuple):
    """One line, and how much it matters."""

    level: str
    """`INFO`, `WARNING` or `ERROR`, as in a log."""
    text: str


class Events:
    """Tells the events of ticks that are given one after the other."""

    def __init__(self) -> None:
        self._outcome: tuple[Outcome, str] = (Outcome.ACTED, "")
        self._limited: tuple[str, ...] = ()
        self._phase: Phase | None = None
        self._alarm = False

    def of(self, episode: int, record: StepRecord) -> list[Event]:
        """Return the events of the next tick."""
        events: list[Event] = []
        if record.step == 0:
            self._outcome, self._limited, self._phase, self._alarm = (Outcome.ACTED, ""), (), None, False
            events.append(Event("INFO", f"episode {episode} begins"))
        if record.swapped:
            events.append(Event("INFO", f"model {record.swapped.contract.name} takes over"))
        if record.missed:
            events.append(Event("WARNING", f"{record.missed} tick{'s' * (record.missed > 1)} passed without a turn"))
        kind = record.reason.partition(":")[0]
        if (record.outcome, kind) != self._outcome and record.outcome not in QUIET:
            events.append(Event("WARNING", f"{record.outcome.value}: {record.reason}".removesuffix(": ")))
        elif self._outcome[0] not in QUIET and record.outcome is Outcome.ACTED:
            events.append(Event("INFO", "the policy acts again"))
        if record.outcome is not Outcome.STANDING:
            self._outcome = (record.outcome, kind)
        stopped = "stop" in record.limited_by
        if stopped or (record.limited_by and not self._limited):
            text = f"the gate stopped the robot: {record.reason}" if stopped else ", ".join(record.limited_by)
            events.append(Event("ERROR", text) if stopped else Event("INFO", f"limited: {text}"))
        self._limited = record.limited_by
        return events + self._adaptation(record)

    def _adaptation(self, record: StepRecord) -> list[Event]:
        now, events = record.telemetry, list[Event]()
        if now is None:
            return events
        if now.phase is not self._phase and now.phase is not None:
            events.append(Event("INFO", now.phase.value))
        if now.alarm and not self._alarm:
            events.append(Event("WARNING", f"out of distribution: score {now.score:.2f} is above 1"))
        self._phase, self._alarm = now.phase, now.alarm
        return events
