"""Adapters around another one: they watch it, slow it down, or put a gap in front of it."""

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
"""What an adapter may have besides the methods of `Adapter`, and what it stands for where it has not."""


class Around:
    """Passes on all that is not read or written, what an adapter may have besides its methods included.

    Whoever extends it reads and writes. An observation goes on with what it knows of its age:
    `dataclasses.replace(self.observed(), values=...)`.

    Args:
        inner: The adapter behind.
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
        """Begin an episode of the adapter behind."""
        self.inner.reset(seed)

    def observed(self) -> Observation:
        """Return what the adapter behind observes.

        Raises:
            AdapterError: Its `read` returned something else.
        """
        return require_observation(self.inner.read(), self.inner)

    def sent(self, action: NDArray[np.float32]) -> Executed:
        """Write an action (A,) to the adapter behind; return what it says was executed.

        Raises:
            AdapterError: Its `write` returned something else.
        """
        return require_executed(self.inner.write(action), self.inner)

    def stop(self) -> None:
        """Stop the adapter behind, at once."""
        self.inner.stop()

    def close(self) -> None:
        """Close the adapter behind."""
        self.inner.close()


class DryRun(Around):
    """Passes everything on but `write`: the action that would have been written counts as executed.

    `reset` and `stop` are passed on, so an adapter whose reset moves the robot moves it.

    Args:
        inner: The adapter that is not written to.
    """

    def read(self) -> Observation:
        """Return what the watched adapter observes."""
        return self.observed()

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Return the action as executed, and write nothing."""
        return Executed(np.array(action, np.float32))


class Slowed(Around):
    """Tells speeds as they would be at the policy's own pace: so many times as high.

    A policy that is asked every third of its periods lives in a world three times as quick as the real one: what moves
    by 1 cm between two of its steps moves at a third of the speed that it would have in training. Signals in a unit by
    second are multiplied, accelerations twice; everything else is passed on as it is.

    Args:
        inner: The adapter behind.
        slower: How many of its periods a policy's step takes, at least 1; see `LoopSettings`.
    """

    def __init__(self, inner: Adapter, slower: int) -> None:
        super().__init__(inner)
        powers = {signal.name: _by_second(signal.unit) for signal in inner.observation}
        self._factors = {name: np.float32(slower**power) for name, power in powers.items() if power}

    def read(self) -> Observation:
        """Return what the adapter behind observes, with speeds as the policy knows them."""
        seen = self.observed()
        values = dict(seen.values)
        for name in self._factors.keys() & values.keys():
            with suppress(TypeError, ValueError):  # no numbers: the session that reads them names the signal
                values[name] = np.asarray(values[name], np.float32) * self._factors[name]
        return replace(seen, values=values)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Pass an action on."""
        return self.sent(action)


def _by_second(unit: str) -> int:
    """Return how many times a unit is by second: 1 of `m/s`, 2 of `m/s2` and `rad/s^2`."""
    _, slash, by = unit.partition("/")
    return {"s": 1, "s2": 2, "s^2": 2, "s²": 2}.get(by, 0) if slash else 0


class Gapped(Around):
    """Disturbs what is read from another adapter, and delays what is written to it; `stop` and `close` go straight on.

    Every read is one tick of the policy and every write one of the loop. A tick that a late loop skips counts for
    nothing, so that an episode's gap is a function of its seed alone.

    Where the gap lies on actions, `executed` is the command as it was sent, within the bounds of the action: that is
    what a robot can tell when it writes. What its actuators make of it later belongs to the dynamics, which a policy
    has to find out from what it observes. `info["actuated"]` tells it to whoever looks on.

    >>> from sami_runtime.adapters.fake import FakeAdapter
    >>> robot = Gapped(FakeAdapter(axes=1, period=0.1), GapProfile(action_latency_s=0.1), rate_hz=10.0)
    >>> robot.reset(seed=0)
    >>> sent = robot.write(np.array([0.5], np.float32))
    >>> sent.action, sent.info["actuated"]
    (array([0.5], dtype=float32), [0.0])

    Args:
        inner: The adapter behind the gap.
        profile: What the gap is.
        rate_hz: Rate of the policy [1/s]: how often a loop reads.
        loop_hz: Rate of the loop [1/s]: how often it writes; `rate_hz` if None.

    Raises:
        UnknownName, SamiError: The profile names a signal that the adapter has not.
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
        """Begin an episode of the adapter behind, and of the gap."""
        super().reset(seed)
        self.gap.begin(seed)

    def read(self) -> Observation:
        """Return what has arrived of what the adapter behind observed, with its stamp."""
        seen = self.observed()
        for signal in self.observation:
            if numbers_of(seen.values.get(signal.name)).shape != (signal.size,):
                raise AdapterError(
                    f"{type(self.inner).__name__} declares {signal.name!r} with {signal.size} numbers, and read() gave "
                    f"{seen.values.get(signal.name)}. Correct the adapter."
                )
        names = [signal.name for signal in self.observation]
        flat = np.concatenate([seen.values[name] for name in names])
        time = seen.time if seen.times is None else np.array([seen.time, *map(seen.measured, names)])
        values, stamp = self.gap.observe(flat, time)
        parts = dict(zip(names, np.split(values.copy(), self._ends), strict=True))
        lates = {name: float(periods) for name, periods in self.gap.late.items()}
        late = lates[names[0]] if len(set(lates.values())) == 1 else lates  # one, if all arrive together
        times = None
        if isinstance(stamp, np.ndarray):
            times = dict(zip(names, stamp[1:].tolist(), strict=True))
            stamp = float(stamp[0])
        return Observation(parts, stamp, times, late, seen.note)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send an action (A,) on its way, and say what was sent."""
        if not self.gap.on_actions:
            return self.sent(action)
        # What is not a number would stay in the actuator for ever.
        command = require_action(action, self.action)
        if not self.gap.in_episode:
            raise AdapterError("the episode has not begun; an action cannot be executed. Call reset() first.")
        sent = np.clip(command, self._low, self._high)
        behind = self.sent(self.gap.actuate(sent))
        return Executed(sent, behind.done, {**behind.info, "actuated": behind.action.tolist()})
