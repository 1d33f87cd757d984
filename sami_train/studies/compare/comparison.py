"""The comparison: scores of each group of runs on each task set, tests between groups, and the gain from a context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement, product
from typing import Any

from sami_runtime.errors import UnknownName
from sami_train.config.methods import METHODS
from sami_train.config.schema import keys, present_key
from sami_train.envs.measure import RETURN, Measure
from sami_train.studies.compare import estimates
from sami_train.studies.compare.groups import (
    ComparisonError,
    EvaluatedRun,
    Group,
    comparable,
    differences_between,
    group_runs,
    shown_value,
)
from sami_train.studies.sweep.sweep import unfinished_cells

PAIRS = (("satesac", "tesac"), ("saccm", "ccm"))
"""The paper's claim: each method with SaNCE beats the same method without SaNCE."""
RANKING = "contrast.ranking"
ABLATIONS = ("shuffled", "recency")
"""Rankings of the shuffled-label ablation: `shuffled` ranks by chance, `recency` by the policy's age. A useful ranking
beats both."""
UNEQUAL = 0.02
"""Largest relative difference between equal budgets of steps (a run stops at the end of an episode)."""


@dataclass(frozen=True)
class Standing:
    """The scores of a group on one set of tasks."""

    group: Group
    task_set: str
    score: estimates.Aggregate
    """Of the environment's measure: success or return."""
    nontrivial_success: float | None
    """Mean success excluding trivial starts, mean over seeds; NaN if every start is trivial, None if the measure is
    the return."""


@dataclass(frozen=True)
class Contest:
    """The tests of group x against group y on one set of tasks."""

    x: Group
    y: Group
    task_set: str
    improvement: estimates.Interval
    """P(X > Y)."""
    test: estimates.PairedTest
    welch_p: float | None
    """p of Welch's unpaired test; None if a group has fewer than two seeds, or neither group varies over seeds."""
    equal_budget: bool


