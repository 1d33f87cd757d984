"""Wrappers of an adapter whose signals have other names or units than the policy's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.adapters.around import Around
from sami_runtime.adapters.base import Adapter, Executed, Observation
from sami_runtime.errors import AdapterError, require_known
from sami_runtime.signals import Moves, Signal

Array = NDArray[np.float32]
T = TypeVar("T")


def _require_signals(inner: Adapter, signals: Iterable[str]) -> None:
    names = [signal.name for signal in (*inner.observation, inner.action)]
    require_known("signal", signals, names, f"{type(inner).__name__} does not have it.")


class Rename(Around):
    """Renames the signals of an adapter to the policy's names.

    Args:
        inner: The adapter.
        names: The policy's names by the adapter's, of observations and the action: `{"tcp": "ee_position"}`.

    Raises:
        UnknownName: The adapter has no such signal.
        AdapterError: Two signals would have one name.
    """

    def __init__(self, inner: Adapter, names: Mapping[str, str]) -> None:
        _require_signals(inner, names)
        super().__init__(inner)
        self.names = dict(names)
        self.observation = tuple(self._renamed(signal) for signal in inner.observation)
        self.action = self._renamed(inner.action)
        self.basis = tuple(self._name(name) for name in getattr(inner, "basis", ()))
        renamed = [signal.name for signal in self.observation]
        if twice := sorted({name for name in renamed if renamed.count(name) > 1}):
            raise AdapterError(f"two signals would be called {', '.join(twice)}; give each a name of its own.")

    def read(self) -> Observation:
        """Return the inner adapter's observation, by the policy's names."""
        observation = self.read_inner()
        times = None if observation.times is None else self._with_local_names(observation.times)
        late = self._with_local_names(observation.late) if isinstance(observation.late, Mapping) else observation.late
        return replace(observation, values=self._with_local_names(observation.values), times=times, late=late)

    def write(self, action: Array) -> Executed:
        """Pass the action to the inner adapter."""
        return self.write_inner(action)

    def _with_local_names(self, by_driver_name: Mapping[str, T]) -> dict[str, T]:
        return {self._name(name): value for name, value in by_driver_name.items()}

    def _name(self, name: str) -> str:
        return self.names.get(name, name)

    def _renamed(self, signal: Signal) -> Signal:
        moves = signal.moves and {
            element: Moves(element=f"{self._name(name)}.{rest}", scale=entry.scale)
            for element, entry in signal.moves.items()
            for name, _, rest in [entry.element.rpartition(".")]
        }
        return signal.model_copy(update={"name": self._name(signal.name), "moves": moves})


class _Unit(NamedTuple):
    factor: NDArray[np.float64]
    unit: str


class Scale(Around):
    """Converts the numbers of an adapter to the policy's units, by multiplying them by factors.

    Args:
        inner: The adapter.
        factors: By the signal's name, the factor (a number, or one for each element) and the policy's unit:
            `{"gripper_width": (0.001, "m")}` for millimetres, `{"joints": ([1, -1], "rad")}` for a flipped axis. An
            action is divided by the factor.

    Raises:
        UnknownName: The adapter has no such signal.
        AdapterError: A factor is 0 or not finite, or their number is not that of the elements.
    """

    def __init__(self, inner: Adapter, factors: Mapping[str, tuple[ArrayLike, str]]) -> None:
        _require_signals(inner, factors)
        super().__init__(inner)
        signals = {signal.name: signal for signal in (*inner.observation, inner.action)}
        self._units = {name: _unit(signals[name], *factor_and_unit) for name, factor_and_unit in factors.items()}
        self.observation = tuple(self._scaled(signal) for signal in inner.observation)
        self.action = self._scaled(inner.action)

    def read(self) -> Observation:
        """Return the inner adapter's observation, in the policy's units."""
        observation = self.read_inner()
        return replace(observation, values={name: self._out(name, value) for name, value in observation.values.items()})

    def write(self, action: Array) -> Executed:
        """Pass the action on in the adapter's unit; return the executed action in the policy's unit."""
        name = self.inner.action.name
        if name not in self._units:
            return self.write_inner(action)
        request = (np.asarray(action, np.float64) / self._units[name].factor).astype(np.float32)
        result = self.write_inner(request)
        executed = np.where(result.action == request, action, self._out(name, result.action))  # unchanged stays exact
        return Executed(executed, result.done, result.info)

    def _out(self, name: str, value: ArrayLike) -> Array:
        if name not in self._units:
            return cast("Array", value)
        try:
            return (np.asarray(value, np.float64) * self._units[name].factor).astype(np.float32)
        except (TypeError, ValueError):
            return cast("Array", value)  # an invalid value; the session that reads it reports the signal

    def _scaled(self, signal: Signal) -> Signal:
        factor, unit = self._units.get(signal.name, _Unit(np.ones(signal.size), signal.unit))
        spans = []
        for low, high, by in zip(signal.low, signal.high, factor, strict=True):
            ends = [None if bound is None else float(bound * by) for bound in (low, high)]
            spans.append(ends if by > 0 else ends[::-1])  # a flipped axis exchanges its ends
        lows, highs = zip(*spans, strict=True)
        moves = signal.moves and {
            element: Moves(
                element=entry.element,
                scale=float(entry.scale * self._factor_of(entry.element) / factor[signal.elements.index(element)]),
            )
            for element, entry in signal.moves.items()
        }
        return signal.model_copy(update={"unit": unit, "low": lows, "high": highs, "moves": moves})

    def _factor_of(self, dotted: str) -> float:
        """Return the factor of an element of an observation, SIGNAL.ELEMENT."""
        name, _, element = dotted.rpartition(".")
        signal = next((signal for signal in self.inner.observation if signal.name == name), None)
        if signal is None or name not in self._units:
            return 1.0
        return float(self._units[name].factor[signal.elements.index(element)])


def _unit(signal: Signal, factor: ArrayLike, unit: str) -> _Unit:
    factors = np.asarray(factor, np.float64)
    if factors.shape not in ((), (signal.size,)) or not (np.isfinite(factors).all() and factors.all()):
        raise AdapterError(
            f"{signal.name} is to be multiplied by {factors.tolist()}; give a number that is not 0, or one for each of "
            f"its {signal.size} elements ({', '.join(signal.elements)})."
        )
    return _Unit(np.broadcast_to(factors, (signal.size,)), unit)
