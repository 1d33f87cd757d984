"""Applies a sim-to-real profile to one episode: disturbs its observations and its actions.

Runtime and training share this code, so that the same seed disturbs an episode alike in both. Delays and durations are
rounded to the nearest whole period (half a period up), since the state of the world between two ticks is unknown. A
latency of 1.5 periods delivers, at every tick, the observation of two ticks ago.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import (
    OF_ACTIONS,
    OF_ALL_SIGNALS,
    OF_EACH_ELEMENT,
    OF_EACH_LINE,
    OF_EACH_SIGNAL,
    GapProfile,
    Span,
)
from sami_runtime.signals import Signal

Array = NDArray[np.floating]
Float64 = NDArray[np.float64]
Times = float | Float64
"""When an observation was measured [s]: one time, or an array of several."""
T = TypeVar("T")

STREAM = 0x6A9
"""Part of the seed: the random numbers differ from those of an environment with the same seed."""
LONGEST = 1e12
"""Replaces infinity in products, since infinity times 0 is NaN."""
FOREVER = 2.0**53
"""A tick that no episode reaches."""
ROUNDING = 1e-6
"""Tolerance [periods] for rounding errors just below half a period, which is rounded up."""


def whole_periods(count: float) -> int:
    """Return the nearest whole number of periods, half a period up."""
    return math.floor(count + 0.5 + ROUNDING)


class Draw:
    """The values of a profile in one episode, and random streams for the errors that are drawn at every tick.

    Ranges are drawn in this order: keys for all signals, line by line; then each signal's keys; then keys of the
    action. Noise, loss and jitter have a random stream each, so that one does not change the numbers of another.

    Args:
        profile: The profile.
        where: By signal, its columns in the flat observation (D,), in order.
        root: The episode's seed.
        size: Factor from 0 to 1 that scales the profile, see `Gap.begin`.
        actions: Names of the action's elements.
    """

    def __init__(
        self,
        profile: GapProfile,
        where: Mapping[str, slice],
        root: np.random.SeedSequence,
        size: float = 1.0,
        actions: Sequence[str] = (),
    ) -> None:
        self._rng, self.noise, self.loss, self.jitter = (np.random.default_rng(child) for child in root.spawn(4))
        self._numbers: dict[str, float | dict[str, float]] = {}
        lines = dict.fromkeys(map(profile.line_of, where))
        for key in OF_ALL_SIGNALS:
            if isinstance(value := getattr(profile, key), dict):
                self._numbers[key] = {line: float(self._sample(value.get(line, 0.0))[0]) * size for line in lines}
            else:
                self._numbers[key] = float(self._sample(value)[0]) * size
        self.elements = {key: np.zeros(max(columns.stop for columns in where.values())) for key in OF_EACH_SIGNAL}
        """By key, the episode's value for each column of the observation, (D,)."""
        for name, columns in where.items():
            for key, values in self.elements.items():
                count = columns.stop - columns.start if key in OF_EACH_ELEMENT else 1
                values[columns] = self._sample(profile.of_signal(key, name), count)
        if size != 1.0:
            # A smaller size shortens the time for which a sensor is stuck, and does not move its beginning.
            for key in self.elements.keys() - {"stuck_at_s"}:
                self.elements[key] = np.minimum(self.elements[key], LONGEST) * size
        pace, limit, commit = (self._of_elements(profile, key, actions) for key in OF_ACTIONS)
        self.pace = 1.0 + (pace - 1.0) * size
        """Share of each element of an action that is executed: (A,), or (1,) if one value is for all elements."""
        self.limit = limit / size if size else np.full_like(limit, math.inf)
        """Largest magnitude of each element, in the action's unit: (A,) or (1,)."""
        self.commit = commit * size
        """How long [s] each element ignores new commands once it reached its limit: (A,) or (1,)."""

    def number(self, key: str, line: str = "") -> float:
        """Return the episode's value of a key: the one for all signals, or a line's, see `GapProfile.line_of`."""
        value = self._numbers[key]
        return value[line] if isinstance(value, dict) else value

    def _of_elements(self, profile: GapProfile, key: str, actions: Sequence[str]) -> Float64:
        value, default = getattr(profile, key), type(profile).model_fields[key].default
        if not isinstance(value, dict):
            return self._sample(value)
        return np.array([float(self._sample(value.get(name, default))[0]) for name in actions])

    def _sample(self, span: Span, size: int = 1) -> Float64:
        return self._rng.uniform(*span, size) if isinstance(span, tuple) else np.full(size, span)


