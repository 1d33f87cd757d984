"""The settings of a loop that do not depend on the policy or the robot, in one object that is passed down unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sami_runtime.clock import Clock
from sami_runtime.errors import SamiError
from sami_runtime.loop.pilot import Pilot
from sami_runtime.loop.stopping import LoopWatchdog


@dataclass(frozen=True)
class LoopSettings:
    """How a loop runs. `Run` and `run_episode` take each of these fields as a keyword argument.

    Raises:
        SamiError: `enforce_timing` is True without a clock, or `slower` is less than 1.
    """

    clock: Clock | None = None
    """Keeps the rate. If None, the loop runs as fast as the adapter allows, and its time is counted in periods."""
    loop_hz: float | None = None
    """Rate of the loop [1/s], a multiple of the policy's rate; None means the policy's rate. The policy makes steps at
    its own rate only; at the ticks in between, its last action stays in force."""
    slower: int = 1
    """Time scaling: how many periods each step of the policy takes, for a robot that is this many times slower than the
    one in training. An action stays in force for the whole step; speeds must be observed at the policy's own pace,
    which `Run` ensures by `Slowed`. The gate still judges an observation, and counts missing actions, in every period,
    so that limits hold in real seconds. A policy that could not act tries again in the next period."""
    prewarm_s: float = 0.0
    """How long [s] before the policy is due it makes a step on copies, so that the caches are warm; 0 never. 0.0007 is
    enough for `models/`, best with a clock that stays awake from then on. It is skipped at a tick for which it is too
    late."""
    enforce_timing: bool | None = None
    """Whether the gate's limits on the age of observations and on the time of inference apply. This needs the clock
    that stamps the observations; set False for an adapter with another clock. None: True if there is a clock."""
    command_delay_s: float | None = None
    """Delay [s] from the write of an action to its effect, for a policy with lookahead; None: the adapter's own
    value."""
    watchdog: LoopWatchdog | None = None
    """Stops the robot if this process cannot, from the adapter's reset to its stop. The caller starts and closes it.
    Once it fired, the gate is latched."""
    pilot: Pilot | None = None
    """Input of a person. Commands apply at the policy's ticks; a pause or an end applies at every tick."""
    sequence: Any = None
    """Returns a context manager around the policy's ticks, which resets the adapter; see `robots.handover`."""

    def __post_init__(self) -> None:
        if self.enforce_timing and self.clock is None:
            raise SamiError(
                "enforce_timing is True, but clock is None, so ages cannot be measured. Pass the clock that stamps the "
                "adapter's observations, or leave enforce_timing out."
            )
        if self.slower < 1:
            raise SamiError(f"slower is {self.slower}; it must be at least 1 period of the policy for each step.")

    @property
    def enforced(self) -> bool:
        """Whether limits on the age of observations and on the time of inference apply."""
        return self.clock is not None if self.enforce_timing is None else self.enforce_timing

    def substeps(self, rate_hz: float) -> int:
        """Return the number of ticks of the loop for each period of a policy of this rate [1/s].

        Raises:
            SamiError: The loop's rate is no multiple of the policy's.
        """
        ratio = 1.0 if self.loop_hz is None else self.loop_hz / rate_hz
        whole = max(1, round(ratio)) if np.isfinite(ratio) else 1
        if not abs(ratio - whole) <= 1e-6 * whole:
            raise SamiError(
                f"loop_hz is {self.loop_hz}, but this policy was trained at {rate_hz:g} Hz and must act at this rate. "
                f"Set a multiple of it, such as {whole * rate_hz:g}."
            )
        return whole

    def period(self, rate_hz: float) -> float:
        """Return the period of the loop [s] that drives a policy of this rate [1/s].

        Raises:
            SamiError: As `substeps`; or `prewarm_s` is negative or not shorter than the period.
        """
        period = 1.0 / (rate_hz * self.substeps(rate_hz))
        if not 0.0 <= self.prewarm_s < period:
            raise SamiError(
                f"prewarm_s is {self.prewarm_s}; it must be at least 0 and less than the loop's period, {period:g} s."
            )
        return period
