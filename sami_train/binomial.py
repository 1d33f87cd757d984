"""Binomial probabilities: confidence limits of a rate, from the number of events in n trials."""

from __future__ import annotations

import math


def at_most(events: int, n: int, rate: float) -> float:
    """Probability of at most `events` events in n independent trials, each with probability `rate`, 0 to 1.

    >>> at_most(1, 2, 0.5)
    0.75
    """
    if events >= n or rate <= 0.0:
        return 1.0
    if events < 0 or rate >= 1.0:
        return 0.0
    logs = (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(events + 1))
    hit, miss = math.log(rate), math.log1p(-rate)
    return min(1.0, math.fsum(math.exp(log + k * hit + (n - k) * miss) for k, log in enumerate(logs)))


def highest_rate(events: int, n: int, confidence: float = 0.95) -> float:
    """Return the upper confidence limit of a rate (Clopper and Pearson 1934, one-sided) after `events` in n trials.

    >>> round(highest_rate(0, 100), 3)
    0.03
    """
    if events >= n:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if at_most(events, n, middle) > 1.0 - confidence else (low, middle)
    return high


def fewest(rate: float, confidence: float) -> int:
    """Return the least n for which a tolerance limit exists; n trials without an event bound a rate likewise.

    >>> fewest(0.05, 0.9), fewest(0.05, 0.95)
    (45, 59)
    """
    return math.ceil(math.log(1.0 - confidence) / math.log(1.0 - rate) - 1e-9)


def tolerance_rank(n: int, rate: float, confidence: float) -> int:
    """Return k: with this confidence, at most `rate` of all values exceed the k-th smallest of n (Wilks 1941).

    0 where n is too small even for the largest. A conformal quantile has the right rate on average over many samples;
    this limit holds, with the confidence, for the sample at hand.

    >>> tolerance_rank(45, 0.05, 0.9), tolerance_rank(44, 0.05, 0.9)
    (45, 0)
    """
    over = 0
    while over < n and at_most(over, n, rate) <= 1.0 - confidence:
        over += 1
    return 0 if over == 0 else n - over + 1