class Sensor(Protocol):
    """One kind of sensor error; values without this error stay equal to the last bit."""

    def begin(self, draw: Draw) -> None:
        """Begin an episode with the values that were drawn for it."""

    def apply(self, values: Float64, tick: int) -> None:
        """Change the readings (D,) of a tick in place."""


class Bias:
    """An offset and a gain error, both constant within an episode."""

    def begin(self, draw: Draw) -> None:
        """See `Sensor`."""
        offset, gain = draw.elements["bias"], draw.elements["bias_relative"]
        self._at = np.flatnonzero((offset != 0) | (gain != 0))
        self._offset, self._gain = offset[self._at], gain[self._at]

    def apply(self, values: Float64, tick: int) -> None:
        """See `Sensor`."""
        values[self._at] += self._gain * values[self._at] + self._offset


class Noise:
    """White normal noise; its standard deviation is a constant plus a share of the value's magnitude."""

    def begin(self, draw: Draw) -> None:
        """See `Sensor`."""
        constant, share = draw.elements["noise"], draw.elements["noise_relative"]
        self._at = np.flatnonzero((constant != 0) | (share != 0))
        self._constant, self._share = constant[self._at], share[self._at]
        self._stream = draw.noise

    def apply(self, values: Float64, tick: int) -> None:
        """See `Sensor`."""
        deviation = self._constant + self._share * np.abs(values[self._at])
        values[self._at] += deviation * self._stream.standard_normal(len(self._at))


class Quantisation:
    """Rounding to the nearest multiple of a step."""

    def begin(self, draw: Draw) -> None:
        """See `Sensor`."""
        steps = draw.elements["quantisation"]
        self._at = np.flatnonzero(steps)
        self._steps = steps[self._at]

    def apply(self, values: Float64, tick: int) -> None:
        """See `Sensor`."""
        values[self._at] = np.round(values[self._at] / self._steps) * self._steps


class Sticking:
    """Sensors that get stuck and repeat one reading for some time.

    Args:
        period: Time between two ticks [s].
    """

    def __init__(self, period: float) -> None:
        self._period = period

    def begin(self, draw: Draw) -> None:
        """See `Sensor`."""
        first, lasts = draw.elements["stuck_at_s"], draw.elements["stuck_for_s"]
        self._at = np.flatnonzero(np.isfinite(first))
        self._first = self._ticks(first[self._at])
        self._end = self._ticks(first[self._at] + lasts[self._at])
        self._stuck_readings = np.zeros(len(self._at))

    def apply(self, values: Float64, tick: int) -> None:
        """See `Sensor`."""
        if not len(self._at):
            return
        readings = values[self._at]
        self._stuck_readings = np.where(self._first == tick, readings, self._stuck_readings)
        values[self._at] = np.where((self._first <= tick) & (tick < self._end), self._stuck_readings, readings)

    def _ticks(self, times: Float64) -> Float64:
        return np.array([whole_periods(min(time / self._period, FOREVER)) for time in times], np.float64)


class UnderWay(Generic[T]):
    """Messages under way; `read` returns the newest that has arrived, and messages sent before that one are lost."""

    def __init__(self, first: T) -> None:
        self._newest = first
        self._queue: list[tuple[int, T]] = []

    def send(self, message: T, tick: int) -> None:
        """Send a message that will arrive at tick `tick`; call it in the order of sending."""
        self._queue.append((tick, message))

    def read(self, now: int) -> T:
        """Return the newest message that has arrived by tick `now`; the first message until then."""
        for at in reversed(range(len(self._queue))):
            if self._queue[at][0] <= now:
                self._newest = self._queue[at][1]
                del self._queue[: at + 1]
                break
        return self._newest


class SensorLine(Generic[T]):
    """A line: signals that arrive together, with one latency, jitter and dropout, as from one sensor or from all.

    Args:
        period: Time between two ticks [s].
        name: Name of the line, see `GapProfile.line_of`.
        signals: Indices of its signals.
        columns: Columns of these signals in the flat observation.
    """

    def __init__(self, period: float, name: str, signals: Sequence[int], columns: Sequence[slice]) -> None:
        self._period, self._name = period, name
        self.signals, self.columns = np.array(signals), np.r_[tuple(columns)]

    def begin(self, draw: Draw) -> None:
        """Begin an episode; its first message will arrive without delay."""
        self._messages: UnderWay[T] | None = None
        self.change(draw)

    def change(self, draw: Draw) -> None:
        """Use another draw from now on; messages that are under way arrive as planned."""
        latency, jitter, self._dropout = (draw.number(key, self._name) for key in OF_EACH_LINE)
        self._latency, self._jitter = latency / self._period, jitter / self._period
        self._loss_stream, self._jitter_stream = draw.loss, draw.jitter

    def carry(self, message: T, tick: int) -> T:
        """Send the message of a tick, unless it is lost, and return the newest message that has arrived."""
        if self._messages is None:
            self._messages = UnderWay(message)
            return message
        dropped = self._dropout and self._loss_stream.random() < self._dropout
        late = self._latency + (self._jitter * self._jitter_stream.random() if self._jitter else 0.0)
        if not dropped:
            self._messages.send(message, tick + whole_periods(late))
        return self._messages.read(tick)


