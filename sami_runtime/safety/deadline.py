"""The time that a policy is given to adapt: counted from a detected change until its context settles."""

from __future__ import annotations

from sami_runtime.model.recovery import Recovery
from sami_runtime.safety.limits import Then, TimeToAdapt
from sami_runtime.session.telemetry import Countdown, Reading


class Deadline:
    """A detected change is over in time, or the policy acts no more.

    Args:
        limit: What is allowed.
        recovery: The contract's bound, for a limit that names no steps.
    """

    def __init__(self, limit: TimeToAdapt, recovery: Recovery | None) -> None:
        assert limit.steps is not None or recovery is not None
        self._most = limit.steps or (recovery.steps if recovery else 0)
        self._bound = "time_to_adapt.steps" if limit.steps or not recovery else f"a bound of {recovery.level:.0%}"
        self._then: Then = limit.then
        self._gentle, self._countdown = limit.gentle, Countdown()

    def heed(self, reading: Reading) -> None:
        """Count a step of the policy."""
        self._countdown.heed(reading)

    @property
    def gentle(self) -> float:
        """Share of the rate that is allowed now."""
        return 1.0 if self._countdown.steps is None else self._gentle

    def judge(self) -> tuple[str, Then] | None:
        """Object once the time is over, and why; without another step of the policy, that stays so."""
        steps = self._countdown.steps
        if steps is None or steps <= self._most:
            return None
        reason = (
            f"deadline: the context has not settled for {steps} steps since a change was detected, allowed are "
            f"{self._most} ({self._bound}; time_to_adapt)"
        )
        return reason, self._then
