"""The interface `Adapter` of a simulator or robot, and the check that a policy and an adapter fit together."""

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

NUMBERS = (float, int, np.floating, np.integer)
_OBSERVATION = "Observation(values, time): the values by signal, and the time of their measurement [s]"
_EXECUTED = "Executed(action) with the action really sent, or Executed(action, done, info) if there is more to report"


@dataclass(frozen=True)
class Observation:
    """The values of all signals, with the times of their measurement."""

    values: Mapping[str, NDArray[np.float32]]
    """By signal name, each (size,) in the signal's unit."""
    time: float
    """When the sensors measured [s], by the adapter's clock; not when `read` was called."""
    times: Mapping[str, float] | None = None
    """Measurement times [s] by signal, if sensors measure at different times; `time` is that of all other signals."""
    late: float | Mapping[str, float] = 0.0
    """Simulated latency [periods of the policy], for all signals or by signal, if the world `waits`; see `Adapter`."""
    note: str = ""
    """Problems of the sources, such as dropped messages; added to the reason if the observation is too old."""

    def measured(self, name: str) -> float:
        """Return when a signal was measured [s]."""
        return self.time if self.times is None else self.times.get(name, self.time)

    def pick(self, names: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Return the values of these signals; missing ones are left out, and `Session.step` reports them."""
        return {name: self.values[name] for name in names if name in self.values}


@dataclass(frozen=True)
class Executed:
    """The result of a write."""

    action: NDArray[np.float32]
    """(A,): the action really sent, after every limit of the adapter, in the action's unit."""
    done: bool = False
    """Whether the world ended the episode."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Anything else to report, such as a simulator's reward and success."""


class Adapter(Protocol):
    """A simulator or robot that a policy drives. Besides the members below, it may have some optional ones.

    `emergency_stop()` brings everything to rest over a connection of its own, even while another thread is inside one
    of the other methods. Any thread may call it, and more than once.

    `command_delay_s` and `waits` are for policies with lookahead: the delay [s] from the write of an action to its
    effect, 0 if missing; and whether the world stands still until the next write, as a simulator's does. In a world
    that waits, the age of an observation is only what a sim-to-real profile adds; its stamps are not read.

    `basis` names signals from which the adapter computes its commands. The gate holds if they are too old, even if the
    policy does not read them.

    `scene` describes what viewers show, see `sami_runtime.adapters.scene`.

    `watch(record)` is called after each tick of a `Run` with its `StepRecord`, also in a dry run.
    """

    observation: tuple[Signal, ...]
    """Signals that `read` provides; available before `reset`."""
    action: Signal
    """Signal that `write` takes; available before `reset`."""

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode. The seed makes a simulator's episode repeatable."""

    def read(self) -> Observation:
        """Return the newest observation."""

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send an action (A,) in the action's unit, and return the action really sent."""

    def stop(self) -> None:
        """Bring everything to rest. It must be safe at any time, in any state, and twice."""

    def close(self) -> None:
        """Release all resources. It must be safe after a failure, and twice."""


def optional_method(adapter: Adapter, name: str) -> Callable[..., Any] | None:
    """Return the adapter's `emergency_stop` or `watch`, by its name; None if it has none."""
    method = getattr(adapter, name, None)
    return method if callable(method) else None


def require_compatible(contract: Contract, observation: Sequence[Signal], action: Signal, name: str) -> None:
    """Compare a policy's signals with those of an adapter or environment, before anything moves.

    Args:
        contract: Of the policy.
        observation: Signals that the adapter provides.
        action: Signal that the adapter takes.
        name: Of the adapter's class or the environment, for the message.

    Raises:
        AdapterError: Signals do not match; the message names each of them, and all signals of both sides.
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
        model_range, robot_range = (np.array([s.low, s.high], np.float32) for s in (contract.action, action))
        # Without a unit, a number is a share of the range. A bound that one side does not declare, NaN here, fits any.
        if not faults and action.unit == "1" and (np.abs(model_range - robot_range) > 1e-6 * np.abs(model_range)).any():
            faults.append(
                f"action {action.name!r} is from {_text(contract.action.low)} to {_text(contract.action.high)}, the "
                f"adapter's from {_text(action.low)} to {_text(action.high)}, so its numbers mean other actions; "
                "`sami adopt` rescales a policy by scale, low and high of [action] in --contract"
            )
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
    """Return `returned`, the result of the adapter's `read`, if it is a valid `Observation`.

    Raises:
        AdapterError: It or one of its fields has another type, or `times` names a signal that `values` lacks.
    """
    require = partial(_require_kind, f"{type(adapter).__name__}.read()", _OBSERVATION)
    observation: Observation = require(returned, Observation)
    require(observation.values, Mapping, "an Observation whose values are of type ")
    require(observation.time, NUMBERS, "an Observation whose time is of type ")
    require(observation.note, str, "an Observation whose note is of type ")
    times, late = require(observation.times or {}, Mapping, "times of type "), observation.late
    for time in (*times.values(), *(late.values() if isinstance(late, Mapping) else (late,))):
        require(time, NUMBERS, "a time or late of type ")
    if strange := times.keys() - observation.values.keys():
        raise AdapterError(
            f"{type(adapter).__name__}.read() returned times of {', '.join(sorted(map(str, strange)))}, which it did "
            f"not observe; it observed {', '.join(observation.values)}. Use the names of observed signals in times."
        )
    return observation


def require_action(value: object, signal: Signal, label: str = "action") -> NDArray[np.float32]:
    """Return a float32 copy of an action (A,) after checking it; clipping alone would let NaN through.

    Raises:
        AdapterError: It has another shape, or is not finite; the message is a sentence without its full stop.
    """
    action = numbers_of(value).astype(np.float32)
    if action.shape != (signal.size,) or not np.isfinite(action).all():
        raise AdapterError(
            f"{label} is {value}, expected {signal.size} finite numbers [{signal.unit}] ({', '.join(signal.elements)})"
        )
    return action


def require_executed(returned: object, adapter: Adapter) -> Executed:
    """Return `returned`, the result of the adapter's `write`, if it is a valid `Executed`.

    Raises:
        AdapterError: It or one of its fields has another type, or the action has no numbers.
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
    """Return a phrase for each field in which `offered`, which `holder` has, differs from the `expected` signal."""
    return [
        f"{kind} {expected.name!r} has {field} {_text(value)}, {holder} has {_text(offer)}"
        for field in fields
        if (value := getattr(expected, field)) != (offer := getattr(offered, field))
    ]


def _text(value: Any) -> str:
    return "(" + ", ".join(map(str, value)) + ")" if isinstance(value, tuple) else str(value)


def _listed(signals: Iterable[Signal]) -> str:
    return ", ".join(f"{signal.name} ({signal.size}, {signal.unit})" for signal in signals)