class Actuator:
    """Actuators: a delay, then a first-order lag that starts at zero, a scale (pace), and saturation at a limit.

    Args:
        size: Number of the action's elements, A.
        period: Time between two writes [s].
    """

    def __init__(self, size: int, period: float) -> None:
        self._size, self._period = size, period

    def begin(self, draw: Draw) -> None:
        """Begin an episode with all elements at zero."""
        self._commands: UnderWay[Float64] = UnderWay(np.zeros(self._size))
        self._reached = np.zeros(self._size)
        self._output, self._until = np.zeros(self._size), np.zeros(self._size)
        self._writes = 0
        self.change(draw)

    def change(self, draw: Draw) -> None:
        """Use another draw from now on; commands that are under way arrive as planned."""
        self._latency = draw.number("action_latency_s") / self._period
        lag = draw.number("actuator_lag_s")
        self._lag_share = math.exp(-self._period / lag) if lag else 0.0
        self._pace, self._limit = draw.pace, draw.limit
        self._commit = np.array([whole_periods(time / self._period) for time in draw.commit])

    def go_on_from(self, command: Float64) -> None:
        """Start at a command (A,), the last one that was executed without a disturbance."""
        self._commands, self._reached = UnderWay(command), command

    def follow(self, command: Array) -> Array:
        """Send a command (A,), and return the action (A,) that the actuator executes until the next write."""
        self._commands.send(np.asarray(command, np.float64), self._writes + whole_periods(self._latency))
        arrived = self._commands.read(self._writes)
        self._reached = arrived + self._lag_share * (self._reached - arrived)
        aim = np.clip(self._pace * self._reached, -self._limit, self._limit)
        free = self._writes >= self._until
        self._output = np.where(free, aim, self._output)
        self._until = np.where(free & (abs(aim) >= self._limit), self._writes + self._commit, self._until)
        self._writes += 1
        return self._output.astype(np.result_type(command, np.float32))


