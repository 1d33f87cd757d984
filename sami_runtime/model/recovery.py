"""By when a policy is back after its dynamics changed: a bound, calibrated on changes between training tasks."""

from __future__ import annotations

from pydantic import Field

from sami_runtime.signals import Count, Entry, Text


class Recovery(Entry):
    """A bound on the steps from a detected change until the context settles again, as it stands in a contract.

    A tolerance limit (Wilks 1941): with a confidence of 90 %, a fresh change like those that were measured is over by
    then with a probability of at least `level`, whatever the steps' distribution. Nothing is promised of others.
    """

    steps: int = Field(ge=1)
    """T, in steps of the policy."""
    level: float = Field(gt=0, lt=1)
    """Probability with which a detected change is over by then."""
    changes: Count
    """Measured episodes in which a change was detected; the bound is a quantile of their times."""
    undetected: int = Field(ge=0)
    """Measured episodes in which the context stayed settled through the change."""
    unchanged: Count
    """Measured episodes without a change."""
    false_fallbacks: int = Field(ge=0)
    """Of those without a change, in how many T passed before the context settled."""
    highest_false_rate: float = Field(ge=0, le=1)
    """Upper 95 % limit of their rate (Clopper-Pearson)."""
    measured: Text
    """How: which changes, when, and by which seed."""

    def __str__(self) -> str:
        return (
            f"at most {self.steps} steps from a detected change, with a probability of {self.level:.0%} "
            f"({self.changes} changes detected, {self.undetected} not; {self.false_fallbacks} of {self.unchanged} "
            "episodes without a change take longer)"
        )
