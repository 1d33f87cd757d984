"""Estimates with intervals over seeds, by arch and scipy.

Scores are success by seed and task, or returns by seed and episode. Two intervals stand side by side, since they
answer different doubts:

* The *stratified bootstrap* of Agarwal et al. 2021 (Deep reinforcement learning at the edge of the statistical
  precipice) draws seeds anew within each task. It serves any statistic, but takes the tasks of a run as independent,
  which they are not where one policy solves them all, and few seeds make it too narrow. In simulations with 3 seeds
  and 8 tasks it covered the mean in 0.88 of cases without an effect of the seed that all tasks share, in 0.54 where
  that effect was as large as the tasks' own.
* *Student's t* over the seeds' means covered it in 0.95 of both. It is the one to believe with few seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
REPLICATES = 2000
"""Draws of a bootstrap."""


class Interval(NamedTuple):
    """An estimate and its 95 % interval; the bounds are None where one seed allows no interval."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both bounds, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class Aggregate(NamedTuple):
    """One group over one set of tasks."""

    mean: Interval
    """Mean, with Student's t over the seeds' means."""
    std: float | None
    """Standard deviation of the seeds' means; None for one seed."""
    mean_stratified: Interval
    """Mean, with the stratified bootstrap."""
    iqm: Interval
    """Interquartile mean over (seed, task), or (seed, episode), with the stratified bootstrap."""


class PairedTest(NamedTuple):
    """A paired t-test of x - y over common seeds."""

    seeds: list[int]
    difference: Interval
    """Mean difference, with Student's t."""
    p: float | None
    """Two-sided; None with fewer than two common seeds, or where all differences are equal."""


def aggregate(scores: np.ndarray, bounds: tuple[float, float] | None = None) -> Aggregate:
    """Mean and interquartile mean of scores, (seeds, tasks).

    Args:
        scores: success by task, or returns by episode; the same tasks and starts for every seed.
        bounds: smallest and largest value that a mean can take, where there are such.
    """
    means = scores.mean(axis=1)
    mean, middle = float(scores.mean()), iqm(scores)
    if len(scores) == 1:
        return Aggregate(Interval(mean), None, Interval(mean), Interval(middle))

    def both(*by_task: np.ndarray) -> np.ndarray:
        drawn = np.stack(by_task, axis=1)
        return np.array([drawn.mean(), iqm(drawn)])

    low, high = _stratified(both, *scores.T)
    t = _student(means)
    if bounds is not None and t.low is not None and t.high is not None:
        # A success rate lies between 0 and 1, whatever Student's t thinks.
        t = Interval(mean, max(t.low, bounds[0]), min(t.high, bounds[1]))
    return Aggregate(
        Interval(mean, t.low, t.high),
        float(means.std(ddof=1)),
        Interval(mean, low[0], high[0]),
        Interval(middle, low[1], high[1]),
    )


def iqm(scores: np.ndarray) -> float:
    """Interquartile mean over all scores: the mean without the lowest and the highest quarter."""
    return float(stats.trimboth(scores, 0.25, axis=None).mean())


def probability_of_improvement(x: np.ndarray, y: np.ndarray) -> Interval:
    """P(X > Y): how often a run of X beats one of Y in a task, ties counted half, mean over tasks.

    Mann and Whitney's U by task, over the number of pairs; interval by the stratified bootstrap.

    Args:
        x: scores of X, (seeds, tasks).
        y: scores of Y, (seeds of its own, the same tasks).
    """
    tasks = x.shape[1]

    def probability(*by_task: np.ndarray) -> np.ndarray:
        scores = np.stack(by_task[:tasks])[:, :, None]
        other = np.stack(by_task[tasks:])[:, None, :]
        return np.array([((scores > other) + 0.5 * (scores == other)).mean()])

    value = float(probability(*x.T, *y.T)[0])
    if min(len(x), len(y)) == 1:
        return Interval(value)
    low, high = _stratified(probability, *x.T, *y.T)
    return Interval(value, low[0], high[0])


def paired_t_test(x: Mapping[int, float], y: Mapping[int, float]) -> PairedTest:
    """Student's paired t-test of x - y, paired by seed (paper, appendix "Statistical hypothesis tests").

    Args:
        x: mean of a set by seed.
        y: the same of the other method.
    """
    seeds = sorted(x.keys() & y.keys())
    first, second = np.array([x[s] for s in seeds]), np.array([y[s] for s in seeds])
    if not seeds:
        return PairedTest([], Interval(math.nan), None)
    if len(seeds) == 1:
        return PairedTest(seeds, Interval(float(first[0] - second[0])), None)
    difference = _student(first - second)
    if difference.low == difference.high:
        return PairedTest(seeds, difference, None)
    return PairedTest(seeds, difference, float(stats.ttest_rel(first, second).pvalue))