class Gap:
    """Disturbs episodes by a profile: call `begin`, then `observe` once each tick and `actuate` once each write.

    A sensor adds bias, then noise, rounds, and may stick; then the message may be lost, and arrives late. The first
    observation of an episode always arrives without delay, as from a world that was at rest before.

    Args:
        profile: The profile.
        signals: The observed signals, in the order of the flat observation (D,) that `observe` gets.
        action_size: Number of the action's elements, A.
        period: Time between two observations [s].
        write_period: Time between two actions [s]; `period` if None.
        elements: Names of the action's elements, for profiles that name some.

    Raises:
        UnknownName, SamiError: The profile does not fit, see `GapProfile.require_fit`.
    """

    def __init__(
        self,
        profile: GapProfile,
        signals: Sequence[Signal],
        action_size: int,
        period: float,
        write_period: float | None = None,
        elements: Sequence[str] = (),
    ) -> None:
        profile.require_fit(signals, elements)
        self.profile, self.period = profile, period
        ends = np.cumsum([signal.size for signal in signals]).tolist()
        self._where = {s.name: slice(end - s.size, end) for s, end in zip(signals, ends, strict=True)}
        self._sensors: tuple[Sensor, ...] = (Bias(), Noise(), Quantisation(), Sticking(period))
        self._copies = [(self._where[name], self._where[source]) for name, source in profile.same_as.items()]
        members: dict[str, list[int]] = {}
        for number, name in enumerate(self._where):
            members.setdefault(profile.line_of(name), []).append(number)
        columns = list(self._where.values())
        self._lines: list[SensorLine[tuple[Array, Times, int]]] = [
            SensorLine(period, name, numbers, [columns[number] for number in numbers])
            for name, numbers in members.items()
        ]
        self._actuator = Actuator(action_size, write_period or period)
        self._signals, self._action_size, self._elements = tuple(signals), action_size, tuple(elements)
        self.on_actions = profile.on_actions
        """Whether actions are disturbed, by this profile or by an earlier one of the episode."""
        self.in_episode = False
        """Whether an episode has begun."""
        self.late: dict[str, int] = {}
        """By signal: age [periods] of the value that the last `observe` returned."""
        self._root: np.random.SeedSequence | None = None

    def begin(self, seed: int | None = None, size: float = 1.0, among: int | None = None) -> None:
        """Begin an episode, and draw its values from the profile's ranges.

        Args:
            seed: Of the episode; if None, the last episode's seed sequence continues, or a random one starts.
            size: Factor from 0 to 1 that scales all errors and delays, and the time for which a sensor is stuck; at 0,
                only `same_as` has an effect.
            among: Index of the episode among several with this seed, each of which draws its own values; None if the
                seed has one episode.
        """
        if seed is not None or self._root is None:
            # The 1 separates index 0 from a seed without an index: SeedSequence ignores trailing zeros.
            branch = () if among is None else (among, 1)
            self._root = np.random.SeedSequence(None if seed is None else (STREAM, seed, *branch))
        draw = Draw(self.profile, self._where, self._root, size, self._elements)
        for sensor in self._sensors:
            sensor.begin(draw)
        for line in self._lines:
            line.begin(draw)
        self._actuator.begin(draw)
        self._skew, self._offset = draw.number("clock_skew"), draw.number("clock_offset_s")
        self._start_times: Times | None = None
        self._command = np.zeros(self._action_size)
        self.on_actions = self.profile.on_actions
        self._tick = 0
        self.in_episode = True

    def change(self, profile: GapProfile) -> None:
        """Change to another profile within an episode: its latency, jitter, dropout and keys of actions.

        Messages under way arrive as planned. Errors of sensors and clocks stay those of the episode.

        Raises:
            UnknownName, SamiError: The profile does not fit, or it groups the signals into other lines.
        """
        profile.require_fit(self._signals, self._elements)
        if any(profile.line_of(name) != self.profile.line_of(name) for name in self._where):
            raise SamiError(
                "the gap would change which signals arrive together. Give both profiles the same sensors, and tables "
                "of latency_s, jitter_s and dropout that name the same ones."
            )
        assert self._root is not None, "no episode has begun"
        draw = Draw(profile, self._where, self._root, actions=self._elements)
        for line in self._lines:
            line.change(draw)
        self._actuator.change(draw)
        if profile.on_actions and not self.on_actions:
            self._actuator.go_on_from(self._command)
            self.on_actions = True

    def observe(self, values: Array, time: Times = 0.0) -> tuple[Array, Times]:
        """Disturb the observation of one tick.

        Args:
            values: (D,), the true values.
            time: When they were measured [s]; or (1 + S,) times: the oldest, then one for each of S signals.

        Returns:
            (D,), the values that arrived last, and their time [s] by the sensors' clock. With several lines, the times
            are an array (1 + S,): the oldest, then one for each signal.
        """
        tick, self._tick = self._tick, self._tick + 1
        measured = values.astype(np.float64)
        for sensor in self._sensors:
            sensor.apply(measured, tick)
        for target, source in self._copies:
            measured[target] = measured[source]
        self._start_times = time if self._start_times is None else self._start_times
        stamps = time + self._offset + self._skew * (time - self._start_times)  # by the clock of the sensors
        arrived, stamps, sensed = self._carry(measured.astype(values.dtype), stamps, tick)
        self.late = dict(zip(self._where, (tick - sensed).tolist(), strict=True))
        return arrived, stamps

    def actuate(self, command: Array) -> Array:
        """Disturb the command (A,) of one write: return the action (A,) that the actuators execute."""
        if self.on_actions:
            return self._actuator.follow(command)
        self._command = np.asarray(command, np.float64)
        return command

    def _carry(self, values: Array, stamps: Times, tick: int) -> tuple[Array, Times, NDArray[np.int64]]:
        """Send the readings (D,) of a tick; return those that arrived, their stamps, and each signal's tick (S,)."""
        count = len(self._where)
        if len(self._lines) == 1:
            delayed, stamp, at = self._lines[0].carry((values, stamps, tick), tick)
            return delayed, stamp, np.full(count, at)
        measured = stamps if isinstance(stamps, np.ndarray) else np.full(1 + count, stamps)
        arrived, stamps, sensed = values.copy(), measured.copy(), np.zeros(count, np.int64)
        for line in self._lines:
            message = (values[line.columns], measured[1 + line.signals], tick)
            arrived[line.columns], stamps[1 + line.signals], sensed[line.signals] = line.carry(message, tick)
        stamps[0] = stamps[1:].min()
        return arrived, stamps, sensed
