"""Binomial limits, held to SciPy's."""

import numpy as np
import pytest
from scipy import stats

from sami_train.binomial import at_most, highest_rate, tolerance_rank


@pytest.mark.parametrize(("events", "n"), [(0, 59), (3, 60), (40, 100), (7, 3000)])
def test_the_upper_limit_of_a_rate_is_scipys(events, n):
    assert highest_rate(events, n) == pytest.approx(stats.beta.ppf(0.95, events + 1, n - events), abs=1e-9)
    assert at_most(events, n, 0.07) == pytest.approx(stats.binom.cdf(events, n, 0.07), abs=1e-9)


@pytest.mark.parametrize("n", [45, 60, 120, 1000])
def test_in_nine_of_ten_samples_at_most_the_rate_is_beyond_a_tolerance_limit(n):
    """A uniform value exceeds the k-th of n in order at the rate 1 - Beta(k, n + 1 - k)."""
    k = tolerance_rank(n, 0.05, 0.9)
    beyond = stats.beta.cdf(0.95, k, n + 1 - k)  # the chance that more than 5 % exceed it
    assert beyond <= 0.1
    assert k == n or stats.beta.cdf(0.95, k - 1, n + 2 - k) > 0.1, "a smaller limit would do"
    samples = np.sort(np.random.default_rng(0).random((2000, n)), axis=1)[:, k - 1]
    assert (samples < 0.95).mean() <= 0.12


def test_too_small_a_sample_has_no_limit():
    assert tolerance_rank(44, 0.05, 0.9) == 0