def welch_t_test(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the two-sided p of Welch's t-test of x - y, which pairs no seeds; None with fewer than two on a side.

    Runs of one seed share their first weights and the tasks' order, and no more: in practice their results hardly
    correlate, and a paired test then spends half of its degrees of freedom on nothing.
    """
    if min(len(x), len(y)) < 2:
        return None
    first, second = ((float(np.mean(side)), float(np.std(side, ddof=1)), len(side)) for side in (x, y))
    if max(first[1], second[1]) < 1e-12:
        return None
    return float(stats.ttest_ind_from_stats(*first, *second, equal_var=False).pvalue)


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Return p corrected for their number (Holm 1979): below 0.05, no false finding among all with probability 0.95."""
    tested = np.array([value for value in p if value is not None])
    rank = tested.argsort().argsort()
    scaled = np.maximum.accumulate(np.sort(tested) * np.arange(len(tested), 0, -1))
    corrected = iter(np.minimum(scaled, 1.0)[rank].tolist())
    return [None if value is None else next(corrected) for value in p]


def welch(x: np.ndarray, y: np.ndarray) -> Interval:
    """Mean of x less that of y, by seed but not paired, (seeds,) each: with Welch's t interval (Welch 1947)."""
    value = float(x.mean() - y.mean())
    if min(len(x), len(y)) == 1:
        return Interval(value)
    a, b = float(x.var(ddof=1)) / len(x), float(y.var(ddof=1)) / len(y)
    if math.sqrt(a + b) < 1e-12:
        return Interval(value, value, value)
    freedom = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    low, high = stats.t.interval(CONFIDENCE, freedom, loc=value, scale=math.sqrt(a + b))
    return Interval(value, float(low), float(high))


def share_of_gap(scores: np.ndarray, low: np.ndarray, high: np.ndarray) -> Interval:
    """(scores - low) / (high - low), of means over seeds; interval by the bootstrap, the seeds of each drawn anew.

    Args:
        scores: means of a set by seed, (seeds,), of what is judged.
        low: the same of where the gap begins.
        high: of where it ends; its mean differs from that of `low`.
    """

    def share(*drawn: np.ndarray) -> np.ndarray:
        scores, low, high = (part.mean() for part in drawn)
        gap = high - low
        return np.array([(scores - low) / gap if gap else math.nan])

    value = float(share(scores, low, high)[0])
    if min(len(scores), len(low), len(high)) == 1:
        return Interval(value)
    (lower,), (upper,) = _stratified(share, scores, low, high)
    # A draw without any gap has no share: then no interval has an end.
    return Interval(value, lower, upper) if math.isfinite(lower) and math.isfinite(upper) else Interval(value)


def least_difference(seeds: int) -> float:
    """Return the mean difference, in standard deviations over seeds, that a paired t-test calls p < 0.05."""
    return float(stats.t.ppf(0.975, seeds - 1) / math.sqrt(seeds))


def least_sign_flip_p(seeds: int) -> float:
    """Return the smallest two-sided p that so many pairs give without assuming a distribution: all signs alike."""
    return 2.0 ** (1 - seeds)


def _student(values: np.ndarray) -> Interval:
    """Mean with Student's t interval."""
    mean, error = float(values.mean()), float(stats.sem(values))
    if error < 1e-12:
        return Interval(mean, mean, mean)
    low, high = stats.t.interval(CONFIDENCE, len(values) - 1, loc=mean, scale=error)
    return Interval(mean, float(low), float(high))


def _stratified(statistic: Callable[..., np.ndarray], *by_task: np.ndarray) -> tuple[list[float], list[float]]:
    """Lower and upper bounds of a statistic; each task's seeds are drawn anew, apart from other tasks'."""
    from arch.bootstrap import IndependentSamplesBootstrap

    bootstrap = IndependentSamplesBootstrap(*by_task, seed=0)  # the same draws whatever else is compared
    low, high = bootstrap.conf_int(statistic, reps=REPLICATES, method="percentile", size=CONFIDENCE)
    return low.tolist(), high.tolist()
