"""How late an observation is when the policy is asked, with what its answer will take to have effect; in periods."""

from __future__ import annotations

from collections.abc import Mapping

from sami_runtime.adapters.base import Adapter, Observation, command_delay_of, waits
from sami_runtime.errors import SamiError
from sami_runtime.model.contract import Contract

Age = float | Mapping[str, float]
"""One for all signals, or by signal [periods]."""
DIGITS = 6
"""Of a period; what is less is rounding."""


class Lateness:
    """Tells the age of observations: by their stamps and the command's own delay, which stands in no stamp.

    The world of a simulator waits while nothing is written: there an observation is as old as a gap made it, whatever
    its stamp says, which a simulator's adapter gives it when it steps, a period before it is read.

    Args:
        adapter: What observes.
        rate_hz: Of the policy [1/s].
        stamped: Whether stamps are of the loop's clock; if not, all counts as measured now.
        command_delay_s: How long an action takes from its write to its effect [s]; as the adapter says if None.

    Raises:
        SamiError: That is no time.
    """

    def __init__(self, adapter: Adapter, rate_hz: float, stamped: bool, command_delay_s: float | None = None) -> None:
        self.command_delay_s = command_delay_of(adapter) if command_delay_s is None else command_delay_s
        if not 0.0 <= self.command_delay_s < float("inf"):
            raise SamiError(f"command_delay_s is {self.command_delay_s}; it is a time of at least 0 s.")
        self.waits = waits(adapter)
        self._rate_hz, self._stamped = rate_hz, stamped

    def age(self, observation: Observation, now: float) -> Age:
        """Return how old an observation is at a time [s] of the loop's clock."""
        if self.waits:
            late = observation.late
            if isinstance(late, Mapping):
                return {name: self._in_periods(0.0, periods) for name, periods in late.items()}
            return self._in_periods(0.0, late)
        if not self._stamped:
            return self._in_periods(0.0)
        if observation.times is None:
            return self._in_periods(now - observation.time)
        return {name: self._in_periods(now - observation.measured(name)) for name in observation.values}

    def _in_periods(self, seconds: float, periods: float = 0.0) -> float:
        late = max(0.0, seconds) * self._rate_hz + periods
        return round(late + self.command_delay_s * self._rate_hz, DIGITS)


def too_old(age: Age, contract: Contract) -> str:
    """Return why a policy that looks ahead cannot act on what is so old; empty where it can."""
    if contract.lookahead is None:
        return ""
    most, changing = contract.lookahead.steps, contract.lookahead.changing
    by_name = age if isinstance(age, Mapping) else {"the observation": age}
    for name, periods in by_name.items():
        if isinstance(age, Mapping) and name not in changing:
            continue
        if periods > most:
            return f"age: {name} is {periods:.3g} periods old, and the policy looks {most} ahead"
    return ""
