"""What lies between sensors, policy and actuators: transport lines, clocks, and actuators that follow late."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sami_runtime.gap.draw import Draw, Float64, whole_periods
from sami_runtime.gap.profile import OF_EACH_LINE

Array = NDArray[np.floating]
Times = float | Float64
"""When an observation was measured [s]: one time, or an array of several."""
T = TypeVar("T")


class UnderWay(Generic[T]):
    """Messages of which the newest that has arrived is read; those that it overtook are lost."""

    def __init__(self, first: T) -> None:
        self._newest = first
        self._sent: list[tuple[int, T]] = []

    def send(self, message: T, arrives: int) -> None:
        """Send a message that arrives at a tick."""
        self._sent.append((arrives, message))

    def read(self, now: int) -> T:
        """Return the newest message that has arrived until this tick."""
        for at in reversed(range(len(self._sent))):
            if self._sent[at][0] <= now:
                self._newest = self._sent[at][1]
                del self._sent[: at + 1]
                break
        return self._newest


class SensorLine(Generic[T]):
    """The line from a sensor, or from all: latency, jitter, dropout. The first message of an episode arrives at once.

    Args:
        period: Time between two ticks [s].
        name: Of the line, see `GapProfile.line_of`.
    """

    def __init__(self, period: float, name: str = "") -> None:
        self._period, self._name = period, name

    def begin(self, draw: Draw) -> None:
        """Begin an episode."""
        self._messages: UnderWay[T] | None = None
        self.change(draw)

    def change(self, draw: Draw) -> None:
        """Go on as another draw has it; what is under way arrives when it would have."""
        latency, jitter, self._dropout = (draw.number(key, self._name) for key in OF_EACH_LINE)
        self._latency, self._jitter = latency / self._period, jitter / self._period
        self._loss_stream, self._jitter_stream = draw.loss, draw.jitter

    def carry(self, message: T, tick: int) -> T:
        """Send the message of a tick, unless it is lost, and return the newest that has arrived."""
        if self._messages is None:
            self._messages = UnderWay(message)
            return message
        lost = self._dropout and self._loss_stream.random() < self._dropout
        late = self._latency + (self._jitter * self._jitter_stream.random() if self._jitter else 0.0)
        if not lost:
            self._messages.send(message, tick + whole_periods(late))
        return self._messages.read(tick)


class Lines:
    """The lines of all sensors: signals that arrive together share one.

    Args:
        period: Time between two ticks [s].
        members: Of each line by its name: the numbers of its signals, and where each of these lies in what is observed.
    """

    def __init__(self, period: float, members: Mapping[str, Mapping[int, slice]]) -> None:
        self._lines: dict[str, SensorLine[tuple[Array, Times, int]]] = {
            name: SensorLine(period, name) for name in members
        }
        self._signals = {name: np.array(list(signals)) for name, signals in members.items()}
        self._numbers = {name: np.r_[tuple(signals.values())] for name, signals in members.items()}
        self._count = sum(map(len, members.values()))

    def begin(self, draw: Draw) -> None:
        """Begin an episode."""
        for line in self._lines.values():
            line.begin(draw)

    def change(self, draw: Draw) -> None:
        """Go on as another draw has it, see `SensorLine.change`."""
        for line in self._lines.values():
            line.change(draw)

    def carry(self, values: Array, stamps: Times, tick: int) -> tuple[Array, Times, NDArray[np.int64]]:
        """Send what the sensors say at a tick (D,), and return what has arrived, with its stamp.

        Last come the ticks at which each signal of it was sensed (S,).

        With several lines there is a stamp for each signal, after that of the oldest.
        """
        if len(self._lines) == 1:
            (line,) = self._lines.values()
            delayed, stamp, at = line.carry((values, stamps, tick), tick)
            return delayed, stamp, np.full(self._count, at)
        count = 1 + self._count
        measured = stamps if isinstance(stamps, np.ndarray) else np.full(count, stamps)
        arrived, seen, sensed = values.copy(), measured.copy(), np.zeros(self._count, np.int64)
        for name, line in self._lines.items():
            numbers, signals = self._numbers[name], 1 + self._signals[name]
            arrived[numbers], seen[signals], sensed[signals - 1] = line.carry(
                (values[numbers], measured[signals], tick), tick
            )
        seen[0] = seen[1:].min()
        return arrived, seen, sensed


class Stamps:
    """The clock that stamps observations: its skew, and its offset when an episode begins."""

    def begin(self, draw: Draw) -> None:
        """Begin an episode."""
        self._skew, self._offset = draw.number("clock_skew"), draw.number("clock_offset_s")
        self._began: Times | None = None

    def stamp(self, time: Times) -> Times:
        """Return what the clock shows at a time, or at several [s]; an episode begins with the first."""
        if self._began is None:
            self._began = time
        return time + self._offset + self._skew * (time - self._began)


class Actuator:
    """What becomes of commands: they arrive late, are followed as by a first-order system from zero, and at a pace.

    Args:
        size: A.
        period: Time between two writes [s].
    """

    def __init__(self, size: int, period: float) -> None:
        self._size, self._period = size, period

    def begin(self, draw: Draw) -> None:
        """Begin an episode, at rest."""
        self._commands: UnderWay[Float64] = UnderWay(np.zeros(self._size))
        self._reached = np.zeros(self._size)
        self._made, self._until = np.zeros(self._size), np.zeros(self._size)
        self._writes = 0
        self.change(draw)

    def change(self, draw: Draw) -> None:
        """Go on as another draw has it; commands that are under way arrive when they would have."""
        self._latency = draw.number("action_latency_s") / self._period
        lag = draw.number("actuator_lag_s")
        self._left = math.exp(-self._period / lag) if lag else 0.0
        self._pace, self._limit = draw.pace, draw.limit
        self._commit = np.array([whole_periods(time / self._period) for time in draw.commit])

    def go_on_from(self, command: Float64) -> None:
        """Stand at a command (A,) that was followed at once until now."""
        self._commands, self._reached = UnderWay(command), command

    def follow(self, command: Array) -> Array:
        """Send a command (A,), and return what is reached one write later."""
        self._commands.send(np.asarray(command, np.float64), self._writes + whole_periods(self._latency))
        arrived = self._commands.read(self._writes)
        self._reached = arrived + self._left * (self._reached - arrived)
        aim = np.clip(self._pace * self._reached, -self._limit, self._limit)
        free = self._writes >= self._until
        self._made = np.where(free, aim, self._made)
        self._until = np.where(free & (abs(aim) >= self._limit), self._writes + self._commit, self._until)
        self._writes += 1
        return self._made.astype(np.result_type(command, np.float32))
