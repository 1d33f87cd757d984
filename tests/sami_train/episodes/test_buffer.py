"""The episode buffer: what goes in comes out, hindsight tells the truth, nothing leaks between tasks."""

import numpy as np
import pytest

from sami_train.envs.catalog import environment
from sami_train.episodes.buffer import EpisodeBuffer, ReplayError
from sami_train.episodes.episode import Episode

GOAL = environment("panda").goal


def make_episode(length=10, task=0, success=True, terminated=None, speed=0.04, goal_at=None, seed=0):
    """A cube that moves `speed` metres a step along x, and a goal where it ends (or at `goal_at`)."""
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(length + 1, 25)).astype(np.float32)
    cube = np.stack([speed * np.arange(length + 1), np.zeros(length + 1), np.full(length + 1, 0.02)], 1)
    observations[:, 7:10] = observations[:, GOAL.achieved] = cube
    observations[:, GOAL.desired] = cube[-1] if goal_at is None else goal_at
    rewards = np.full(length, -1.0, np.float32)
    if success:
        rewards[-1] = 0.0
    return Episode(
        index=seed,
        task={"mass": 1.0 + task, "friction": 0.1},
        task_index=task,
        observations=observations,
        actions=rng.uniform(-1, 1, (length, 4)).astype(np.float32),
        rewards=rewards,
        terminated=success if terminated is None else terminated,
        success=success,
        skills=frozenset(),
    )


def filled(*episodes, capacity=64, horizon=50):
    buffer = EpisodeBuffer(capacity, horizon, 25, 4, GOAL)
    for episode in episodes:
        buffer.add(episode)
    return buffer


RNG = np.random.default_rng


def test_every_transition_comes_out_once_as_it_went_in():
    episodes = [make_episode(length, seed=length) for length in (3, 7, 1)]
    buffer = filled(*episodes)
    batch = buffer.transitions(buffer.windows(np.arange(3), RNG(0)), None, 0.0, RNG(0))
    assert len(batch.rows) == 11
    for k, (row, step) in enumerate(zip(batch.rows, batch.steps, strict=True)):
        episode = episodes[row]
        assert np.array_equal(batch.observations[k], episode.observations[step])
        assert np.array_equal(batch.next_observations[k], episode.observations[step + 1])
        assert np.array_equal(batch.actions[k], episode.actions[step])
        assert batch.rewards[k] == episode.rewards[step]
        assert batch.terminated[k] == (step == len(episode) - 1)


def test_a_time_out_is_not_a_termination():
    buffer = filled(make_episode(50, success=False, terminated=False))
    assert not buffer.transitions(buffer.windows(np.array([0]), RNG(0)), None, 0.0, RNG(0)).terminated.any()


def test_sequences_are_padded_with_zeros_to_the_longest_of_them():
    short, long = make_episode(3, seed=1), make_episode(7, seed=2)
    buffer = filled(short, long)
    sequences = buffer.sequences(buffer.windows(np.array([0, 1]), RNG(0)))
    assert sequences.observations.shape == (2, 8, 25)
    assert sequences.actions.shape == (2, 7, 4)
    assert np.array_equal(sequences.observations[1], long.observations)
    assert not sequences.observations[0, 4:].any()
    assert not sequences.actions[0, 3:].any()


def test_hindsight_rewards_and_terminals_follow_the_new_goal():
    buffer = filled(*(make_episode(20, success=False, goal_at=(9, 9, 0.02), seed=s) for s in range(8)))
    batch = buffer.transitions(buffer.windows(np.arange(8), RNG(0)), 2000, 1.0, RNG(0))
    reached = GOAL.reached(batch.next_observations[:, GOAL.achieved], batch.next_observations[:, GOAL.desired])
    relabelled = batch.observations[:, GOAL.desired.start] != 9
    assert relabelled.all()
    assert np.array_equal(batch.terminated, reached)
    assert np.array_equal(batch.rewards, np.where(reached, 0.0, -1.0))
    assert 0.1 < reached.mean() < 0.9
    # the new goals are places of the same episode's future, on the table
    steps_ahead = (batch.observations[:, GOAL.desired.start] - batch.observations[:, GOAL.achieved.start]) / 0.04
    assert (np.round(steps_ahead, 3) >= 1).all()
    assert (batch.observations[:, GOAL.desired.stop - 1] == np.float32(0.02)).all()


def test_hindsight_leaves_out_transitions_that_begin_at_their_new_goal():
    buffer = filled(*(make_episode(20, success=False, speed=0.0, goal_at=(9, 9, 0.02), seed=s) for s in range(4)))
    # The cube never moves: every hindsight goal is where it already is, and only the episodes' own goals are left.
    for hindsight in (0.5, 1.0):
        batch = buffer.transitions(buffer.windows(np.arange(4), RNG(0)), 200, hindsight, RNG(0))
        assert len(batch.rows) > 50
        assert (batch.observations[:, GOAL.desired.start] == 9).all()


