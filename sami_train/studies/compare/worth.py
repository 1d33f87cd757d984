"""What a context can be worth: how far methods get from a policy without memory to one that is told the task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sami_train.studies.compare.comparison import MethodComparison, _alike
from sami_train.studies.compare.estimates import Interval, share_of_gap, welch
from sami_train.studies.compare.groups import Group, comparable


@dataclass(frozen=True)
class Worth:
    """How far a group gets on one set of tasks, between two baselines."""

    group: Group
    """Never the one without memory; perhaps the one that is told the task."""
    memoryless: Group
    oracle: Group
    task_set: str
    above: Interval
    """Mean of the group less that of those without memory."""
    gap: Interval
    """The same of those who are told the task."""
    share: Interval | None
    """above / gap; None where the gap does not count, and of those who are told the task."""

    @property
    def gap_counts(self) -> bool:
        """Whether the gap is above 0 by its interval; else a share of it means nothing. One seed gives no interval."""
        return _counts(self.gap)

    @property
    def equal_budget(self) -> bool:
        """Whether all three took about equally many environment steps."""
        return _alike([run.steps for group in (self.group, self.memoryless, self.oracle) for run in group.runs])

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "group": self.group.label,
            "memoryless": self.memoryless.label,
            "told": self.oracle.label,
            "task_set": self.task_set,
            "above_memoryless": self.above._asdict(),
            "gap": self.gap._asdict(),
            "gap_counts": self.gap_counts,
            "share": self.share and self.share._asdict(),
            "equal_budget": self.equal_budget,
        }


def worths(comparison: MethodComparison) -> list[Worth]:
    """Return how far every group gets between the baselines, set by set; nothing where runs of either are missing."""
    return [
        _worth(group, memoryless, oracle, task_set)
        for memoryless, oracle in _baselines(comparison)
        for task_set in comparison.task_sets
        for group in comparison.groups
        if group is oracle or not (group.method.memoryless or group.method.is_told)
        if comparable(group, memoryless) and comparable(group, oracle)
    ]


def _baselines(comparison: MethodComparison) -> Iterator[tuple[Group, Group]]:
    for memoryless in comparison.groups:
        for oracle in comparison.groups:
            if memoryless.method.memoryless and oracle.method.is_told and comparable(memoryless, oracle):
                yield memoryless, oracle


def _worth(group: Group, memoryless: Group, oracle: Group, task_set: str) -> Worth:
    scores, low, high = (part.scores(task_set).mean(axis=1) for part in (group, memoryless, oracle))
    gap = welch(high, low)
    share = share_of_gap(scores, low, high) if group is not oracle and _counts(gap) else None
    return Worth(group, memoryless, oracle, task_set, welch(scores, low), gap, share)


def _counts(gap: Interval) -> bool:
    return (gap.value if gap.low is None else gap.low) > 0
