"""Which trajectories are compared: laws on a buffer whose contents are known."""

import numpy as np
import pytest

from sami_runtime.errors import UnknownName
from sami_train.config.methods import METHODS, method
from sami_train.episodes.buffer import EpisodeBuffer
from sami_train.episodes.episode import Episode
from sami_train.episodes.sampling import low_returns_of_all_tasks, other_tasks, same_task

STRATEGIES = (same_task, other_tasks, low_returns_of_all_tasks)
RNG = np.random.default_rng


def buffer_of(returns_by_task):
    """A buffer of one-step episodes with these returns."""
    buffer = EpisodeBuffer(1000, 1, 1, 1)
    for task, returns in returns_by_task.items():
        for value in returns:
            buffer.add(
                Episode(
                    index=0,
                    task={},
                    task_index=task,
                    observations=np.zeros((2, 1), np.float32),
                    actions=np.zeros((1, 1), np.float32),
                    rewards=np.array([value], np.float32),
                    terminated=False,
                    success=False,
                    skills=frozenset(),
                )
            )
    return buffer


def draw(strategy, buffer, count=12, seed=0):
    return strategy(buffer, count, RNG(seed), lambda where: buffer.returns[where])


FULL = {task: np.arange(20.0) + 100 * task for task in (0, 3, 5)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_positives_are_of_one_task_and_nothing_stands_on_both_sides(strategy):
    buffer, tasks = buffer_of(FULL), set()
    for seed in range(50):
        good, bad = draw(strategy, buffer, seed=seed)
        assert len(set(buffer.tasks[good])) == 1
        assert len(good) == len(bad) == 6
        ranked = [*good, *bad]
        assert len(set(ranked)) == len(ranked)
        tasks.add(int(buffer.tasks[good[0]]))
    assert tasks == {0, 3, 5}


def test_sance_takes_its_negatives_from_the_same_task_and_ranks_by_return():
    buffer = buffer_of(FULL)
    for seed in range(50):
        good, bad = draw(same_task, buffer, seed=seed)
        assert set(buffer.tasks[bad]) == set(buffer.tasks[good])
        assert buffer.returns[good].min() > buffer.returns[bad].max()


def test_infonce_takes_its_negatives_from_other_tasks_whatever_their_returns():
    buffer, tasks, above = buffer_of(FULL), set(), 0
    for seed in range(200):
        good, bad = draw(other_tasks, buffer, seed=seed)
        current = buffer.tasks[good[0]]
        assert current not in buffer.tasks[bad]
        tasks |= set(buffer.tasks[bad].tolist())
        above += int((buffer.returns[bad] % 100 >= 10).sum())
    assert tasks == {0, 3, 5}
    assert above / (200 * 6) == pytest.approx(0.5, abs=0.05)


def test_sa_infonce_takes_the_union_low_returns_of_every_task_in_equal_shares():
    buffer, counts = buffer_of(FULL | {7: np.arange(200.0)}), dict.fromkeys((0, 3, 5, 7), 0)
    for seed in range(200):
        good, bad = draw(low_returns_of_all_tasks, buffer, count=16, seed=seed)
        same_task_rows = bad[buffer.tasks[bad] == buffer.tasks[good[0]]]
        assert buffer.returns[good].min() > buffer.returns[same_task_rows].max()
        for task in buffer.tasks[bad]:
            counts[int(task)] += 1
    # Two of each task in every draw: a task with ten times the trajectories has no larger share.
    assert counts == {0: 400, 3: 400, 5: 400, 7: 400}


def test_low_returns_are_the_lower_ones_of_each_task():
    buffer = buffer_of(FULL)
    low = [task_return % 100 for seed in range(300) for task_return in _low(buffer, seed)]
    assert np.mean(low) < 7.0  # uniform draws would average 9.5


def _low(buffer, seed):
    return buffer.returns[draw(low_returns_of_all_tasks, buffer, seed=seed).negatives]


def test_equal_returns_never_stand_on_both_sides():
    # 3 successes and 17 failures: the middle of any ranking lies among the failures.
    buffer = buffer_of({0: [-5.0, -6.0, -7.0] + [-50.0] * 17})
    for seed in range(50):
        trajectories = draw(same_task, buffer, count=20, seed=seed)
        assert sorted(buffer.returns[trajectories.positives]) == [-7.0, -6.0, -5.0]
        assert set(buffer.returns[trajectories.negatives]) == {-50.0}
        assert len(trajectories.negatives) == 10


def test_where_all_returns_are_equal_there_is_nothing_to_tell_apart():
    buffer = buffer_of({0: [-50.0] * 20, 1: [-50.0] * 20})
    assert draw(same_task, buffer) is None
    assert draw(low_returns_of_all_tasks, buffer) is None
    assert draw(other_tasks, buffer) is not None  # tasks differ all the same


def test_a_task_without_better_or_worse_lends_no_negatives():
    buffer = buffer_of({0: [-50.0] * 20, 1: np.arange(20.0)})
    result = {draw(low_returns_of_all_tasks, buffer, seed=seed) is not None for seed in range(10)}
    assert result == {True, False}  # None when the current task is the tied one
    trajectories = next(d for seed in range(10) if (d := draw(low_returns_of_all_tasks, buffer, seed=seed)))
    assert set(buffer.tasks[trajectories.negatives]) == {1}


def test_one_task_is_enough_for_sance_and_too_few_for_infonce():
    buffer = buffer_of({2: np.arange(20.0)})
    assert draw(other_tasks, buffer) is None
    one_task, union = draw(same_task, buffer), draw(low_returns_of_all_tasks, buffer)
    assert sorted(union.positives) == sorted(one_task.positives)
    assert sorted(union.negatives) == sorted(one_task.negatives)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_batch_larger_than_the_buffer_takes_what_there_is(strategy):
    buffer = buffer_of({0: np.arange(5.0), 1: np.arange(5.0)})
    good, bad = draw(strategy, buffer, count=512)
    assert len(good) >= 2
    assert len(bad) >= 2
    assert len(set(good) | set(bad)) == len(good) + len(bad)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("returns", [{0: [1.0]}, {0: [1.0], 1: [2.0]}])
def test_too_few_trajectories_give_nothing(strategy, returns):
    assert draw(strategy, buffer_of(returns)) is None


def test_a_score_other_than_the_return_ranks():
    buffer = buffer_of({0: np.arange(20.0)})
    good, bad = same_task(buffer, 12, RNG(0), lambda where: -buffer.returns[where])
    assert buffer.returns[good].max() < buffer.returns[bad].min()


def test_the_same_state_of_the_generator_draws_the_same():
    buffer = buffer_of(FULL)
    for strategy in STRATEGIES:
        first, second, third = (draw(strategy, buffer, seed=seed) for seed in (4, 4, 5))
        assert np.array_equal(first.positives, second.positives)
        assert np.array_equal(first.negatives, second.negatives)
        assert not np.array_equal(np.sort(first.negatives), np.sort(third.negatives))


def test_the_methods_are_those_of_the_paper_and_three_baselines_that_infer_nothing():
    assert [m.title for m in METHODS.values()][:5] == ["PEARL", "TESAC", "CCM", "SaTESAC", "SaCCM"]
    assert [m.title for m in METHODS.values()][5:] == ["SAC", "SAC with history", "Oracle"]
    assert [name for name, m in METHODS.items() if m.memoryless] == ["sac"]
    assert [name for name, m in METHODS.items() if m.reads_task] == ["oracle"]
    assert [name for name, m in METHODS.items() if m.encoder == "gaussians"] == ["pearl"]
    estimators = {name: m.estimator for name, m in METHODS.items() if m.estimator}
    assert {name: (e.name, e.strategy, e.soft) for name, e in estimators.items()} == {
        "ccm": ("InfoNCE", other_tasks, False),
        "satesac": ("SaNCE", same_task, True),
        "saccm": ("Sa+InfoNCE", low_returns_of_all_tasks, True),
    }
    with pytest.raises(UnknownName, match="maml"):
        method("maml")


def test_three_trajectories_are_two_good_ones_and_a_bad_one():
    buffer = buffer_of({0: [3.0, 2.0, 1.0]})
    trajectories = draw(same_task, buffer)
    assert sorted(buffer.returns[trajectories.positives]) == [2.0, 3.0]
    assert len(trajectories.negatives) == 1


def test_a_single_success_has_nothing_in_common_with_another():
    assert draw(same_task, buffer_of({0: [-5.0] + [-50.0] * 11})) is None
