"""What policies are judged by: success where an environment has goals, the return elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sami_runtime.errors import UnknownName


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

    def __reduce__(self) -> Any:
        """Stay the one that there is of each name, also in a copy: it is known by that."""
        return measure, (self.name,)

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


def measure(name: str) -> Measure:
    """Look a measure up by its name, `"success"` or `"return"`.

    Raises:
        UnknownName: there is none.
    """
    known = {kind.name: kind for kind in (SUCCESS, RETURN)}
    if name not in known:
        raise UnknownName("measure", name, known)
    return known[name]
