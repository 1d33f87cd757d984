"""What a policy drives, a simulator or a robot, and whether the two fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import AdapterError
from sami_runtime.model.contract import Contract
from sami_runtime.signals import Signal, numbers_of

NUMBERS = (float, int, np.number)
_OBSERVATION = "Observation(values, time), the values by signal and when they were measured [s]"
_EXECUTED = "Executed(action) with what was really sent, Executed(action, done, info) where the world tells more"


@dataclass(frozen=True)
class Observation:
    """What the sensors said."""

    values: Mapping[str, NDArray[np.float32]]
    """By signal name, each (size,) in the signal's unit."""
    time: float
    """When it was measured [s], by the adapter's clock; not when it was asked for."""
    times: Mapping[str, float] | None = None
    """The same by signal, where sensors measure at different times; `time` holds for those that are left out."""
    late: float | Mapping[str, float] = 0.0
    """How many periods of the policy a simulated gap made it late, where the world waits, see `Adapter`."""
    note: str = ""
    """What is wrong with its sources, such as messages that were dropped: part of the reason where it is too old."""

    def measured(self, name: str) -> float:
        """Return when a signal was measured [s]."""
        return self.time if self.times is None else self.times.get(name, self.time)

    def pick(self, names: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Return the values of these signals, without those that are missing: a session names them better."""
        return {name: self.values[name] for name in names if name in self.values}


@dataclass(frozen=True)
class Executed:
    """What became of an action."""

    action: NDArray[np.float32]
    """(A,): what was really sent, after every limit, in the action's unit."""
    done: bool = False
    """Whether the world ended the episode."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """What else the world tells: a simulator's reward and success."""


class Adapter(Protocol):
    """What a policy drives.

    It may have a sixth method, `emergency_stop()`: brings everything to rest over a connection of its own, while
    another thread sits in any of the others. It is called from any thread, and more than once.

    It may have two more attributes, for policies that look ahead: `command_delay_s`, how long an action takes from its
    write to its effect [s], 0 if left out; and `waits`, whether its world stands still while nothing is written, as a
    simulator's does. Then stamps tell nothing, and nothing is late but what a gap delays.

    And `basis`, names of signals that it observes and makes its commands by: where they are too old, the gate holds,
    whether the policy reads them or not.

    And `scene`, what viewers show of it, see `sami_runtime.adapters.scene`.

    And `watch(record)`, for those of the robot's who look on: called after each tick of a `Run` with its `StepRecord`,
    also in a dry run.
    """

    observation: tuple[Signal, ...]
    """What `read` provides; known before `reset`."""
    action: Signal
    """What `write` takes; known before `reset`."""

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode. The seed makes a simulator's episode repeatable."""

    def read(self) -> Observation:
        """Return the newest observation."""

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send an action (A,), and says what was really sent."""

    def stop(self) -> None:
        """Brings everything to rest. Safe at any time, from any state, twice."""

    def close(self) -> None:
        """Give everything back. Safe after a failure, and twice."""


def emergency_stop_of(adapter: Adapter) -> Callable[[], object] | None:
    """Return what stops an adapter from any thread, where it has that."""
    stop = getattr(adapter, "emergency_stop", None)
    return stop if callable(stop) else None


def watch_of(adapter: Adapter) -> Callable[[Any], None] | None:
    """Return what an adapter wants to be told of each tick, where it has that."""
    watch = getattr(adapter, "watch", None)
    return watch if callable(watch) else None


def command_delay_of(adapter: Adapter) -> float:
    """Return how long an action takes to have its effect [s], as an adapter says."""
    return float(getattr(adapter, "command_delay_s", 0.0))


def waits(adapter: Adapter) -> bool:
    """Return whether an adapter's world stands still while nothing is written."""
    return bool(getattr(adapter, "waits", False))


def require_compatible(contract: Contract, observation: Sequence[Signal], action: Signal, name: str) -> None:
    """Refuse signals that a policy cannot drive, before anything moves.

    Args:
        contract: What the policy reads and writes.
        observation: What is provided.
        action: What is taken.
        name: Of what has these signals, for the message: an adapter's class, an environment.

    Raises:
        AdapterError: With every signal that does not match, and with what both sides have.
    """
    provided = {signal.name: signal for signal in observation}
    faults = []
    for signal in contract.observation:
        if signal.name not in provided:
            faults.append(f"observation {signal.name!r} is not provided")
        else:
            faults += differences("observation", signal, provided[signal.name], "the adapter's")
    if contract.action.name == action.name:
        faults += differences("action", contract.action, action, "the adapter's")
    else:
        faults.append(f"action {contract.action.name!r} is not taken")
    if faults:
        raise AdapterError(
            f"model {contract.name!r} does not fit {name}: {'; '.join(faults)}. The model reads "
            f"{_listed(contract.observation)} and writes {_listed([contract.action])}; {name} provides "
            f"{_listed(observation)} and takes {_listed([action])}. "
            "Use the adapter that the model was trained for, or declare the same signals."
        )


def require_observation(returned: object, adapter: Adapter) -> Observation:
    """Return what `read` returned, if that is an observation.

    Raises:
        AdapterError: It is something else, holds something else, or has the time of a signal that it lacks.
    """
    require = partial(_require_kind, f"{type(adapter).__name__}.read()", _OBSERVATION)
    observation: Observation = require(returned, Observation)
    require(observation.values, Mapping, "an Observation whose values are of type ")
    require(observation.time, NUMBERS, "an Observation whose time is of type ")
    times = require(observation.times or {}, Mapping, "times of type ")
    for time in times.values():
        require(time, NUMBERS, "a time of type ")
    if strange := times.keys() - observation.values.keys():
        raise AdapterError(
            f"{type(adapter).__name__}.read() returned times of {', '.join(sorted(strange))}, which it did not "
            f"observe; it observed {', '.join(observation.values)}. Name the times as the signals."
        )
    return observation


def require_action(value: object, signal: Signal, label: str = "action") -> NDArray[np.float32]:
    """Return a float32 copy of what should be an action (A,); clipping alone would let NaN through.

    Raises:
        AdapterError: It has another shape, or is not finite; in one sentence, without its period.
    """
    action = numbers_of(value).astype(np.float32)
    if action.shape != (signal.size,) or not np.isfinite(action).all():
        raise AdapterError(
            f"{label} is {value}, expected {signal.size} finite numbers [{signal.unit}] ({', '.join(signal.elements)})"
        )
    return action


def require_executed(returned: object, adapter: Adapter) -> Executed:
    """Return what `write` returned, if that says what was executed.

    Raises:
        AdapterError: It is something else, or holds something else.
    """
    require = partial(_require_kind, f"{type(adapter).__name__}.write()", _EXECUTED)
    executed: Executed = require(returned, Executed)
    require(executed.info, Mapping, "an Executed whose info is of type ")
    require(executed.done, (bool, int, np.bool_), "an Executed whose done is of type ")
    if not numbers_of(executed.action).size:
        wrong = f"an Executed whose action is {executed.action!r}"
        raise AdapterError(f"{type(adapter).__name__}.write() returned {wrong}; return {_EXECUTED}.")
    return executed


def _require_kind(call: str, valid: str, returned: Any, kind: Any, of: str = "") -> Any:
    if not isinstance(returned, kind):
        raise AdapterError(f"{call} returned {of}{type(returned).__name__}; return {valid}.")
    return returned


def differences(
    kind: str, expected: Signal, offered: Signal, holder: str, fields: Sequence[str] = ("size", "unit", "elements")
) -> list[str]:
    """Return how a signal differs from another one, whose it is in words, a phrase for each field."""
    return [
        f"{kind} {expected.name!r} has {field} {_shown(value)}, {holder} has {_shown(offer)}"
        for field in fields
        if (value := getattr(expected, field)) != (offer := getattr(offered, field))
    ]


def _shown(value: Any) -> str:
    return "(" + ", ".join(map(str, value)) + ")" if isinstance(value, tuple) else str(value)


def _listed(signals: Iterable[Signal]) -> str:
    return ", ".join(f"{signal.name} ({signal.size}, {signal.unit})" for signal in signals)
