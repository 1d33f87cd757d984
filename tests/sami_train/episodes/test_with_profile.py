"""Episodes with a sim-to-real profile store the true state, and hindsight can judge by it."""

import numpy as np
import pytest

from sami_runtime.gap.profile import GapProfile
from sami_train.envs import environment
from sami_train.envs.make import make
from sami_train.episodes.buffer import EpisodeBuffer, ReplayError, whole
from sami_train.episodes.episode import Episode
from sami_train.episodes.exploration import WithProfile
from sami_train.episodes.rollout import Rollout

SPEC, RNG = environment("panda"), np.random.default_rng
GOAL = SPEC.goal
TRUTH = WithProfile(privileged_goals=True)


class Wild:
    """Acts at random, the same in every world."""

    previous_action, state = np.zeros((1, 4), np.float32), ()

    def reset(self, tasks):
        self.rng = RNG(0)

    def step(self, observation, noise=None):
        return self.rng.uniform(-1, 1, (1, 4)).astype(np.float32), np.zeros((1, 0))


def episode(gap, with_profile=TRUTH, steps_done=0, name="panda", index=0):
    spec = environment(name)
    policy = Wild()
    if name != "panda":
        size = spec.action.size
        policy.step = lambda *_: (policy.rng.uniform(-1, 1, (1, size)).astype(np.float32), np.zeros((1, 0)))
    env = make(spec, gap and GapProfile.of(gap), max_episode_steps=20)
    return Rollout([env], policy, 0, with_profile=with_profile).round([index], steps_done)[0]


@pytest.mark.parametrize("name", ["panda", "half-cheetah"])
def test_the_true_state_is_what_would_have_been_observed_without_the_gap(name):
    bare, late = episode(None, name=name), episode({"latency_s": 0.1, "noise": 0.1}, name=name)
    np.testing.assert_array_equal(bare.true_observations, bare.observations)
    np.testing.assert_array_equal(late.true_observations, bare.observations)
    assert not np.array_equal(late.observations, bare.observations)
    assert late.rewards.tolist() == bare.rewards.tolist()


def test_it_is_brought_along_only_where_it_is_asked_for():
    assert episode({"latency_s": 0.1}, WithProfile(critic_actions=2, full_from=100)).true_observations is None
    with pytest.raises(ReplayError, match="no true_observations; give Rollout the buffer's with_profile"):
        buffer_of(episode({"latency_s": 0.1}, WithProfile()))


@pytest.mark.parametrize(("steps_done", "share"), [(0, 0.0), (50, 0.5), (100, 1.0), (1000, 1.0)])
def test_a_gap_grows_from_nothing_to_what_its_profile_says(steps_done, share):
    profile = {"bias": {"ee_velocity": 1.0}, "latency_s": 0.08, "action_latency_s": 0.08}
    grown = episode(profile, WithProfile(privileged_goals=True, full_from=100), steps_done)
    off = grown.observations[0] - grown.true_observations[0]
    np.testing.assert_allclose(off[3:6], share, atol=1e-6)
    late = int(2 * share)
    np.testing.assert_array_equal(grown.observations[late:, :3], grown.true_observations[: 21 - late, :3])
    expected = episode(profile, steps_done=steps_done) if share == 1.0 else None
    if expected is not None:
        np.testing.assert_array_equal(grown.observations, expected.observations)
    if share == 0.0:
        np.testing.assert_array_equal(grown.observations, episode(None).observations)


def test_a_share_of_the_episodes_has_no_gap_and_an_episode_knows_it_by_its_number():
    with_profile = WithProfile(clean_share=0.25, full_from=100)
    sizes = [with_profile.size(50, seed, index) for seed in range(4) for index in range(500)]
    assert set(sizes) == {0.0, 0.5}
    assert sizes.count(0.0) / len(sizes) == pytest.approx(0.25, abs=0.03)
    assert [with_profile.size(50, 0, index) for index in (3, 1, 2)] == [sizes[3], sizes[1], sizes[2]]
    np.testing.assert_array_equal(
        episode({"latency_s": 0.1}, WithProfile(clean_share=1.0)).observations, episode(None).observations
    )


def buffer_of(*episodes, with_profile=TRUTH):
    buffer = EpisodeBuffer(8, 20, 25, 4, GOAL, with_profile=with_profile)
    for item in episodes:
        buffer.add(item)
    return buffer


LATE = 3


def pushed(index):
    """An episode of 20 steps whose cube goes 3 cm a step, in a direction of its own, and is seen three steps late."""
    true = np.zeros((21, 25), np.float32)
    true[:, GOAL.achieved] = np.arange(21)[:, None] * 0.03 * np.array([np.cos(index), np.sin(index), 0.0])
    true[:, GOAL.achieved][:, 2] = true[:, GOAL.desired][:, 2] = GOAL.height
    true[:, GOAL.desired.start] = -1.0
    observations = true[np.maximum(np.arange(21) - LATE, 0)]
    still = np.zeros((20, 4), np.float32)
    return Episode(index, {}, 0, observations, still, np.full(20, -1, np.float32), False, False, frozenset(), (), true)


@pytest.mark.parametrize("with_profile", [TRUTH, WithProfile(privileged_critic=True)])
def test_hindsight_goals_come_from_the_true_state_and_are_judged_by_it_where_the_switch_is_on(with_profile):
    buffer = buffer_of(*(pushed(index) for index in range(4)), with_profile=with_profile)
    batch = buffer.transitions(whole(np.arange(4), buffer.lengths[:4]), 400, 1.0, RNG(0))
    goals = batch.observations[:, GOAL.desired]
    for stream in (batch.next_observations, batch.true_observations, batch.next_true_observations):
        np.testing.assert_array_equal(stream[:, GOAL.desired], goals)
    # Where the cube was going to be, and how far it had come: truly, or as it was seen.
    late = 0 if with_profile.privileged_goals else LATE
    step_of_goal = np.linalg.norm(goals[:, :2], axis=1) / 0.03
    np.testing.assert_allclose(step_of_goal, np.round(step_of_goal), atol=1e-4)
    assert step_of_goal.max() == pytest.approx(20 - late)
    progress = np.maximum(batch.steps + 1 - late, 0)
    reached = np.abs(step_of_goal - progress) * 0.03 < GOAL.threshold
    np.testing.assert_array_equal(batch.rewards, np.where(reached, 0.0, -1.0))
    np.testing.assert_array_equal(batch.terminated, reached)
    assert reached.any()
    assert not reached.all()


def test_critics_read_the_actions_before_each_step_the_newest_last():
    example = episode(None, with_profile=WithProfile())
    buffer = buffer_of(example, with_profile=WithProfile(critic_actions=2))
    batch = buffer.transitions(whole(np.array([0]), buffer.lengths[:1]), None, 0.0, RNG(0))
    assert not batch.recent_actions[0].any(), "none was executed before the first"
    np.testing.assert_array_equal(batch.recent_actions[1], np.r_[np.zeros(4), example.actions[0]])
    np.testing.assert_array_equal(batch.recent_actions[7], np.r_[example.actions[5], example.actions[6]])
    np.testing.assert_array_equal(batch.next_recent_actions[:-1], batch.recent_actions[1:])
    sequences = buffer.sequences(whole(np.array([0]), buffer.lengths[:1]))
    np.testing.assert_array_equal(sequences.recent_actions[0, :-1], batch.recent_actions)
