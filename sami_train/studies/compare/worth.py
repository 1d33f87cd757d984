"""What a context can be worth: how far methods get from a policy without memory to one that is told the task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sami_train.studies.compare.comparison import Comparison, _alike
from sami_train.studies.compare.estimates import Interval, share_of_gap, welch
from sami_train.studies.compare.groups import Group, comparable


@dataclass(frozen=True)
class Worth:
    """How far a group gets on one set of tasks, between two baselines."""

    group: Group
    """Never the one without memory; perhaps the one that is told the task."""
    memoryless: Group
    told: Group
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
        return _alike([run.steps for group in (self.group, self.memoryless, self.told) for run in group.runs])

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "group": self.group.label,
            "memoryless": self.memoryless.label,
            "told": self.told.label,
            "task_set": self.task_set,
            "above_memoryless": self.above._asdict(),
            "gap": self.gap._asdict(),
            "gap_counts": self.gap_counts,
            "share": self.share and self.share._asdict(),
            "equal_budget": self.equal_budget,
        }


def worths(comparison: Comparison) -> list[Worth]:
    """Return how far every group gets between the baselines, set by set; nothing where runs of either are missing."""
    return [
        _worth(group, memoryless, told, task_set)
        for memoryless, told in _baselines(comparison)
        for task_set in comparison.task_sets
        for group in comparison.groups
        if group is told or not (group.method.memoryless or group.method.is_told)
        if comparable(group, memoryless) and comparable(group, told)
    ]


def _baselines(comparison: Comparison) -> Iterator[tuple[Group, Group]]:
    for memoryless in comparison.groups:
        for told in comparison.groups:
            if memoryless.method.memoryless and told.method.is_told and comparable(memoryless, told):
                yield memoryless, told


def _worth(group: Group, memoryless: Group, told: Group, task_set: str) -> Worth:
    own, low, high = (each.scores(task_set).mean(axis=1) for each in (group, memoryless, told))
    gap = welch(high, low)
    share = share_of_gap(own, low, high) if group is not told and _counts(gap) else None
    return Worth(group, memoryless, told, task_set, welch(own, low), gap, share)


def _counts(gap: Interval) -> bool:
    return (gap.value if gap.low is None else gap.low) > 0
