"""ROS diagnostics of each tick: the state of gate, policy, commands and topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sami_runtime.loop.tick import Outcome, StepRecord
from sami_runtime.model.contract import Contract
from sami_runtime.robots.ros2.messages import ERROR, OK, WARN, Diagnostics, Message, Numbers, Status
from sami_runtime.robots.ros2.sources import TopicFilter

FINE = (Outcome.ACTED, Outcome.STANDING, Outcome.PILOTED, Outcome.PAUSED)
"""Outcomes of a tick at which nothing went wrong."""
STOP = "stop"
"""Entry of `limited_by` if the gate tripped."""


def diagnose(
    record: StepRecord,
    contract: Contract,
    topics: Mapping[str, TopicFilter],
    commands: Mapping[str, Message],
    live: bool,
    stamp: float,
) -> Diagnostics:
    """Return the diagnostics of a tick.

    Args:
        record: Of the tick.
        contract: Of the policy.
        topics: The topics that are heard.
        commands: The messages sent, by topic; in a dry run, those that would be sent.
        live: Whether they were sent.
        stamp: Time of the diagnostics [s], by the system's clock.
    """
    statuses = (_gate(record, contract), _policy(record), _command(commands, live), _topics(topics))
    return Diagnostics(stamp, statuses, contract.name)


def stopped(contract: Contract, stamp: float) -> Diagnostics:
    """Return the diagnostics after the loop has stopped the robot, at a time [s] of the system's clock."""
    return Diagnostics(stamp, (Status(OK, "sami: gate", "stopped", {"outcome": "stopped"}),), contract.name)


def _gate(record: StepRecord, contract: Contract) -> Status:
    tripped = STOP in record.limited_by
    level = ERROR if tripped else OK if record.outcome in FINE else WARN
    message = record.reason or record.outcome.value
    executed = {} if record.executed is None else dict(zip(contract.action.elements, record.executed, strict=True))
    age = record.age if isinstance(record.age, float | int) else max(record.age.values(), default=0.0)
    values = {
        "outcome": record.outcome.value,
        "tripped": str(tripped).lower(),
        "limited_by": ", ".join(record.limited_by),
        "step": str(record.step),
        "missed": str(record.missed),
        "age_periods": f"{age:.3f}",
        **{f"executed.{name}": f"{value:.5f}" for name, value in executed.items()},
    }
    return Status(level, "sami: gate", f"stopped: {message}" if tripped else message, values)


def _policy(record: StepRecord) -> Status:
    reading, context = record.telemetry, ", ".join(f"{value:.4f}" for value in record.context)
    if reading is None:
        return Status(OK, "sami: policy", "", {"context": context})
    telemetry = {name: value for name, value in reading.plain().items() if value is not None}
    values = {name: _text(value) for name, value in telemetry.items()} | {"context": context}
    phase = telemetry.get("phase", "no atlas")
    message = f"{phase}: the context is out of distribution" if reading.alarm else phase
    return Status(WARN if reading.alarm else OK, "sami: policy", message, values)


def _command(commands: Mapping[str, Message], live: bool) -> Status:
    values = {topic: _numbers(message) for topic, message in commands.items()}
    message = "sent" if live else "would be sent" if commands else "nothing sent"
    return Status(OK, "sami: command", message, values)


def _topics(topics: Mapping[str, TopicFilter]) -> Status:
    faults: Sequence[str] = [topic.fault for topic in topics.values() if topic.fault]
    values = {}
    for topic in topics.values():
        stepped = f", its clock stepped {topic.sync.steps} times" if topic.sync.steps else ""
        values[topic.settings.topic] = f"{topic.accepted} taken, {topic.refused} refused{stepped}"
    return Status(WARN if faults else OK, "sami: topics", "; ".join(faults) or "heard", values)


def _numbers(message: Message) -> str:
    numbers = message.data if isinstance(message, Numbers) else getattr(message, "position", np.zeros(0))
    return ", ".join(f"{value:.5f}" for value in numbers)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
    return f"{value:.5g}" if isinstance(value, float) else str(value)