class MethodComparison:
    """A comparison of runs of one environment, as `read_runs` returns them, in any order.

    `by` is the configuration key on the x axis of the plot by key; None omits that plot.

    Raises:
        UnknownName: `by` is not a configuration key.
        ComparisonError: `by` is seed or method, no method's runs differ in `by`, or a group has a seed twice.
    """

    def __init__(self, runs: Sequence[EvaluatedRun], by: str | None = None) -> None:
        self.runs, self.by, self.groups = runs, by and present_key(by), group_runs(runs)
        if self.by is not None:
            self._check_by(self.by)
            self.groups = sorted(self.groups, key=self._position)

    def _check_by(self, key: str) -> None:
        if key not in keys():
            raise UnknownName("config key", key, keys())
        if key in ("seed", "method"):
            raise ComparisonError(f"--by {key}: seeds are averaged over and methods are the lines; name another key.")
        if not any(key in group.settings for group in self.groups):
            values = sorted({shown_value(run.config[key]) for run in self.runs})
            raise ComparisonError(
                f"--by {key}: no method's runs differ in it (found {', '.join(values)}); give runs that do."
            )

    def _position(self, group: Group) -> tuple[bool, float, str]:
        value = self.value_of(group)
        number = isinstance(value, (int, float))
        return (not number, float(value) if number else 0.0, "" if number else shown_value(value))

    def value_of(self, group: Group) -> Any:
        """Return a group's value of the configuration key `by`, which must not be None."""
        assert self.by is not None
        return group.runs[0].config[self.by]

    @property
    def env(self) -> str:
        """Name of the environment."""
        return str(self.runs[0].config["env"])

    @property
    def task_sets(self) -> list[str]:
        """Names of the evaluated task sets, in order."""
        return self.runs[0].evaluation.sets

    @property
    def measure(self) -> Measure:
        """The environment's measure: success or return."""
        return self.runs[0].evaluation.measure

    @property
    def episodes(self) -> list[int]:
        """Evaluation episodes per task, or per set, see `Measure.per`: one number, unless they differ between tasks."""
        evaluation = self.runs[0].evaluation
        if self.measure.per == "set":
            return sorted({len(evaluation.returns(name)) for name in evaluation.sets})
        return sorted({result.episodes for result in evaluation.results})

    @cached_property
    def standings(self) -> list[Standing]:
        """The scores of every group on every set."""
        standings = []
        for task_set in self.task_sets:
            for group in self.groups:
                score, above = estimates.aggregate(group.scores(task_set), self.measure.bounds), None
                if self.measure is not RETURN:
                    above = sum(run.evaluation.nontrivial_success(task_set) for run in group.runs) / len(group.runs)
                standings.append(Standing(group, task_set, score, above))
        return standings

    @cached_property
    def contests(self) -> list[Contest]:
        """The pairs of methods in `PAIRS`, for groups that agree in every key that varies within both methods."""
        pairs = []
        for claim in PAIRS:
            for x, y in product(self.groups, repeat=2):
                if [x.method, y.method] == [METHODS[name] for name in claim] and comparable(x, y):
                    pairs.append((x, y))
        return self._contests(pairs)

    @cached_property
    def controls(self) -> list[Contest]:
        """Each group against the groups of its method that differ only in ranking by one of `ABLATIONS`."""
        pairs = []
        for x, y in product(self.groups, repeat=2):
            ablated = y.settings.get(RANKING) in ABLATIONS and x.settings.get(RANKING) not in ABLATIONS
            if ablated and x.method == y.method and {**x.settings, RANKING: None} == {**y.settings, RANKING: None}:
                pairs.append((x, y))
        return self._contests(pairs)

    @cached_property
    def other_contests(self) -> list[Contest]:
        """Every other pair of groups, the later against the earlier."""
        claimed = {(contest.x.label, contest.y.label) for contest in (*self.contests, *self.controls)}
        pairs = [(x, y) for y, x in combinations(self.groups, 2)]
        return self._contests([(x, y) for x, y in pairs if not {(x.label, y.label), (y.label, x.label)} & claimed])

    def _contests(self, pairs: Sequence[tuple[Group, Group]]) -> list[Contest]:
        contests = []
        for x, y in pairs:
            equal_budget = _nearly_equal([run.steps for run in (*x.runs, *y.runs)])
            for task_set in self.task_sets:
                first, second = _by_seed(x, task_set), _by_seed(y, task_set)
                improvement = estimates.probability_of_improvement(x.scores(task_set), y.scores(task_set))
                paired = estimates.paired_t_test(first, second)
                welch_p = estimates.welch_t_test([*first.values()], [*second.values()])
                contests.append(Contest(x, y, task_set, improvement, paired, welch_p, equal_budget))
        return contests

    @property
    def equal_budget(self) -> bool:
        """Whether all runs of a group, and of every two comparable groups, took about the same environment steps."""
        return self._even(lambda run: run.steps)

    def _even(self, count: Callable[[EvaluatedRun], int | None]) -> bool:
        return all(
            _nearly_equal([number for run in (*x.runs, *y.runs) if (number := count(run)) is not None])
            for x, y in combinations_with_replacement(self.groups, 2)
            if comparable(x, y)
        )

    def cautions(self) -> list[str]:
        """Return warnings about the validity of the comparison, the most serious first."""
        notes = []
        if not self.equal_budget:
            listed = ", ".join(f"{group.label} {span([run.steps for run in group.runs])}" for group in self.groups)
            notes.append(f"UNEQUAL BUDGETS, so this is no comparison of methods. Environment steps: {listed}.")
        elif not self._even(lambda run: run.updates):
            updates = {group.label: [run.updates for run in group.runs if run.updates] for group in self.groups}
            listed = ", ".join(f"{label} {span(numbers)}" for label, numbers in updates.items() if numbers)
            notes.append(f"Unequal updates for equal environment steps: {listed}.")
        sweeps = dict.fromkeys(run.record.folder.parent for run in self.runs if run.record.study is None)
        notes += filter(None, map(unfinished_cells, sweeps))
        unfinished = [run.address for run in self.runs if run.facts.get("state") != "finished"]
        if unfinished:
            notes.append(f"Not trained to the end: {', '.join(unfinished)}.")
        for key, values in differences_between(self.groups).items():
            listed = ", ".join(f"{title} {' and '.join(map(shown_value, pair))}" for title, pair in values.items())
            notes.append(f"Methods also differ in {key}: {listed}.")
        single = [group.label for group in self.groups if len(group.runs) == 1]
        if single:
            notes.append(f"One seed only, so neither deviation nor interval: {', '.join(single)}.")
        if len({tuple(group.seeds) for group in self.groups}) > 1:
            listed = ", ".join(f"{group.label} {'+'.join(map(str, group.seeds))}" for group in self.groups)
            notes.append(f"Groups have different seeds: {listed}.")
        starts = {tuple(result.solved_at_start for result in run.evaluation.results) for run in self.runs}
        if len(starts) > 1:
            notes.append("Evaluation episodes did not start alike in all runs: different versions or settings.")
        commits = sorted({run.commit for run in self.runs})
        if len(commits) > 1:
            notes.append(f"Runs were trained by {len(commits)} states of the code: {', '.join(commits)}.")
        return notes


