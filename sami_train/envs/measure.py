"""What policies are judged by: success where an environment has goals, the return elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """How the policies of an environment are judged, and how that is told."""

    name: str
    key: str
    """Its key in evaluations."""
    per: str
    """Where evaluation episodes are counted: so many in each "task", or in each "set", whose tasks come in turn."""
    exploring: str
    """Its column in the metrics of a run, while exploring."""
    digits: int
    """Digits after the point that a mean is shown with."""
    bounds: tuple[float, float] | None = None
    """Smallest and largest value; None where it has no bounds."""

    def show(self, value: float | None, coarse: bool = False, sign: bool = False) -> str:
        """Short text for a value, or a dash for None and NaN.

        Args:
            value: a mean.
            coarse: one digit less, where few episodes stand behind it.
            sign: show the sign of positive values too.
        """
        if value is None or value != value:
            return "-"
        return f"{value:{'+' if sign else ''},.{max(0, self.digits - coarse)}f}"


def known(value: float) -> float | None:
    """Return the value as JSON takes it: None for NaN."""
    return None if value != value else value


SUCCESS = Measure("success", "success", "task", "rollout/success", 3, (0.0, 1.0))
RETURN = Measure("return", "ret", "set", "rollout/ep_rew_mean", 0)
