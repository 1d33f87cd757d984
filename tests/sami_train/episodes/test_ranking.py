"""What tells good skills from bad: laws on episodes whose returns have known causes."""

import numpy as np
import pytest

from sami_train.envs.measure import Goal
from sami_train.episodes.buffer import EpisodeBuffer
from sami_train.episodes.episode import Episode
from sami_train.episodes.sampling import rank_by, unexplained
from sami_train.studies.contexts.largest_bound import part_of

RNG = np.random.default_rng
GOAL = Goal(achieved=slice(0, 3), desired=slice(3, 6), threshold=0.05, height=0.02, lowest=0.0)


def buffer_of(returns, starts=None, goals=None, capacity=1000, goal=None):
    buffer = EpisodeBuffer(capacity, 1, 6, 1, goal)
    for number, value in enumerate(returns):
        observation = np.zeros((2, 6), np.float32)
        if starts is not None:
            observation[:, :3], observation[:, 3:] = starts[number], goals[number]
        rewards = np.array([value], np.float32)
        buffer.add(
            Episode(number, {}, 0, observation, np.zeros((1, 1), np.float32), rewards, False, False, frozenset())
        )
    return buffer


def correlation(a, b):
    return np.corrcoef(a, b)[0, 1]


def test_the_number_of_an_episode_survives_the_ring():
    buffer = buffer_of(np.arange(10.0), capacity=4)
    assert sorted(buffer.numbers(np.arange(4))) == [6, 7, 8, 9]
    assert np.array_equal(buffer.returns, buffer.numbers(np.arange(4)).astype(float))


def test_a_part_of_a_buffer_holds_copies_in_the_order_that_was_asked():
    buffer = buffer_of(np.arange(10.0))
    part = part_of(buffer, np.array([7, 2]))
    assert part.returns.tolist() == [7.0, 2.0]
    assert part.numbers(np.arange(2)).tolist() == [0, 1]
    part.returns[:] = 0.0
    assert buffer.returns[7] == 7.0


def test_returns_rank_by_what_was_paid_and_recency_by_age_alone():
    values = RNG(0).normal(size=30)
    buffer, where = buffer_of(values), RNG(1).permutation(30)
    assert rank_by("return", buffer, where, RNG(0)) == pytest.approx(values[where], abs=1e-6)
    assert np.array_equal(rank_by("recency", buffer, where, RNG(0)), where)


def test_shuffled_ranks_know_nothing_and_differ_from_draw_to_draw():
    buffer, where = buffer_of(np.arange(500.0)), np.arange(500)
    first, second = (rank_by("shuffled", buffer, where, RNG(seed)) for seed in (0, 1))
    assert abs(correlation(first, buffer.returns[where])) < 0.15
    assert abs(correlation(first, second)) < 0.15


def test_an_advantage_is_what_distance_and_age_do_not_explain():
    rng, n = RNG(0), 400
    starts, goals = rng.uniform(-0.15, 0.15, (n, 3)), rng.uniform(-0.15, 0.15, (n, 3))
    distance, skill = np.linalg.norm(goals - starts, axis=1), rng.normal(size=n)
    returns = -100 * distance + 0.02 * np.arange(n) + skill
    buffer = buffer_of(returns, starts, goals, goal=GOAL)
    advantage = rank_by("advantage", buffer, np.arange(n), RNG(0))
    assert abs(correlation(returns, skill)) < 0.3  # luck hides the skill,
    assert correlation(advantage, skill) > 0.98  # and the advantage shows it
    assert abs(correlation(advantage, distance)) < 0.02
    assert abs(correlation(advantage, np.arange(n))) < 0.02


def test_returns_that_are_all_equal_have_equal_advantages_and_two_equal_ones_among_others_need_not():
    buffer = buffer_of([-50.0] * 20, RNG(0).normal(size=(20, 3)), RNG(1).normal(size=(20, 3)), goal=GOAL)
    assert not rank_by("advantage", buffer, np.arange(20), RNG(0)).any()
    easy, hard = unexplained(np.array([-50.0, -50.0, -10.0, -30.0]), np.array([[1.0], [3.0], [1.0], [2.0]]))[:2]
    assert easy < hard
    assert "equal values stay equal" not in unexplained.__doc__


def test_residuals_are_those_of_least_squares():
    rng = RNG(0)
    causes, values = rng.normal(size=(200, 3)), rng.normal(size=200)
    design = np.column_stack([np.ones(200), causes])
    expected = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    assert unexplained(values, causes) == pytest.approx(expected, abs=0.02)
