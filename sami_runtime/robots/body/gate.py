"""A safety gate that also limits joints, points and shapes of the robot, after the rules of `SafetyGate`."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Observation
from sami_runtime.errors import SamiError, UnknownName, require_known
from sami_runtime.model.contract import Contract
from sami_runtime.robots.body.body import BodyLimits
from sami_runtime.robots.body.joints import Array, StiffTargets, extremes
from sami_runtime.robots.body.settings import BodySettings, by_name
from sami_runtime.safety.gate import Ruling, SafetyGate
from sami_runtime.safety.limiter import Commands, Shaped, drop_before, longest_age
from sami_runtime.safety.limits import Limits
from sami_runtime.signals import Signal, finite_numbers

UNITS = {"rad": "rad/s", "m": "m/s"}
"""Unit of a joint's velocity, by the unit of its position."""


class BodyGate(SafetyGate):
    """A safety gate with body limits: `Run(..., gate=partial(BodyGate, settings=BodySettings.load("body.toml")))`.

    The body's limits apply after all others, including rate limits, and override them in a conflict.

    Args:
        adapter, contract, limits, fallback, guards: As in `SafetyGate`; the adapter must observe the joints.
        settings: The table `[body]`.
        slower: As in `LoopSettings`: the observed joint speeds are this many times the real ones.

    Raises:
        UnknownName, SamiError: The settings do not fit the adapter's signals or the model's action.
    """

    def __init__(
        self,
        adapter: Adapter,
        contract: Contract,
        limits: Limits | None = None,
        fallback: Any = None,
        guards: Collection[str] = (),
        *,
        settings: BodySettings,
        slower: int = 1,
    ) -> None:
        super().__init__(adapter, contract, limits, fallback, guards)
        self.body, self._slower = BodyLimits(settings), slower
        self.explanations: dict[str, str] = {}
        """Reason why each limit last began to change actions, by its name in `limited_by`."""
        self._positions = self._signal(settings.positions, UNITS)
        speeds = [self._signal(settings.velocities, UNITS.values())] if settings.velocities else []
        self._signals = [self._positions, *speeds]
        self._needed += tuple(self._signals)
        self._use(contract)
        self._begin_body(1.0 / contract.rate_hz)

    def begin(self, period: float) -> None:
        """Begin an episode; see `SafetyGate`."""
        super().begin(period)
        self.body.begin()
        self._begin_body(period)

    def _begin_body(self, period: float) -> None:
        self._period, self._limiting = period, tuple[str, ...]()
        self._joints: list[Array] | None = None  # as measured at `_stamp`
        self._state: tuple[Array, Array] | None = None  # positions and velocities at `_state_at`, (J,) or (2, J)
        self._stamp: float | None = None
        self._state_at: float | None = None
        self._ruled_at: float | None = None
        self._commands = Commands(maxlen=0 if self.body.settings.command == "joint_positions" else None)

    def change_contract(self, contract: Contract) -> None:
        """Change to the signals of another model; see `SafetyGate`."""
        super().change_contract(contract)
        self._use(contract)

    def require_fit(self, contract: Contract) -> None:
        """Raise UnknownName or SamiError if limits or body do not fit a model's signals; see `SafetyGate`."""
        super().require_fit(contract)
        self._layout(contract)
        self._envelope(contract)

    def _use(self, contract: Contract) -> None:
        """Limit the actions of this model from now on."""
        self._at, self._scale, self._offset = self._layout(contract)
        self._start = self._envelope(contract)
        self._longest_age = longest_age(self.limits, contract)

    def fault(self, observation: Observation, now: float | None) -> str | None:
        """Return why an observation is rejected, or None; see `SafetyGate`. The joints' numbers must be finite."""
        if (fault := super().fault(observation, now)) is not None:
            return fault
        joints, count = [], len(self.body.settings.joints)
        for name in self._signals:
            value = finite_numbers(reading := observation.values.get(name), count)
            if value is None:
                return f"body: {name} is {reading}, expected {count} finite numbers"
            joints.append(value)
        stamp = None if now is None else min(now, observation.measured(self._positions))
        drop_before(self._commands, math.inf if stamp is None else stamp)
        joints[1:] = [joints[1] / self._slower] if len(joints) > 1 else [np.zeros(count)]
        if stamp is None or stamp != self._stamp or not np.array_equal(joints, self._joints or ()):
            self._joints, self._state, self._stamp, self._state_at = joints, (joints[0], joints[1]), stamp, stamp
        return (self.outside() or None) if self._episode.last_write is None else None

    def propose(self, action: NDArray[np.float32], now: float, ticks: int = 1) -> Ruling:
        """Rule on a new action; see `SafetyGate`. Hold the policy if it may not take over at the current joints."""
        if self._episode.overridden and (reason := self.outside()):
            ruling = self.hold(reason, now, ticks)
            return ruling._replace(reason=ruling.reason or reason)
        return super().propose(action, now, ticks)

    def _ruling(self, shaped: Shaped, now: float) -> Ruling:
        """Return the ruling on an action, with the body's limits applied."""
        ruling = super()._ruling(shaped, now)
        if self._state is None:
            raise SamiError(
                f"no valid value of {self._positions} was seen, from which the body's limits start. Pass each "
                "observation to fault() before its action to propose()."
            )
        stamp = self._stamp = now if self._stamp is None else self._stamp
        since = stamp if self._state_at is None else self._state_at
        if self._commands and since < now:  # all commands only for a new measurement
            commands = [self._commands[-1]] if since == self._ruled_at else self._commands
            self._state = extremes(*self._state, commands, since, now, self.body.acceleration)
        elapsed = self._period + max(0.0, now - stamp)
        if isinstance(self.body.drive, StiffTargets):  # joints at the last command, not at the measured positions
            passed = self._period if self._ruled_at is None else now - self._ruled_at
            elapsed = min(max(passed, 1e-9), self._period)  # the robot makes a step in one period, however late it is
        self._ruled_at = self._state_at = now
        target = self._offset + self._scale * shaped.action[self._at].astype(np.float64)
        verdict = self.body.limit(target, *self._state, elapsed)
        reasons = zip(verdict.limited_by, verdict.reasons, strict=True)
        self.explanations |= {name: str(reason) for name, reason in reasons if name not in self._limiting}
        self._limiting = verdict.limited_by
        self._commands.append((now, self.body.joint_speeds))
        drop_before(self._commands, now - self._longest_age)  # here too, because a person's pause reads nothing
        limited_by = (*ruling.limited_by, *verdict.limited_by)
        if verdict.stop:
            return self._stop(verdict.stop, now)._replace(limited_by=(*limited_by, "stop"))
        if not verdict.limited_by:
            return ruling
        action = shaped.action.copy()
        action[self._at] = ((verdict.command - self._offset) / self._scale).astype(np.float32)
        return ruling._replace(action=action, limited_by=limited_by)

    def _envelope(self, contract: Contract) -> tuple[Array, Array, Array] | None:
        """Return lowest and highest positions and highest speeds, (J,) each, at which the policy may take over."""
        settings = self.body.settings
        start, free = settings.start, np.full(len(settings.joints), np.inf)
        if start is None:
            return None
        if start.within is not None:
            home = np.array(self.body.geometry.home if self.body.geometry else settings.home, np.float64)
            within = settings.by_joint(start.within, free)
            low, high = home - within, home + within
        elif contract.training_ranges is not None and settings.positions in contract.training_ranges.signals:
            spread = contract.training_ranges.signals[settings.positions]
            low, high = np.array(spread.lowest), np.array(spread.highest)
        else:
            raise SamiError(
                f"start of [body] has no within, and {contract.name!r} no training range of {settings.positions}. Set "
                "start.within, how far joints may be from home when the policy takes over."
            )
        return low, high, settings.by_joint(start.velocity, free)

    def outside(self) -> str:
        """Return why the policy may not take over at the last observed joints, as `"start: ..."`; empty if it may."""
        if self._start is None or self._joints is None:
            return ""
        low, high, fastest = self._start
        positions, speeds = self._joints
        names = self.body.settings.joints
        for at in np.flatnonzero((positions < low) | (positions > high)):
            return (
                f"start: {names[at]} is at {positions[at]:.3g}, and the policy takes over from {low[at]:.3g} to "
                f"{high[at]:.3g}"
            )
        for at in np.flatnonzero(abs(speeds) > fastest):
            return (
                f"start: {names[at]} moves at {abs(speeds[at]):.3g}, and the policy takes over up to {fastest[at]:.3g}"
            )
        return ""

    def _signal(self, name: str, units: Collection[str]) -> str:
        """Return the name; raise UnknownName or SamiError if the signal is missing, or has a wrong size or unit."""
        signals: dict[str, Signal] = {signal.name: signal for signal in self.adapter.observation}
        if name not in signals:
            raise UnknownName("signal of the joints", name, signals, "The adapter has to observe it, for [body].")
        signal = signals[name]
        if signal.size != len(self.body.settings.joints) or signal.unit not in units:
            raise SamiError(
                f"signal {name} has {signal.size} numbers [{signal.unit}], and [body] has "
                f"{len(self.body.settings.joints)} joints [{' or '.join(units)}]. Name the signal of these joints."
            )
        return name

    def _layout(self, contract: Contract) -> tuple[NDArray[np.intp], Array, Array]:
        """Return the indices, scale and offset of the action's elements that form a command: (S,) each."""
        settings, action = self.body.settings, contract.action
        default = action.elements[:3] if settings.command == "hand" else settings.joints
        elements = default if settings.elements is None else settings.elements
        require_known("element of the action", elements, action.elements, "[body] reads it: set elements.")
        if len(elements) != self.body.size:
            raise SamiError(
                f"a command {settings.command} has {self.body.size} numbers, and elements names {len(elements)} of the "
                f"action: {', '.join(elements)}. Name one for each."
            )
        scale = by_name(settings.scale, elements, 1.0)
        for key in ("scale", "offset"):
            if isinstance(table := getattr(settings, key), dict):
                require_known("element of the action", table, elements, f"The key {key} of [body] names it.")
        if not scale.all():
            raise SamiError("scale of [body] has a 0, so an action of any size would command the same. Correct it.")
        at = np.array([action.elements.index(element) for element in elements])
        return at, scale, by_name(settings.offset, elements, 0.0)
