"""An adapter seen through the gap between simulation and reality."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.around import Around
from sami_runtime.adapters.base import Adapter, Executed, Observation
from sami_runtime.errors import AdapterError
from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile


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
        periods, action = (1.0 / rate_hz, 1.0 / (loop_hz or rate_hz)), self.action
        self.gap = Gap(profile, self.observation, action.size, *periods, elements=action.elements)
        self._ends = np.cumsum([signal.size for signal in self.observation])[:-1]
        bounds = (self.action.low, -np.inf), (self.action.high, np.inf)
        self._low, self._high = (
            np.array([free if value is None else value for value in side], np.float32) for side, free in bounds
        )

    def reset(self, seed: int | None = None) -> None:
        """Begins an episode of the adapter behind, and of the gap."""
        super().reset(seed)
        self.gap.begin(seed)

    def read(self) -> Observation:
        """Return what has arrived of what the adapter behind observed, with its stamp."""
        seen = self.observed()
        for signal in self.observation:
            if signal.name not in seen.values or np.shape(seen.values[signal.name]) != (signal.size,):
                raise AdapterError(
                    f"{type(self.inner).__name__} declares {signal.name!r} with {signal.size} numbers, and read() gave "
                    f"{seen.values.get(signal.name)}. Correct the adapter."
                )
        flat = np.concatenate([seen.values[signal.name] for signal in self.observation])
        names = [signal.name for signal in self.observation]
        stamps = None if seen.times is None else np.array([seen.time, *map(seen.measured, names)])
        values, stamp = self.gap.observe(flat, seen.time if stamps is None else stamps)
        parts = dict(zip(names, np.split(values.copy(), self._ends), strict=True))
        lates = {name: float(periods) for name, periods in self.gap.late.items()}
        late = lates[names[0]] if len(set(lates.values())) == 1 else lates  # one, if all arrive together
        if isinstance(stamp, np.ndarray):
            return Observation(
                parts, float(stamp[0]), dict(zip(names, stamp[1:].tolist(), strict=True)), late, seen.note
            )
        return Observation(parts, stamp, late=late, note=seen.note)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send an action (A,) on its way, and says what was sent."""
        if not self.gap.on_actions:
            return self.sent(action)
        wanted = np.asarray(action, np.float32)
        # What is not a number would stay in the actuator for ever.
        if wanted.shape != self._low.shape or not np.isfinite(wanted).all():
            raise AdapterError(
                f"action {wanted.tolist()} is not {self.action.size} finite numbers [{self.action.unit}] "
                f"({', '.join(self.action.elements)}). Check the policy that produced it."
            )
        if not self.gap.begun:
            raise AdapterError("the episode has not begun; an action cannot be executed. Call reset() first.")
        sent = np.clip(wanted, self._low, self._high)
        behind = self.sent(self.gap.actuate(sent))
        return Executed(sent, behind.done, {**behind.info, "actuated": behind.action.tolist()})
