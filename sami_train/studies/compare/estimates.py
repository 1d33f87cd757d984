"""Estimates with intervals over seeds, by arch and scipy.

Scores are success by seed and task, or returns by seed and episode. There are two intervals, because they make
different assumptions:

* The *stratified bootstrap* of Agarwal et al. 2021 (Deep reinforcement learning at the edge of the statistical
  precipice) resamples seeds within each task. It works for any statistic, but assumes that the tasks of a run are
  independent. They are not if one policy solves them all, and with few seeds the interval is too narrow. In
  simulations with 3 seeds and 8 tasks it covered the mean in 0.88 of cases if tasks shared no effect of the seed, and
  in 0.54 if the shared effect was as large as the effect by task.
* *Student's t* over the seeds' means covered the mean in 0.95 of both cases. Prefer it with few seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
REPLICATES = 2000
"""Number of resamples of a bootstrap."""


class Interval(NamedTuple):
    """An estimate and its 95 % interval; the bounds are None without an interval, as with a single seed."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both bounds, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class Aggregate(NamedTuple):
    """Statistics of one group's scores on one set of tasks."""

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
    """Two-sided p; None with fewer than two common seeds, or if all differences are equal."""


def aggregate(scores: np.ndarray, bounds: tuple[float, float] | None = None) -> Aggregate:
    """Return mean and interquartile mean of scores, with their intervals.

    Args:
        scores: (seeds, tasks) success, or (seeds, episodes) returns; the same tasks and starts for every seed.
        bounds: smallest and largest possible mean, which clip Student's interval; None if unbounded.
    """
    means = scores.mean(axis=1)
    mean, middle = float(scores.mean()), iqm(scores)
    if len(scores) == 1:
        return Aggregate(Interval(mean), None, Interval(mean), Interval(middle))

    def mean_and_iqm(*by_task: np.ndarray) -> np.ndarray:
        replicates = np.stack(by_task, axis=1)
        return np.array([replicates.mean(), iqm(replicates)])

    low, high = _stratified(mean_and_iqm, *scores.T)
    t = _student(means)
    if bounds is not None and t.low is not None and t.high is not None:
        # Student's t is unbounded, but a success rate is between 0 and 1.
        t = Interval(mean, max(t.low, bounds[0]), min(t.high, bounds[1]))
    return Aggregate(
        Interval(mean, t.low, t.high),
        float(means.std(ddof=1)),
        Interval(mean, low[0], high[0]),
        Interval(middle, low[1], high[1]),
    )


def iqm(scores: np.ndarray) -> float:
    """Return the interquartile mean over all scores: the mean without the lowest and the highest quarter."""
    return float(stats.trimboth(scores, 0.25, axis=None).mean())


def probability_of_improvement(x: np.ndarray, y: np.ndarray) -> Interval:
    """Return P(X > Y): how often a run of X beats a run of Y in a task, ties counted half, mean over tasks.

    This is Mann and Whitney's U by task, over the number of pairs. The interval is a stratified bootstrap.

    Args:
        x: scores of X, (seeds of X, tasks).
        y: scores of Y, (seeds of Y, the same tasks).
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
    """Return Student's t-test of x - y, paired by seed (paper, appendix "Statistical hypothesis tests").

    Args:
        x: mean score on a task set, by seed.
        y: the same for the other method; only seeds in both count, and without any the difference is NaN.
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
    """Return the two-sided p of Welch's unpaired t-test of x - y; None with fewer than two on a side, or no variance.

    Runs of the same seed share only their initial weights and the order of tasks. In practice their results hardly
    correlate, so that a paired test loses half of its degrees of freedom without a benefit.
    """
    if min(len(x), len(y)) < 2:
        return None
    first, second = ((float(np.mean(side)), float(np.std(side, ddof=1)), len(side)) for side in (x, y))
    if max(first[1], second[1]) < 1e-12:
        return None
    return float(stats.ttest_ind_from_stats(*first, *second, equal_var=False).pvalue)


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Return Holm's (1979) corrected p values: the chance of any false positive among all p < 0.05 is at most 5 %."""
    tested = np.array([value for value in p if value is not None])
    rank = tested.argsort().argsort()
    scaled = np.maximum.accumulate(np.sort(tested) * np.arange(len(tested), 0, -1))
    corrected = iter(np.minimum(scaled, 1.0)[rank].tolist())
    return [None if value is None else next(corrected) for value in p]


def welch(x: np.ndarray, y: np.ndarray) -> Interval:
    """Return mean(x) - mean(y), each (seeds,) and not paired, with Welch's t interval (Welch 1947)."""
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
    """Return (scores - low) / (high - low), of means over seeds; the bootstrap resamples each group's seeds.

    Args:
        scores: mean score of the group on a task set, by seed, (seeds,).
        low: the same for the lower baseline; each group has seeds of its own.
        high: the same for the upper baseline; if its mean equals that of `low`, the fraction is NaN.
    """

    def share(*replicates: np.ndarray) -> np.ndarray:
        scores, low, high = (part.mean() for part in replicates)
        gap = high - low
        return np.array([(scores - low) / gap if gap else math.nan])

    value = float(share(scores, low, high)[0])
    if min(len(scores), len(low), len(high)) == 1:
        return Interval(value)
    (lower,), (upper,) = _stratified(share, scores, low, high)
    # The fraction is undefined in a resample without a gap: then there is no interval.
    return Interval(value, lower, upper) if math.isfinite(lower) and math.isfinite(upper) else Interval(value)


def least_difference(seeds: int) -> float:
    """Return the mean difference at which a paired t-test has p = 0.05, in its standard deviations over seeds."""
    return float(stats.t.ppf(0.975, seeds - 1) / math.sqrt(seeds))


def least_sign_flip_p(seeds: int) -> float:
    """Return the smallest two-sided p of a sign-flip test over this many pairs: all differences have the same sign."""
    return 2.0 ** (1 - seeds)


def _student(values: np.ndarray) -> Interval:
    """Return the mean of values, (seeds,), with Student's t interval."""
    mean, error = float(values.mean()), float(stats.sem(values))
    if error < 1e-12:
        return Interval(mean, mean, mean)
    low, high = stats.t.interval(CONFIDENCE, len(values) - 1, loc=mean, scale=error)
    return Interval(mean, float(low), float(high))


def _stratified(statistic: Callable[..., np.ndarray], *by_task: np.ndarray) -> tuple[list[float], list[float]]:
    """Return lower and upper bounds of a statistic; seeds are resampled in each task, independently of other tasks."""
    from arch.bootstrap import IndependentSamplesBootstrap

    bootstrap = IndependentSamplesBootstrap(*by_task, seed=0)  # the same resamples in every comparison
    low, high = bootstrap.conf_int(statistic, reps=REPLICATES, method="percentile", size=CONFIDENCE)
    return low.tolist(), high.tolist()
