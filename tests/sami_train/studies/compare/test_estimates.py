"""Statistics of a comparison against hand-computed cases, textbook formulas and simulated truth."""

import math

import numpy as np
import pytest
from scipy import stats

from sami_train.evaluation import paper
from sami_train.studies.compare import estimates
from sami_train.studies.compare.estimates import (
    aggregate,
    holm,
    iqm,
    paired_t_test,
    probability_of_improvement,
    welch_t_test,
)


def test_the_interquartile_mean_leaves_out_the_lowest_and_the_highest_quarter():
    # 12 scores: 3 lowest and 3 highest go, (3 + 4 + 5 + 6 + 7 + 8) / 6 stays.
    scores = np.array([[100, 0, 1, 2], [3, 4, 5, 6], [7, 8, 90, 95]], float)
    assert iqm(scores) == 5.5
    assert aggregate(scores / 100).iqm.value == pytest.approx(0.055)


def test_it_is_the_trimmed_mean_whatever_the_number_of_scores():
    rng = np.random.default_rng(0)
    for shape in ((1, 6), (2, 5), (3, 8), (5, 7)):
        scores = rng.random(shape)
        assert iqm(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None), abs=1e-12)


def test_the_mean_comes_with_the_deviation_and_the_t_interval_of_the_seeds_means():
    scores = np.array([[0.5, 0.7], [0.6, 0.8], [0.7, 0.9]])  # means 0.6, 0.7, 0.8
    estimate = aggregate(scores)
    assert estimate.mean.value == pytest.approx(0.7)
    assert estimate.std == pytest.approx(0.1)
    half = 4.302652729911275 * 0.1 / math.sqrt(3)  # Student's t, two degrees of freedom, 97.5 %
    assert estimate.mean.bounds == pytest.approx((0.7 - half, 0.7 + half))


def test_an_interval_of_success_stays_between_0_and_1():
    estimate = aggregate(np.array([[1.0], [1.0], [0.9]]), (0.0, 1.0))
    assert estimate.mean.high == 1.0
    assert aggregate(np.array([[0.0], [0.0], [0.1]]), (0.0, 1.0)).mean.low == 0.0
    assert aggregate(np.array([[0.0], [0.0], [0.1]])).mean.low < 0.0


def test_one_seed_has_no_interval_and_no_deviation():
    estimate = aggregate(np.array([[0.5, 0.7, 0.9, 0.9]]))
    assert (estimate.mean.value, estimate.iqm.value) == (pytest.approx(0.75), pytest.approx(0.8))
    assert (estimate.std, estimate.mean.bounds, estimate.mean_stratified.bounds, estimate.iqm.bounds) == (
        None,
        None,
        None,
        None,
    )
    assert probability_of_improvement(np.ones((1, 2)), np.zeros((3, 2))).bounds is None


def test_seeds_that_agree_have_an_interval_without_width():
    estimate = aggregate(np.full((3, 4), 0.8))
    assert (*estimate.mean.bounds, *estimate.iqm.bounds) == pytest.approx((0.8,) * 4)


def test_the_stratified_bootstrap_draws_seeds_anew_within_each_task():
    """Tasks far apart, seeds alike within a task: nothing may move, as it would were tasks mixed or drawn too."""
    scores = np.tile([0.1, 0.5, 0.9], (3, 1))
    assert aggregate(scores).mean_stratified.bounds == pytest.approx((0.5, 0.5))
    # Opposite seeds in two tasks: whole seeds would always average 0.5; seeds drawn by task do not.
    low, high = aggregate(np.array([[0.0, 1.0], [1.0, 0.0]])).mean_stratified.bounds
    assert (low, high) == (0.0, 1.0)


def test_the_same_scores_give_the_same_interval_and_leave_numpys_own_draws_alone():
    scores = np.random.default_rng(1).random((3, 6))
    np.random.seed(3)
    first = aggregate(scores)
    before = np.random.get_state()[1].tolist()
    assert aggregate(scores) == first
    assert np.random.get_state()[1].tolist() == before


def coverage(trials, seeds, tasks, shared, monkeypatch):
    """How often Student's t and the bootstrap hold the true mean; seeds have an effect on all tasks."""
    monkeypatch.setattr(estimates, "REPLICATES", 150)
    rng, truth, hits = np.random.default_rng(0), 0.5, np.zeros(2)
    for _ in range(trials):
        estimate = aggregate(truth + rng.normal(0, shared, (seeds, 1)) + rng.normal(0, 0.05, (seeds, tasks)))
        hits += [low <= truth <= high for low, high in (estimate.mean.bounds, estimate.mean_stratified.bounds)]
    return hits / trials


def test_intervals_hold_the_truth_about_as_often_as_they_say(monkeypatch):
    of_t, of_bootstrap = coverage(150, seeds=20, tasks=2, shared=0.0, monkeypatch=monkeypatch)
    assert 0.88 <= of_t <= 0.99
    assert 0.88 <= of_bootstrap <= 0.99


def test_with_few_seeds_students_t_holds_the_truth_where_the_bootstrap_does_not(monkeypatch):
    """The reason why both are shown; `estimates` says how far they part."""
    of_t, of_bootstrap = coverage(120, seeds=3, tasks=4, shared=0.05, monkeypatch=monkeypatch)
    assert of_t >= 0.9
    assert of_bootstrap <= 0.75


