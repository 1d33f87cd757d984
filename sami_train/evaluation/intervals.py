"""How far a mean over episodes can be trusted: a bootstrap over starts, the unit that is drawn independently.

The k-th episode begins alike in every task, so the episodes of one start are not independent of each other; starts are,
and so is what a gap draws. A policy, on the other hand, is one: other seeds of its training differ by more than this.
"""

from __future__ import annotations

import numpy as np

CONFIDENCE = 0.95
REPLICATES = 2000
"""Draws of the bootstrap."""


def interval_over_starts(scores: np.ndarray, bounds: tuple[float, float] | None = None) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean over starts, by the percentile bootstrap; None for a single start.

    Where all starts score alike at a bound, a bootstrap sees no doubt. Then the interval ends where as many starts
    would all score alike in one of 40 measurements.

    Args:
        scores: mean score of each start, (starts,).
        bounds: smallest and largest score, where there are such.
    """
    count = len(scores)
    if count < 2:
        return None
    if bounds is not None and scores.min() == scores.max() in bounds:
        left = (bounds[1] - bounds[0]) * (1.0 - ((1.0 - CONFIDENCE) / 2.0) ** (1.0 / count))
        low, high = bounds
        return (high - left, high) if scores[0] == high else (low, low + left)
    drawn = np.random.default_rng(0).integers(count, size=(REPLICATES, count))
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(scores[drawn].mean(axis=1), [tail, 100.0 - tail])
    return float(low), float(high)
