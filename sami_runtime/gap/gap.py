"""The gap between simulation and reality, while it runs: what a profile does to one episode's numbers.

Runtime and training use this one machine, so that the same seed disturbs an episode alike in both. It counts ticks of
the policy: times are rounded to the nearest whole period (half a period up), since what the world was between two ticks
is not known. A latency of 1.5 periods delivers, at every tick, the observation of two ticks ago.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.gap.draw import Draw
from sami_runtime.gap.lines import Actuator, Array, Lines, Stamps, Times
from sami_runtime.gap.profile import GapProfile
from sami_runtime.gap.sensors import Bias, Copies, Noise, Quantisation, Sensor, Sticking
from sami_runtime.signals import Signal

STREAM = 0x6A9
"""Keeps a gap's randomness apart from that of an environment that gets the same seed."""


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
        elements: Names of the action's elements, for profiles that name some.

    Raises:
        UnknownName, SamiError: The profile names a signal or an element that is not there.
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
        copies = [(self._where[name], self._where[source]) for name, source in profile.same_as.items()]
        self._sensors: tuple[Sensor, ...] = (Bias(), Noise(), Quantisation(), Sticking(period), Copies(copies))
        self._stamps = Stamps()
        members: dict[str, dict[int, slice]] = {}
        for number, (name, where) in enumerate(self._where.items()):
            members.setdefault(profile.line_of(name), {})[number] = where
        self._lines = Lines(period, members)
        self._actuator = Actuator(action_size, write_period or period)
        self._signals, self._action_size, self._elements = tuple(signals), action_size, tuple(elements)
        self.on_actions = profile.on_actions
        """Whether anything lies between an action and what the world gets."""
        self.begun = False
        """Whether an episode has."""
        self.late: dict[str, int] = {}
        """By signal: how many periods ago what arrived last of it was sensed."""
        self._root: np.random.SeedSequence | None = None

    def begin(self, seed: int | None = None, size: float = 1.0, among: int | None = None) -> None:
        """Begin an episode, and draw what is drawn anew in each.

        Args:
            seed: Of the episode; if None, the stream of the last one goes on, or an arbitrary one begins.
            size: Share of the profile that the gap has, 0 to 1: what is drawn is multiplied by it (of sensors that
                stick, for how long they do).
            among: Which of several episodes with this seed it is, each of which draws its own gap; None where there is
                one.
        """
        if seed is not None or self._root is None:
            # The last number tells an episode among several from one alone: trailing zeros would count for nothing.
            which = () if among is None else (among, 1)
            self._root = np.random.SeedSequence(None if seed is None else (STREAM, seed, *which))
        draw = Draw(self.profile, self._where, self._root, size, self._elements)
        for sensor in self._sensors:
            sensor.begin(draw)
        self._stamps.begin(draw)
        self._lines.begin(draw)
        self._actuator.begin(draw)
        self._sent = np.zeros(self._action_size)
        self.on_actions = self.profile.on_actions
        self._tick = 0
        self.begun = True

    def change(self, profile: GapProfile) -> None:
        """Go on as another profile has it, in the middle of an episode: what is late, lost, or follows late.

        What is under way arrives when it would have. Errors of sensors and clocks stay those of the episode.

        Args:
            profile: What the gap is from now on.

        Raises:
            UnknownName, SamiError: It names a signal that is not there, or its signals arrive otherwise together.
        """
        profile.require_fit(self._signals, self._elements)
        if any(profile.line_of(name) != self.profile.line_of(name) for name in self._where):
            raise SamiError(
                "the gap would change which signals arrive together. Give both profiles the same sensors, and tables "
                "of latency_s, jitter_s and dropout that name the same ones."
            )
        assert self._root is not None, "no episode has begun"
        draw = Draw(profile, self._where, self._root, actions=self._elements)
        self._lines.change(draw)
        self._actuator.change(draw)
        if profile.on_actions and not self.on_actions:
            self._actuator.go_on_from(self._sent)
            self.on_actions = True

    def observe(self, values: Array, time: Times = 0.0) -> tuple[Array, Times]:
        """Sense one tick: what the world is goes in, and what a policy gets to see of it comes out.

        Args:
            values: (D,) as they are.
            time: When they were measured [s]; or an array of times, where sensors measure at different ones.

        Returns:
            (D,) what arrived last, and its stamp or stamps [s]: where sensors have lines of their own, the oldest stamp
            and then one for each signal.
        """
        tick, self._tick = self._tick, self._tick + 1
        measured = values.astype(np.float64)
        for sensor in self._sensors:
            sensor.apply(measured, tick)
        arrived, stamp, sensed = self._lines.carry(measured.astype(values.dtype), self._stamps.stamp(time), tick)
        self.late = dict(zip(self._where, (tick - sensed).tolist(), strict=True))
        return arrived, stamp

    def actuate(self, command: Array) -> Array:
        """Write once: the command that is sent goes in, and the action (A,) that its actuator reaches comes out."""
        if self.on_actions:
            return self._actuator.follow(command)
        self._sent = np.asarray(command, np.float64)
        return command
