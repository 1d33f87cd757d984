"""The newest reading of each signal, from sensors of several rates, as one observation."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, UnknownName
from sami_runtime.signals import Signal, fill


class Latest:
    """Stores stamped readings from any thread, and returns observations with the stamp of each signal.

    The time of an observation is that of its oldest signal, so that a dead sensor shows even if others still report.

    Args:
        signals: The adapter's signals, all of which an observation contains.
        clock: The loop's clock, for all stamps.
        wait_s: Longest wait [s] of `observation` for signals that have not arrived yet, in real time, even if the clock
            is a simulation's.
        note: Returns the problems of the sources, such as `Datagrams.fault`. Errors and observations contain it, and
            the gate reports it if an observation is too old.
    """

    def __init__(
        self, signals: Sequence[Signal], clock: Clock, wait_s: float = 1.0, note: Callable[[], str] = str
    ) -> None:
        self.signals, self.clock, self.wait_s = {signal.name: signal for signal in signals}, clock, wait_s
        self._note = note
        self._news = threading.Condition()
        self._constant: set[str] = set()
        self._values: dict[str, NDArray[np.float32]] = {}
        self._times: dict[str, float] = {}
        self._since = -math.inf
        self._early = 0

    def put(self, measured: float, /, **values: Any) -> None:
        """Store readings of one time; ignore those from before the reset, or older than the stored ones.

        Args:
            measured: Time of the measurement [s], by the loop's clock.
            values: By signal, each (size,).

        Raises:
            UnknownName: A signal does not exist.
            SignalError: A value is not numeric, or has another size.
            AdapterError: The stamp is not finite.
        """
        if not math.isfinite(measured):
            raise AdapterError(f"{', '.join(values)} is stamped {measured}; stamps are finite seconds.")
        arrays = {name: self._array(name, value) for name, value in values.items()}
        with self._news:
            if measured < self._since:
                self._early += 1
                return
            for name, value in arrays.items():
                if measured >= self._times.get(name, -math.inf):
                    self._values[name], self._times[name] = value, measured
            self._news.notify_all()

    def always(self, **values: Any) -> None:
        """Store values that no sensor measures, such as a goal; until the next reset, they have the observation's time.

        Raises:
            UnknownName, SignalError: As in `put`.
        """
        arrays = {name: self._array(name, value) for name, value in values.items()}
        with self._news:
            self._values |= arrays
            self._constant |= arrays.keys()
            self._news.notify_all()

    def reset(self) -> None:
        """Forget everything, and from now on ignore readings that were measured before this call."""
        with self._news:
            self._values, self._times, self._constant = {}, {}, set()
            self._since, self._early = self.clock.now(), 0

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the signals that have not arrived since the reset."""
        return tuple(name for name in self.signals if name not in self._values)

    def observation(self) -> Observation:
        """Return the newest reading of each signal; wait only for signals that have not arrived yet.

        Raises:
            AdapterError: A signal did not arrive within `wait_s`.
        """
        deadline = time.monotonic() + self.wait_s
        with self._news:
            while self.missing:
                if (remaining_s := deadline - time.monotonic()) <= 0.0:
                    raise AdapterError(self._missing_message())
                self._news.wait(remaining_s)
            times = {name: stamp for name, stamp in self._times.items() if name not in self._constant}
            oldest = min(times.values(), default=self.clock.now())
            values = {name: self._values[name].copy() for name in self.signals}
            return Observation(values, oldest, times, note=self._note())

    def _array(self, name: str, value: Any) -> NDArray[np.float32]:
        if name not in self.signals:
            raise UnknownName("signal", name, self.signals, "The adapter's observation does not have it.")
        row = np.empty((1, self.signals[name].size), np.float32)
        fill(row, value, self.signals[name], "observation")
        return row[0]

    def _missing_message(self) -> str:
        present = ", ".join(name for name in self.signals if name not in self.missing) or "nothing"
        note = self._note()
        early = f"; {self._early} readings came that were measured before the reset" if self._early else ""
        return (
            f"{', '.join(self.missing)} never came, in the {self.wait_s:g} s that were waited; {present} did{early}. "
            f"Is the sensor on, and are its stamps times of the loop's clock (ClockSync)?{note and ' ' + note + '.'}"
        )
