"""95 % intervals of an evaluation's scores over its starts; scores of other training seeds differ by more."""

from __future__ import annotations

import numpy as np

from sami_train.envs.measure import RETURN
from sami_train.evaluation.results import Evaluation

CONFIDENCE = 0.95
REPLICATES = 2000
"""Draws of the bootstrap."""


def scores_of_starts(evaluation: Evaluation, task_set: str) -> np.ndarray:
    """Return the score of each start, mean over a set's tasks, (starts,); empty in older files, which lack it.

    If policies are judged by return, each episode has its own start.
    """
    if evaluation.measure is RETURN:
        return evaluation.returns(task_set)
    successes = [result.successes for result in evaluation.of(task_set)]
    return np.mean(successes, axis=0) if len({len(starts) for starts in successes}) == 1 else np.zeros(0)


def interval_over_starts(scores: np.ndarray, bounds: tuple[float, float] | None = None) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean over starts, by the percentile bootstrap; None for a single start.

    The k-th episodes of all tasks have the same start, so that episodes of one start are not independent; starts are,
    and so are a profile's random draws. The interval is for one trained policy: other training seeds differ by more. If
    all starts score the same, a bootstrap has no width. The interval then assumes an unseen share of starts with any
    score within the bounds, as large as that many starts would all miss with a probability of 1 in 40.

    Args:
        scores: mean score of each start, (starts,).
        bounds: smallest and largest possible score, or None.
    """
    count = len(scores)
    if count < 2:
        return None
    if bounds is not None and scores.min() == scores.max():
        unseen = 1.0 - ((1.0 - CONFIDENCE) / 2.0) ** (1.0 / count)
        low, high = (float(scores[0] + unseen * (bound - scores[0])) for bound in bounds)
        return low, high
    rows = np.random.default_rng(0).integers(count, size=(REPLICATES, count))
    return _middle(scores[rows].mean(axis=1))


def interval_of(evaluation: Evaluation, task_set: str) -> tuple[float, float] | None:
    """Return the 95 % interval of a set's score; None for fewer than 2 starts.

    Returns are resampled within each task, so that differences between tasks do not widen the interval. If a task has a
    single episode, the tasks are a sample of the set, and all episodes are resampled together.
    """
    scores = scores_of_starts(evaluation, task_set)
    tasks = [np.array(result.returns) for result in evaluation.of(task_set)]
    if evaluation.measure is not RETURN or any(len(returns) < 2 for returns in tasks):
        return interval_over_starts(scores, evaluation.measure.bounds)
    rng = np.random.default_rng(0)
    # A bootstrap of n values has 1 - 1 / n of the variance that their mean has: half of it with two in each task.
    wide = [returns.mean() + (returns - returns.mean()) * (1.0 - 1.0 / len(returns)) ** -0.5 for returns in tasks]
    sums = [returns[rng.integers(len(returns), size=(REPLICATES, len(returns)))].sum(axis=1) for returns in wide]
    return _middle(np.sum(sums, axis=0) / len(scores))


def _middle(means: np.ndarray) -> tuple[float, float]:
    """Return the limits of the middle 95 % of resampled means."""
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(means, [tail, 100.0 - tail])
    return float(low), float(high)