def test_a_return_of_several_steps_is_the_sum_that_a_loop_over_them_gives_and_ends_at_its_goal():
    ends = [(12, True, True), (20, False, False), (5, False, True), (50, False, False)]
    episodes = [make_episode(n, success=s, terminated=t, seed=n, goal_at=(9, 9, 0)) for n, s, t in ends]
    buffer, discount, steps = filled(*episodes), 0.9, 4
    batch = buffer.transitions(buffer.windows(np.arange(4), RNG(0)), 2000, 0.7, RNG(1), steps, discount)
    relabelled = 0
    for row, step, span, observation, following, value, over, failure in zip(
        *(batch.rows, batch.steps, batch.spans, batch.observations, batch.next_observations, batch.rewards),
        *(batch.terminated, batch.failure),
        strict=True,
    ):
        episode, goal = episodes[row], observation[GOAL.desired]
        is_own = np.array_equal(goal, episode.observations[0, GOAL.desired])
        relabelled += not is_own
        expected, k, is_over = 0.0, 0, False
        while k < steps and step + k < len(episode) and not is_over:
            arrived = bool(GOAL.reached(episode.observations[step + k + 1, GOAL.achieved], goal))
            expected += discount**k * (episode.rewards[step + k] if is_own else -1.0 + arrived)
            k += 1
            is_over = (arrived and not is_own) or (step + k == len(episode) and episode.terminated)
        assert (span, over) == (k, is_over)
        assert value == pytest.approx(expected, abs=1e-6)
        assert np.array_equal(following[7:10], episode.observations[step + k, 7:10])
        assert failure == (step + k == len(episode) and episode.terminated and not episode.success)
    assert 500 < relabelled < 1500


def test_hindsight_does_not_change_what_is_stored():
    buffer = filled(make_episode(20))
    before = buffer.observations.copy()
    buffer.transitions(buffer.windows(np.array([0]), RNG(0)), 100, 1.0, RNG(0))
    assert np.array_equal(before, buffer.observations)


def test_a_cube_that_fell_is_a_lost_episode_and_no_goal():
    episode = make_episode(10, success=False, terminated=True, goal_at=(9, 9, 0.02))
    episode.observations[-1, GOAL.achieved] = (0.4, 0.0, -0.1)
    buffer = filled(episode)
    batch = buffer.transitions(buffer.windows(np.array([0]), RNG(0)), 500, 0.5, RNG(0))
    last = batch.steps == 9
    assert np.array_equal(batch.failure, last)
    assert batch.terminated[last].all()
    # the only later place of the last step is below the table, so it keeps its own goal
    assert (batch.observations[last][:, GOAL.desired.start] == 9).all()


def test_failing_early_never_ranks_above_trying_until_the_end():
    failure = make_episode(5, success=False, terminated=True)
    timeout = make_episode(50, success=False, terminated=False)
    success = make_episode(49, success=True)
    buffer = filled(failure, timeout, success)
    assert buffer.returns[2] > buffer.returns[1] >= buffer.returns[0]


def test_the_oldest_episode_makes_room_and_leaves_nothing_behind():
    buffer = filled(make_episode(50, success=False, seed=1), make_episode(2, seed=2), capacity=1)
    assert len(buffer) == 1
    assert buffer.lengths[0] == 2
    assert not buffer.observations[0, 3:].any()
    assert not buffer.rewards[0, 2:].any()


def test_a_saved_buffer_comes_back_and_another_shape_is_refused(tmp_path):
    buffer = filled(*(make_episode(length, seed=length) for length in (3, 9)))
    buffer.save(tmp_path / "buffer.npz")
    again = EpisodeBuffer(64, 50, 25, 4, GOAL)
    again.restore(tmp_path / "buffer.npz")
    assert again.total_count == 2
    assert np.array_equal(again.observations, buffer.observations)
    assert np.array_equal(again.returns, buffer.returns)
    with pytest.raises(ReplayError, match=r"observations has shape \(2, 51, 25\); this buffer needs \(2, 31, 25\)"):
        EpisodeBuffer(64, 30, 25, 4, GOAL).restore(tmp_path / "buffer.npz")


def test_an_empty_buffer_and_an_episode_that_is_too_long_are_refused():
    with pytest.raises(ReplayError, match="the buffer is empty"):
        EpisodeBuffer(4, 50, 25, 4, GOAL).sample(1, RNG(0))
    with pytest.raises(ReplayError, match="an episode has 51 steps; this buffer takes at most 50"):
        filled(make_episode(51))
