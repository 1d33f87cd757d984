"""How a loop runs, whatever the policy and the robot are: one object, made once and passed down as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sami_runtime.clock import Clock
from sami_runtime.errors import SamiError
from sami_runtime.loop.pilot import Pilot
from sami_runtime.loop.stopping import LoopWatchdog


@dataclass(frozen=True)
class LoopSettings:
    """How a loop runs. `Run` and `run_episode` take each of these by its name.

    Raises:
        SamiError: Timing is enforced without a clock, or a step takes less than a period.
    """

    clock: Clock | None = None
    """Keeps the rate. If None, the loop runs as fast as the adapter allows, and its time is counted in periods."""
    loop_hz: float | None = None
    """Rate of the loop [1/s], a multiple of the policy's, which is taken if None. The policy is asked at its own rate
    only; in between its last action stands."""
    slower: int = 1
    """How many of its periods each of the policy's steps takes, for a robot that is so many times as slow as the one
    that it learned on. Its actions stand for as long; speeds must be observed as at its own pace, which `Run` sees to
    by `Slowed`. The gate still judges an observation in every period, and counts the periods without an action, so that
    limits hold in real seconds; a policy that could not act is asked again in the next period."""
    prewarm_s: float = 0.0
    """How long [s] before the policy is due it makes a step on copies, so that the caches are warm. 0.0007 is enough
    for `models/`, best with a clock that stays awake from then on. A tick whose turn ended too late for that goes
    without. 0 never."""
    enforce_timing: bool | None = None
    """Whether an observation can be too old and an answer too late, as the gate's limits say. It needs the clock that
    stamps the adapter's observations; False is for an adapter with another. None: where a clock is set."""
    command_delay_s: float | None = None
    """How long an action takes from its write to its effect [s], for a policy that looks ahead; as the adapter says if
    None."""
    watchdog: LoopWatchdog | None = None
    """Stops the robot where this process cannot, from the adapter's reset to its stop. It is running already, and is
    the caller's. Once it fired, the gate is latched."""
    pilot: Pilot | None = None
    """A person's way in. Commands count at the policy's ticks; a pause and an end, at every tick."""
    sequence: Callable[[Any, int | None], Any] | None = None
    """Surrounds the policy's ticks: a context that resets the adapter, made of a `RunningEpisode` and the seed; see
    `sami_runtime.robots.handover`."""

    def __post_init__(self) -> None:
        if self.enforce_timing and self.clock is None:
            raise SamiError(
                "enforce_timing is True, and there is no clock to tell ages by. Pass the one that stamps the adapter's "
                "observations, or leave enforce_timing out."
            )
        if self.slower < 1:
            raise SamiError(f"slower is {self.slower}; a step takes at least 1 of the policy's periods.")

    @property
    def enforced(self) -> bool:
        """Whether an observation can be too old, and an answer too late."""
        return self.clock is not None if self.enforce_timing is None else self.enforce_timing

    def substeps(self, rate_hz: float) -> int:
        """Return how many ticks of the loop fall on each of a policy's.

        Raises:
            SamiError: The loop's rate is no multiple of the policy's.
        """
        ratio = 1.0 if self.loop_hz is None else self.loop_hz / rate_hz
        whole = max(1, round(ratio)) if np.isfinite(ratio) else 1
        if not abs(ratio - whole) <= 1e-6 * whole:
            raise SamiError(
                f"loop_hz is {self.loop_hz}, but this policy was trained at {rate_hz:g} Hz and means something else at "
                f"any other rate. Take a multiple of it, such as {whole * rate_hz:g}."
            )
        return whole

    def period(self, rate_hz: float) -> float:
        """Return the period of the loop [s] that drives a policy of this rate [1/s].

        Raises:
            SamiError: As `substeps`; or the policy would be warmed up for longer than that.
        """
        period = 1.0 / (rate_hz * self.substeps(rate_hz))
        if not 0.0 <= self.prewarm_s < period:
            raise SamiError(
                f"prewarm_s is {self.prewarm_s}; it must be at least 0 and less than the loop's period, {period:g} s."
            )
        return period
