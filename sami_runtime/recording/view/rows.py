"""A run as the page has it: a row of numbers for each tick, words by their number, and what is to be told in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sami_runtime.loop.tick import StepRecord
    from sami_runtime.model.contract import Contract
    from sami_runtime.session.telemetry import Reading
    from sami_runtime.signals import Signal

TICK = ("t", "episode", "step", "outcome", "reason", "limited", "phase", "nearest")
"""Columns of every run, first: seconds from its beginning, counts, and numbers of words."""
NUMBERS = ("score", "distance", "speed", "drift", "observe", "infer", "gate", "write", "lag", "missed", "reward")


class RunRows:
    """Makes the rows of a run, one tick after the other.

    Args:
        contract: Of the policy; what a model that takes over reads besides is left out.
    """

    def __init__(self, contract: Contract) -> None:
        from sami_runtime.recording.events import Events

        self.words: list[str] = [""]
        """What the numbers of words mean; it only grows."""
        self._known = {"": 0}
        self._events = Events()
        self._begun: float | None = None
        self._last, self._offset, self._period = 0.0, 0.0, 1.0 / contract.rate_hz
        self._task: Mapping[str, Any] | None = None
        self._signals = contract.observation
        self._sizes = {"proposed": contract.action.size, "context": contract.context_size}
        self._extra = contract.extra_outputs
        action, context = contract.action, contract.context.signal if contract.context else None
        groups = [_group("observation", f"observation.{signal.name}", signal) for signal in contract.observation]
        groups += [_group(kind, kind, action) for kind in ("proposed", "executed")]
        groups += [_group("context", "context", context)] if context else []
        groups += [_group("answer", f"answer.{signal.name}", signal) for signal in contract.extra_outputs]
        self.groups = groups
        """Of columns: what belongs together, with the unit and the elements' names and bounds."""
        self.columns = [*TICK, *NUMBERS, *(column for group in groups for column in group["columns"])]
        """Name of each number of a row."""

    def row(self, episode: int, record: StepRecord) -> dict[str, Any]:
        """Return a tick: its numbers, None where there is none; new words; events; and the task, once it is told."""
        from sami_runtime.signals import number_in

        words = len(self.words)
        telemetry, times = record.telemetry, record.times
        observed = {} if record.observation is None else record.observation.values
        reward = number_in(record.info, "reward")
        numbers: list[Any] = [
            *(self._time(record), episode, record.step, self._word(record.outcome.value)),
            *(self._word(record.reason), self._word("; ".join(record.limited_by))),
            self._word(telemetry.phase.value if telemetry and telemetry.phase else ""),
            self._word(_named(telemetry.nearest) if telemetry and telemetry.nearest else ""),
            *(_reading(telemetry)),
            *(times.observe, times.infer, times.gate, times.write, record.lag, record.missed, reward),
        ]
        for signal in self._signals:
            numbers += _values(observed.get(signal.name), signal.size)
        for value in (record.action, record.executed):
            numbers += _values(value, self._sizes["proposed"])
        numbers += _values(record.context, self._sizes["context"])
        for signal in self._extra:
            numbers += _values(record.extra.get(signal.name), signal.size)
        row: dict[str, Any] = {"row": [_plain(number) for number in numbers]}
        if events := [list(event) for event in self._events.of(episode, record)]:
            row["events"] = events
        task = record.info.get("task")
        if isinstance(task, Mapping) and (record.step == 0 or task != self._task):
            self._task = task
            row["task"] = _named(task)
        if len(self.words) > words:
            row["words"] = self.words[words:]
        return row

    def forget(self, count: int) -> None:
        """Take back the last words, which did not arrive; they are new when they are next needed."""
        for word in self.words[-count:]:
            del self._known[word]
        del self.words[-count:]

    def _time(self, record: StepRecord) -> float:
        """Return seconds since the run began. An episode begins a period after the one before, or later.

        A loop without a clock counts each from 0, and a clock that stands still between them gives two ticks one time.
        """
        if self._begun is None:
            self._begun = self._last = record.time
        elif record.step == 0:
            self._offset += max(0.0, self._last + self._period - record.time)
        self._last = record.time
        return round(record.time + self._offset - self._begun, 6)

    def _word(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.words)
            self.words.append(text)
        return self._known[text]


def described(contract: Contract, about: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what the page says of a run at its head.

    Args:
        contract: Of the policy.
        about: What the recording says of itself, or would.
        name: What the run is called.
    """
    atlas = contract.atlas.model_dump(mode="json", exclude={"covariance"}) if contract.atlas else about.get("atlas")
    return {
        "name": name,
        "model": contract.name,
        "weights": contract.weights_sha256[:12],
        "env": about.get("env") or "",
        "rate": contract.rate_hz,
        "facts": _facts(about),
        "limits": {key: value for key, value in (about.get("limits") or {}).items() if value is not None},
        "atlas": atlas,
    }


def _facts(about: Mapping[str, Any]) -> list[str]:
    """Return what is worth knowing of how a run was made, in words."""
    world = {True: "in a simulator", False: "on a robot"}.get(about.get("simulator", ""), "")
    facts = [
        world,
        "dry run: nothing was written" if about.get("dry_run") else "",
        "behind a gap" if about.get("gap") else "",
    ]
    facts += [f"seed {about['seed']}"] if "seed" in about else []
    return [fact for fact in (*facts, str(about.get("machine", ""))) if fact]


def _group(kind: str, name: str, signal: Signal) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": signal.name if kind in ("observation", "answer") else kind,
        "unit": "" if signal.unit == "1" else signal.unit,
        "meaning": signal.meaning,
        "elements": list(signal.elements),
        "columns": [f"{name}.{element}" for element in signal.elements],
    }


def _reading(telemetry: Reading | None) -> tuple[Any, ...]:
    return (None,) * 4 if telemetry is None else (telemetry.score, telemetry.distance, telemetry.speed, telemetry.drift)


def _values(value: Any, size: int) -> list[Any]:
    numbers = [] if value is None else np.asarray(value, float).ravel().tolist()
    return numbers if len(numbers) == size else [None] * size


def _plain(number: Any) -> Any:
    """Return a number as far as a screen has use for it, which is to the microsecond; None for what is none."""
    if number.__class__ is float:
        return round(number, 6) if math.isfinite(number) else None
    if number is None or isinstance(number, bool | str | list | dict):
        return None
    return number if isinstance(number, int) else _plain(float(number))


def _named(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )
