"""95 % intervals of what an evaluation measured, over its starts; other seeds of training differ by more."""

from __future__ import annotations

import numpy as np

from sami_train.envs.measure import RETURN
from sami_train.evaluation.results import Evaluation

CONFIDENCE = 0.95
REPLICATES = 2000
"""Draws of the bootstrap."""


def scores_of_starts(evaluation: Evaluation, task_set: str) -> np.ndarray:
    """Return what each start scored, mean over a set's tasks, (starts,); empty in files of before it was kept.

    Where returns count, each episode has a start of its own.
    """
    if evaluation.measure is RETURN:
        return evaluation.returns(task_set)
    successes = [result.successes for result in evaluation.of(task_set)]
    return np.mean(successes, axis=0) if len({len(starts) for starts in successes}) == 1 else np.zeros(0)


def interval_over_starts(scores: np.ndarray, bounds: tuple[float, float] | None = None) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean over starts, by the percentile bootstrap; None for a single start.

    The k-th episode begins alike in every task, so the episodes of one start are not independent of each other; starts
    are, and so is what a gap draws. A policy is one: other seeds of its training differ by more than this. Where all
    starts score alike, a bootstrap sees no doubt. Then a share of starts that as many would all miss in one of 40
    measurements may have scored anything within the bounds.

    Args:
        scores: mean score of each start, (starts,).
        bounds: smallest and largest score, where there are such.
    """
    count = len(scores)
    if count < 2:
        return None
    if bounds is not None and scores.min() == scores.max():
        unseen = 1.0 - ((1.0 - CONFIDENCE) / 2.0) ** (1.0 / count)
        low, high = (float(scores[0] + unseen * (bound - scores[0])) for bound in bounds)
        return low, high
    drawn = np.random.default_rng(0).integers(count, size=(REPLICATES, count))
    return _middle(scores[drawn].mean(axis=1))


def interval_of(evaluation: Evaluation, task_set: str) -> tuple[float, float] | None:
    """Return the interval of a set's score; None where it has none.

    Where returns count, each task's episodes are drawn among themselves, so that how far tasks lie apart is none of
    it; where a task came up once, the tasks are a sample of the set, and all episodes are drawn alike.
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
    """Return what holds the middle 95 % of drawn means."""
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(means, [tail, 100.0 - tail])
    return float(low), float(high)
