"""Adapters that wrap another adapter: dry run, time scaling, and a simulated sim-to-real profile."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import (
    Adapter,
    Executed,
    Observation,
    require_action,
    require_executed,
    require_observation,
)
from sami_runtime.errors import AdapterError
from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile
from sami_runtime.signals import Signal, numbers_of

_OPTIONAL = {"command_delay_s": 0.0, "waits": False, "emergency_stop": None, "watch": None, "basis": (), "scene": None}
"""Optional members of an adapter, see `Adapter`, each with the value that a missing one stands for."""


class Around:
    """Base of wrappers: it forwards everything except `read` and `write`, optional members included.

    A subclass defines `read` and `write`. To keep the stamps of an observation, change only its values:
    `dataclasses.replace(self.read_inner(), values=...)`.
    """

    def __init__(self, inner: Adapter) -> None:
        self.inner = inner
        self.observation: tuple[Signal, ...] = inner.observation
        self.action: Signal = inner.action

    def __getattr__(self, name: str) -> Any:
        if name in _OPTIONAL:
            return getattr(self.inner, name, _OPTIONAL[name])
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode of the wrapped adapter."""
        self.inner.reset(seed)

    def read_inner(self) -> Observation:
        """Return the wrapped adapter's observation; AdapterError if `read` did not return a valid `Observation`."""
        return require_observation(self.inner.read(), self.inner)

    def write_inner(self, action: NDArray[np.float32]) -> Executed:
        """Write an action (A,) to the wrapped adapter, and return its result.

        Raises:
            AdapterError: Its `write` did not return a valid `Executed`.
        """
        return require_executed(self.inner.write(action), self.inner)

    def stop(self) -> None:
        """Stop the wrapped adapter at once."""
        self.inner.stop()

    def close(self) -> None:
        """Close the wrapped adapter."""
        self.inner.close()


class DryRun(Around):
    """Forwards everything except `write`, and reports each action as executed without writing it.

    `reset` and `stop` are forwarded, so a reset that moves the robot still moves it.

    Args:
        inner: The wrapped adapter, to which nothing is written.
    """

    def read(self) -> Observation:
        """Return the wrapped adapter's observation."""
        return self.read_inner()

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Return the action as executed, and write nothing."""
        return Executed(np.array(action, np.float32))


class Slowed(Around):
    """Time scaling: multiplies observed speeds by `slower`, so that they match the policy's own pace.

    If a step takes three periods, an object that moves by 1 cm from step to step has a third of the speed that it would
    have in training. Signals with a unit per second are multiplied by `slower`, those per second squared by its square;
    all others stay unchanged.

    Args:
        inner: The wrapped adapter.
        slower: How many periods each step of the policy takes, at least 1; see `LoopSettings`.
    """

    def __init__(self, inner: Adapter, slower: int) -> None:
        super().__init__(inner)
        powers = {signal.name: _by_second(signal.unit) for signal in inner.observation}
        self._factors = {name: np.float32(slower**power) for name, power in powers.items() if power}

    def read(self) -> Observation:
        """Return the wrapped adapter's observation, with speeds at the policy's own pace."""
        observation = self.read_inner()
        values = dict(observation.values)
        for name in self._factors.keys() & values.keys():
            with suppress(TypeError, ValueError):  # not numeric: the session reports the signal
                values[name] = np.asarray(values[name], np.float32) * self._factors[name]
        return replace(observation, values=values)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Pass an action on."""
        return self.write_inner(action)


def _by_second(unit: str) -> int:
    """Return the power of seconds in a unit's denominator: 1 for `m/s`, 2 for `m/s2` and `rad/s^2`, else 0."""
    _, slash, by = unit.partition("/")
    return {"s": 1, "s2": 2, "s^2": 2, "s²": 2}.get(by, 0) if slash else 0


class Gapped(Around):
    """Simulates a sim-to-real profile: it disturbs observations and delays actions; `stop` and `close` are forwarded.

    Every read counts as one tick of the policy, and every write as one tick of the loop. Ticks that a late loop misses
    do not count, so that the disturbance of an episode depends only on its seed.

    If the profile changes actions, the executed action is the command within the action's bounds, because that is what
    a robot can report when it writes. The later effect of the actuators belongs to the dynamics, which a policy has to
    infer from observations. `info["actuated"]` reports the action after the actuators.

    >>> from sami_runtime.adapters.fake import FakeAdapter
    >>> robot = Gapped(FakeAdapter(axes=1, period=0.1), GapProfile(action_latency_s=0.1), rate_hz=10.0)
    >>> robot.reset(seed=0)
    >>> result = robot.write(np.array([0.5], np.float32))
    >>> result.action, result.info["actuated"]
    (array([0.5], dtype=float32), [0.0])

    Args:
        inner: The wrapped adapter.
        profile: The sim-to-real profile.
        rate_hz: Rate of the policy [1/s], at which the loop reads.
        loop_hz: Rate of the loop [1/s], at which it writes; `rate_hz` if None.

    Raises:
        UnknownName, SamiError: The profile does not fit the adapter's signals and action.
    """

    def __init__(self, inner: Adapter, profile: GapProfile, rate_hz: float, loop_hz: float | None = None) -> None:
        super().__init__(inner)
        action = self.action
        periods = 1.0 / rate_hz, 1.0 / (loop_hz or rate_hz)
        self.gap = Gap(profile, self.observation, action.size, *periods, elements=action.elements)
        self._ends = np.cumsum([signal.size for signal in self.observation])[:-1]
        self._low = np.array([-np.inf if low is None else low for low in action.low], np.float32)
        self._high = np.array([np.inf if high is None else high for high in action.high], np.float32)

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode of the wrapped adapter and of the profile, both with this seed."""
        super().reset(seed)
        self.gap.begin(seed)

    def read(self) -> Observation:
        """Return the disturbed observation, with the stamps of the values that have arrived."""
        frame = self.read_inner()
        for signal in self.observation:
            if numbers_of(frame.values.get(signal.name)).shape != (signal.size,):
                raise AdapterError(
                    f"{type(self.inner).__name__} declares {signal.name!r} with {signal.size} numbers, and read() gave "
                    f"{frame.values.get(signal.name)}. Correct the adapter."
                )
        if not self.gap.in_episode:  # nothing is under way yet
            return frame
        names = [signal.name for signal in self.observation]
        flat = np.concatenate([frame.values[name] for name in names])
        time = frame.time if frame.times is None else np.array([frame.time, *map(frame.measured, names)])
        values, stamp = self.gap.observe(flat, time)
        parts = dict(zip(names, np.split(values.copy(), self._ends), strict=True))
        lates = {name: float(periods) for name, periods in self.gap.late.items()}
        late = lates[names[0]] if len(set(lates.values())) == 1 else lates  # one, if all arrive together
        if isinstance(stamp, np.ndarray):
            first, *by_name = stamp.tolist()
            return Observation(parts, first, dict(zip(names, by_name, strict=True)), late, frame.note)
        return Observation(parts, stamp, None, late, frame.note)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send an action (A,) through the simulated actuators, and return the command within the action's bounds."""
        if not self.gap.on_actions:
            return self.write_inner(action)
        # A NaN would stay in the simulated actuator for ever.
        command = require_action(action, self.action)
        if not self.gap.in_episode:
            raise AdapterError("the episode has not begun; an action cannot be executed. Call reset() first.")
        clipped = np.clip(command, self._low, self._high)
        result = self.write_inner(self.gap.actuate(clipped))
        return Executed(clipped, result.done, {**result.info, "actuated": result.action.tolist()})
