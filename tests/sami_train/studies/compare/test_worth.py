"""What a context is worth: shares of the gap between SAC and the oracle, against hand-computed numbers."""

import json

import numpy as np
import pytest
from scipy import stats

from sami_train.config.methods import METHODS
from sami_train.evaluation import paper
from sami_train.studies.compare import estimates
from sami_train.studies.compare.comparison import PAIRS, MethodComparison, worths
from sami_train.studies.compare.estimates import share_of_gap, welch
from sami_train.studies.compare.groups import read_runs
from sami_train.studies.compare.tables import _markdown, as_data, tables, worth_table
from tests.making.made_runs import made_return_run

SETS = ("training", "moderate", "extreme")
MEANS = {
    # by method: on training, moderate and extreme tasks
    "sac": (100.0, 100.0, 300.0),
    "sac-history": (120.0, 100.0, 100.0),
    "satesac": (175.0, 90.0, 200.0),
    "oracle": (200.0, 110.0, 100.0),
}
SPREAD = (1.0, 20.0, 1.0)
"""What seeds differ by."""


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(estimates, "REPLICATES", 200)


def compare(folder, methods, seeds=3, steps=None):
    for method in methods:
        for seed in range(seeds):

            def ret(name, episode, method=method, seed=seed):
                at = SETS.index(name)
                return MEANS[method][at] + SPREAD[at] * (seed - (seeds - 1) / 2)

            duration = {} if steps is None else {"steps": steps[method]}
            made_return_run(folder / f"{method}-{seed}", method=method, seed=seed, ret=ret, **duration)
    return MethodComparison(read_runs([folder]))


@pytest.fixture
def comparison(tmp_path):
    return compare(tmp_path, MEANS)


def of(comparison, method, task_set):
    return next(w for w in worths(comparison) if w.group.method.name == method and w.task_set == task_set)


def test_a_share_is_what_the_method_closes_of_the_gap():
    low, high = np.array([90.0, 110.0]), np.array([190.0, 210.0])
    assert share_of_gap(np.array([165.0, 185.0]), low, high).value == pytest.approx(0.75)  # (175 - 100) / (200 - 100)
    assert share_of_gap(low, low, high).value == 0.0
    assert share_of_gap(high, low, high).value == 1.0
    assert share_of_gap(np.array([80.0]), low, high) == (pytest.approx(-0.2), None, None)  # one seed, no interval


def test_its_interval_is_that_of_means_of_seeds_drawn_anew():
    """Means of two seeds drawn twice, with their chances, on every side: 64 shares, whose quantiles are the ends."""
    values, low, high = np.array([170.0, 180.0]), np.array([95.0, 105.0]), np.array([190.0, 210.0])

    def means(two):
        return [two[0], two.mean(), two.mean(), two[1]]

    shares = sorted((m - a) / (b - a) for m in means(values) for a in means(low) for b in means(high))
    share = share_of_gap(values, low, high)
    assert share.value == pytest.approx(0.75)
    assert shares[0] <= share.low <= shares[4]
    assert shares[-5] <= share.high <= shares[-1]


def test_the_gaps_interval_is_welchs():
    rng = np.random.default_rng(0)
    x, y = rng.normal(10.0, 1.0, 5), rng.normal(8.0, 4.0, 3)
    expected = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    assert welch(x, y) == pytest.approx((x.mean() - y.mean(), expected.low, expected.high))
    assert welch(np.ones(3), np.zeros(2)) == (1.0, 1.0, 1.0)
    assert welch(np.ones(1), np.zeros(3)) == (1.0, None, None)


def test_shares_are_told_where_the_gap_is_larger_than_its_interval_and_nowhere_else(comparison):
    assert of(comparison, "satesac", "training").share.value == pytest.approx(0.75)
    assert of(comparison, "sac-history", "training").share.value == pytest.approx(0.2)
    for task_set in ("moderate", "extreme"):  # a gap of 10 among seeds that differ by 20; an oracle worse than SAC
        assert not of(comparison, "satesac", task_set).gap_counts
        assert of(comparison, "satesac", task_set).share is None
    assert of(comparison, "oracle", "training").above == of(comparison, "satesac", "training").gap
    assert of(comparison, "oracle", "training").share is None


def test_the_table_says_what_a_share_is_and_where_it_means_nothing(comparison):
    table = worth_table(comparison)
    assert table in tables(comparison)
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows["SaTESAC", "training"][0] == "+75 [73, 77]"
    assert rows["SaTESAC", "training"][1].startswith("0.75 [0.7")
    assert rows["SaTESAC", "moderate"][1] == rows["Oracle", "training"][1] == "-"
    assert [note.split(":")[0] for note in table.notes[2:]] == ["moderate", "extreme"]
    assert all("so a fraction means nothing" in note for note in table.notes[2:])
    assert not [row for row in table.rows if row[0] == "SAC"]
    assert "## What is a context worth? From SAC to the oracle" in _markdown(comparison, [], ["sami"])


def test_the_same_stands_in_the_data(comparison):
    data = json.loads(json.dumps(as_data(comparison), allow_nan=False))
    row = next(r for r in data["worth"] if (r["group"], r["task_set"]) == ("SaTESAC", "training"))
    assert (row["memoryless"], row["told"], row["gap_counts"], row["equal_budget"]) == ("SAC", "Oracle", True, True)
    assert row["share"]["value"] == pytest.approx(0.75)
    assert [r["share"] for r in data["worth"] if r["task_set"] == "extreme"] == [None] * 3


def test_without_either_baseline_nothing_is_said_and_with_both_alone_the_gap_is(tmp_path):
    assert worth_table(compare(tmp_path / "no-oracle", ("sac", "satesac"))) is None
    assert worth_table(compare(tmp_path / "no-sac", ("oracle", "satesac"))) is None
    table = worth_table(compare(tmp_path / "both", ("sac", "oracle")))
    assert [row[:2] for row in table.rows] == [("Oracle", name) for name in SETS]


def test_one_seed_has_a_share_without_an_interval_and_says_so(tmp_path):
    table = worth_table(compare(tmp_path, MEANS, seeds=1))
    assert {row[:2]: row[3] for row in table.rows}["SaTESAC", "training"] == "0.75 no interval"
    assert table.notes[-1] == "One seed of SAC or of the oracle: the headroom may be chance."


def test_unequal_budgets_are_named_in_each_row(tmp_path):
    steps = {"sac": 100_000, "oracle": 100_000, "satesac": 200_000}
    rows = worth_table(compare(tmp_path, steps, steps=steps)).rows
    assert {row[0] for row in rows} == {"SaTESAC (UNEQUAL BUDGET)", "Oracle"}


def test_the_paper_claims_nothing_of_baselines(comparison):
    baselines = [method for method in METHODS.values() if method.encoder in ("none", "history", "told")]
    assert {method.title for method in baselines} == {"SAC", "SAC with history", "Oracle"}
    assert not {name for pair in PAIRS for name in pair} & {method.name for method in baselines}
    assert [paper.reported(env, m.title, "training") for env in ("panda", "hopper") for m in baselines] == [None] * 6
    assert comparison.contests == []