def _by_seed(group: Group, task_set: str) -> Mapping[int, float]:
    return dict(zip(group.seeds, group.scores(task_set).mean(axis=1).tolist(), strict=True))


def _nearly_equal(numbers: Sequence[int]) -> bool:
    return not numbers or max(numbers) <= min(numbers) * (1 + UNEQUAL)


def span(numbers: Sequence[int]) -> str:
    """Return the smallest and the largest of the numbers as text; a single number if they are equal."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


@dataclass(frozen=True)
class Worth:
    """The score of a group on one set of tasks, relative to two baselines: a memoryless method and the oracle."""

    group: Group
    """Any group but a memoryless one; may be the oracle itself."""
    memoryless: Group
    oracle: Group
    task_set: str
    above: estimates.Interval
    """Mean of the group minus mean of the memoryless group."""
    gap: estimates.Interval
    """The headroom: mean of the oracle minus mean of the memoryless group."""
    share: estimates.Interval | None
    """above / gap; None for the oracle itself, and if `gap_counts` is False."""

    @property
    def gap_counts(self) -> bool:
        """Whether the gap's lower bound is above 0, without bounds its mean; else a fraction of it means nothing."""
        return (self.gap.value if self.gap.low is None else self.gap.low) > 0

    @property
    def equal_budget(self) -> bool:
        """Whether the runs of all three groups took about the same environment steps."""
        return _nearly_equal([run.steps for group in (self.group, self.memoryless, self.oracle) for run in group.runs])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
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
    """Return a `Worth` for every group with a memory on every set; empty if memoryless or oracle runs are missing."""
    of_groups = []
    for low, high in product(comparison.groups, repeat=2):
        if not (low.method.memoryless and high.method.reads_task and comparable(low, high)):
            continue
        groups = [g for g in comparison.groups if g is high or not (g.method.memoryless or g.method.reads_task)]
        groups = [group for group in groups if comparable(group, low) and comparable(group, high)]
        of_groups += [_worth(group, low, high, name) for name in comparison.task_sets for group in groups]
    return of_groups


def _worth(group: Group, memoryless: Group, oracle: Group, task_set: str) -> Worth:
    scores, low, high = (part.scores(task_set).mean(axis=1) for part in (group, memoryless, oracle))
    worth = Worth(group, memoryless, oracle, task_set, estimates.welch(scores, low), estimates.welch(high, low), None)
    if group is oracle or not worth.gap_counts:
        return worth
    return replace(worth, share=estimates.share_of_gap(scores, low, high))
