"""The gap between simulation and reality, while it runs: what a profile does to one episode's numbers.

Runtime and training use this one machine, so that the same seed disturbs an episode alike in both. It counts ticks of
the policy: times are rounded to the nearest whole period (half a period up), since what the world was between two ticks
is not known. A latency of 1.5 periods delivers, at every tick, the observation of two ticks ago.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sami_runtime.gap.lines import _Line
from sami_runtime.gap.profile import GapProfile, Span
from sami_runtime.gap.sensors import Array, _Sticking
from sami_runtime.signals import Signal

Float64 = NDArray[np.float64]
Stamps = float | Float64
"""When an observation was measured [s]: one time, or an array of several."""
STREAM = 0x6A9
"""Keeps a gap's randomness apart from that of an environment that gets the same seed."""
FOREVER = 2**53
"""A tick that no episode reaches."""
ROUNDING = 1e-6
"""Share of a period that is no difference."""


def _periods(count: float) -> int:
    """The nearest whole number of periods."""
    return math.floor(count + 0.5 + ROUNDING)


class Gap:
    """What a profile does to an episode: `begin`, then `observe` once each tick and `actuate` once each write.

    A sensor adds bias, then noise, rounds, and may stick; then the message may be lost, and arrives late. The first
    observation of an episode always arrives at once: the world rested before.

    Args:
        profile: What the gap is.
        signals: What is observed, in the order in which `observe` gets them: D numbers.
        action_size: A.
        period: Time between two observations [s].
        write_period: Time between two actions [s]; `period` if None.

    Raises:
        UnknownName, SamiError: The profile names a signal that is not there.
    """

    def __init__(
        self,
        profile: GapProfile,
        signals: Sequence[Signal],
        action_size: int,
        period: float,
        write_period: float | None = None,
    ) -> None:
        profile.require_fit(signals)
        self.profile = profile
        ends = np.cumsum([signal.size for signal in signals]).tolist()
        self._where = {s.name: slice(end - s.size, end) for s, end in zip(signals, ends, strict=True)}
        self._size, self._action_size = ends[-1], action_size
        self._period, self._write_period = period, write_period or period
        self._copies = [(self._where[name], self._where[source]) for name, source in profile.same_as.items()]
        self.on_actions = profile.action_latency_s != 0.0 or profile.actuator_lag_s != 0.0
        """Whether anything lies between an action and what the world gets."""
        self.begun = False
        """Whether an episode has."""
        self._root: np.random.SeedSequence | None = None

    def begin(self, seed: int | None = None) -> None:
        """Begins an episode, and draws what is drawn anew in each.

        Args:
            seed: Of the episode; if None, the stream of the last one goes on, or an arbitrary one begins.
        """
        if seed is not None or self._root is None:
            self._root = np.random.SeedSequence(None if seed is None else (STREAM, seed))
        streams = [np.random.default_rng(child) for child in self._root.spawn(4)]
        draws, self._noise_stream, self._loss_stream, self._jitter_stream = streams
        profile = self.profile

        def drawn(span: Span, size: int = 1) -> Float64:
            return draws.uniform(*span, size) if isinstance(span, tuple) else np.full(size, span)

        self._latency, self._jitter = (float(drawn(s)[0]) / self._period for s in (profile.latency_s, profile.jitter_s))
        self._dropout = float(drawn(profile.dropout)[0])
        self._skew, self._offset = float(drawn(profile.clock_skew)[0]), float(drawn(profile.clock_offset_s)[0])
        self._action_latency = float(drawn(profile.action_latency_s)[0]) / self._write_period
        lag = float(drawn(profile.actuator_lag_s)[0])
        self._left = math.exp(-self._write_period / lag) if lag else 0.0
        by_signal = {key: np.zeros(self._size) for key in ("noise", "noise_relative", "quantisation")}
        by_element = {key: np.zeros(self._size) for key in ("bias", "bias_relative")}
        self._sticking: list[_Sticking] = []
        for name, where in self._where.items():
            for key, values in by_signal.items():
                values[where] = drawn(profile.of_signal(key, name))
            for key, values in by_element.items():
                values[where] = drawn(profile.of_signal(key, name), where.stop - where.start)
            at, lasts = (float(drawn(profile.of_signal(key, name))[0]) for key in ("stuck_at_s", "stuck_for_s"))
            if math.isfinite(at):
                end = min((at + lasts) / self._period, FOREVER)
                self._sticking.append(_Sticking(where, _periods(at / self._period), _periods(end)))
        self._noise, self._noise_relative, self._steps = by_signal.values()
        self._bias, self._gain = by_element.values()
        # What a kind of error does not touch stays as it is, to the last bit.
        self._noisy = np.flatnonzero((self._noise != 0) | (self._noise_relative != 0))
        self._biased = np.flatnonzero((self._bias != 0) | (self._gain != 0))
        self._rounded = np.flatnonzero(self._steps)
        self._tick, self._writes = 0, 0
        self._line: _Line[tuple[Array, Stamps]] | None = None
        self._commands: _Line[Float64] = _Line(np.zeros(self._action_size))
        self._reached = np.zeros(self._action_size)
        self.begun = True

    def observe(self, values: Array, time: Stamps = 0.0) -> tuple[Array, Stamps]:
        """One tick of the sensors: what the world is goes in, and what a policy gets to see of it comes out.

        Args:
            values: (D,) as they are.
            time: When they were measured [s]; or an array of times, where sensors measure at different ones.

        Returns:
            (D,) what arrived last, and its stamp or stamps [s].
        """
        tick, self._tick = self._tick, self._tick + 1
        if self._line is None:
            self._began = time
        stamp = time + self._offset + self._skew * (time - self._began)
        message = self._sense(values, tick), stamp
        if self._line is None:
            self._line = _Line(message)
            return message
        lost = self._dropout and self._loss_stream.random() < self._dropout
        late = self._latency + (self._jitter * self._jitter_stream.random() if self._jitter else 0.0)
        if not lost:
            self._line.send(message, tick + _periods(late))
        return self._line.read(tick)

    def actuate(self, command: Array) -> Array:
        """One write: the command that is sent goes in, and the action (A,) that its actuator reaches comes out."""
        if not self.on_actions:
            return command
        self._commands.send(np.asarray(command, np.float64), self._writes + _periods(self._action_latency))
        arrived = self._commands.read(self._writes)
        self._writes += 1
        self._reached = arrived + self._left * (self._reached - arrived)
        return self._reached.astype(np.result_type(command, np.float32))

    def _sense(self, values: Array, tick: int) -> Array:
        """What the sensors say."""
        said = values.astype(np.float64)
        at = self._biased
        said[at] += self._gain[at] * said[at] + self._bias[at]
        at = self._noisy
        if len(at):
            deviation = self._noise[at] + self._noise_relative[at] * np.abs(said[at])
            said[at] += deviation * self._noise_stream.standard_normal(len(at))
        at = self._rounded
        said[at] = np.round(said[at] / self._steps[at]) * self._steps[at]
        sensed = said.astype(values.dtype)
        for sticking in self._sticking:
            if tick == sticking.first:
                sticking.value = sensed[sticking.where].copy()
            if sticking.value is not None and sticking.first <= tick < sticking.end:
                sensed[sticking.where] = sticking.value
        for target, source in self._copies:
            sensed[target] = sensed[source]
        return sensed
