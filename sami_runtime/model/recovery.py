"""A bound on how long a policy needs after its dynamics changed, calibrated on changes between training tasks."""

from __future__ import annotations

from pydantic import Field

from sami_runtime.signals import Count, Entry, Text


class Recovery(Entry):
    """A contract's bound T on the steps from a detected change until the context settles again.

    A tolerance limit (Wilks 1941): with 90 % confidence, a new change like the measured ones is over within T with a
    probability of at least `level`, whatever the distribution of the times. It does not cover other changes.
    """

    steps: int = Field(ge=1)
    """T, in steps of the policy."""
    level: float = Field(gt=0, lt=1)
    """Probability with which a detected change is over within T."""
    changes: Count
    """Measured episodes in which a change was detected; the bound is a quantile of their times."""
    undetected: int = Field(ge=0)
    """Measured episodes in which the context stayed settled through the change."""
    unchanged: Count
    """Measured episodes without a change."""
    false_fallbacks: int = Field(ge=0)
    """Number of episodes without a change in which T passed before the context settled."""
    highest_false_rate: float = Field(ge=0, le=1)
    """Upper 95 % limit of the rate of false fallbacks (Clopper-Pearson)."""
    measured: Text
    """How it was measured: which changes, when, and with which seed."""

    def __str__(self) -> str:
        return (
            f"at most {self.steps} steps from a detected change, with a probability of {self.level:.0%} "
            f"({self.changes} changes detected, {self.undetected} not; {self.false_fallbacks} of {self.unchanged} "
            "episodes without a change take longer)"
        )