def test_equal_scores_improve_with_probability_one_half_and_separated_ones_with_one():
    same = np.tile([0.2, 0.5, 0.5], (3, 1))
    assert probability_of_improvement(same, same) == pytest.approx((0.5, 0.5, 0.5))
    assert probability_of_improvement(same + 0.1, same) == pytest.approx((1.0, 1.0, 1.0))
    assert probability_of_improvement(same, same + 0.1) == pytest.approx((0.0, 0.0, 0.0))


def test_improvement_is_counted_over_pairs_of_runs_within_a_task():
    x, y = np.array([[0.9, 0.1], [0.3, 0.1]]), np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.3]])
    # Task 1: 0.9 beats three, 0.3 ties one and beats one: 4.5 of 6. Task 2: two ties with 0.1: 1 of 6.
    assert probability_of_improvement(x, y).value == pytest.approx((4.5 / 6 + 1 / 6) / 2)


def test_it_is_mann_and_whitneys_u_over_the_number_of_pairs():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 5, (4, 6)) / 5, rng.integers(0, 5, (3, 6)) / 5
    u = [stats.mannwhitneyu(x[:, task], y[:, task]).statistic for task in range(6)]
    assert probability_of_improvement(x, y).value == pytest.approx(np.mean(u) / 12)


def test_the_paired_t_test_is_the_formula_on_three_pairs():
    x, y = {0: 0.60, 1: 0.58, 2: 0.65}, {0: 0.55, 1: 0.56, 2: 0.57}
    test = paired_t_test(x, y)
    # Differences 0.05, 0.02, 0.08: mean 0.05, deviation 0.03; with two degrees of freedom the distribution of t is
    # 1/2 + t / (2 sqrt(2 + t^2)).
    t = 0.05 / (0.03 / math.sqrt(3))
    assert test.p == pytest.approx(1 - t / math.sqrt(2 + t**2))
    assert test.difference.value == pytest.approx(0.05)
    half = 4.302652729911275 * 0.03 / math.sqrt(3)
    assert test.difference.bounds == pytest.approx((0.05 - half, 0.05 + half))
    assert paired_t_test(y, x).p == pytest.approx(test.p)


def test_pairs_are_made_by_seed_and_a_seed_of_one_side_only_is_left_out():
    x, y = {7: 0.65, 0: 0.60, 1: 0.58, 2: 0.65}, {1: 0.56, 2: 0.57, 0: 0.55, 9: 0.1}
    test = paired_t_test(x, y)
    assert test.seeds == [0, 1, 2]
    assert test.difference.value == pytest.approx(0.05)


def test_what_cannot_be_tested_has_no_p():
    assert paired_t_test({0: 0.5}, {1: 0.4}).seeds == []
    test = paired_t_test({0: 0.5}, {0: 0.4})
    assert (test.seeds, test.p, test.difference.bounds) == ([0], None, None)
    equal = paired_t_test({0: 0.5, 1: 0.6, 2: 0.7}, {0: 0.4, 1: 0.5, 2: 0.6})
    assert (equal.difference.value, equal.p) == (pytest.approx(0.1), None)


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_the_least_difference_is_where_p_is_one_in_twenty(seeds):
    noise = np.arange(seeds) - (seeds - 1) / 2
    noise /= noise.std(ddof=1)
    least = estimates.least_difference(seeds)
    for factor, below in ((1.001, True), (0.999, False)):
        test = paired_t_test(dict(enumerate(noise + factor * least)), dict.fromkeys(range(seeds), 0.0))
        assert (test.p < 0.05) is below


def test_the_least_p_of_sign_flips_is_what_scipys_permutation_test_finds():
    for seeds in (3, 5):
        x, y = np.arange(seeds) + 1.0, np.zeros(seeds)
        result = stats.permutation_test((x, y), lambda a, b: np.mean(a - b), permutation_type="samples")
        assert estimates.least_sign_flip_p(seeds) == pytest.approx(result.pvalue)


def test_the_papers_numbers_can_be_looked_up():
    assert paper.reported("panda", "SaTESAC", "extreme") == (0.37, 0.34)
    assert paper.reported("half-cheetah", "SaCCM", "moderate") == (3849, 689)
    assert paper.reported_p("panda", "SaCCM", "CCM", "moderate") == 0.00219
    assert paper.reported("panda", "SAC", "extreme") is None
    assert paper.reported("mars", "TESAC", "extreme") is None
    assert paper.reported("panda", "TESAC", "all") is None
    assert paper.reported_p("panda", "TESAC", "CCM", "extreme") is None


def test_welchs_test_is_the_textbook_formula_and_pairs_nothing():
    x, y = [0.6, 0.7, 0.9], [0.5, 0.55]
    means, variances = (np.mean(x), np.mean(y)), (np.var(x, ddof=1) / 3, np.var(y, ddof=1) / 2)
    t = (means[0] - means[1]) / math.sqrt(sum(variances))
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 2 + variances[1] ** 2 / 1)
    assert welch_t_test(x, y) == pytest.approx(2 * stats.t.sf(t, freedom))
    assert welch_t_test(x[::-1], y) == pytest.approx(welch_t_test(x, y))
    assert welch_t_test([0.5], y) is None


def test_holms_correction_by_hand():
    # Sorted 0.01, 0.03, 0.04 times 3, 2, 1, and never below the one before: 0.03, 0.06, 0.06.
    assert holm([0.04, None, 0.01, 0.03]) == [pytest.approx(0.06), None, pytest.approx(0.03), pytest.approx(0.06)]
    assert holm([]) == []
