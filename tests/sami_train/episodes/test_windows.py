"""Windows of long episodes: a window from its stored state sees what the whole episode sees."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from sami_train.agent.policy import ContextPolicy
from sami_train.episodes.buffer import EpisodeBuffer, ReplayError, WindowPlan
from sami_train.episodes.exploration import Exploration
from sami_train.episodes.numpy_policy import NumpyPolicy
from sami_train.episodes.rollout import Rollout
from tests.making import toy
from tests.making.networks import small_network

toy.register()
RNG = np.random.default_rng
STEPS, BURN_IN = 5, 2


@pytest.fixture(params=["lstm", "gaussians", "history"])
def policy(request):
    torch.manual_seed(0)
    env = gym.make("sami-tests/HiddenSign-v0")
    return ContextPolicy(
        env.observation_space,
        env.action_space,
        network=small_network(net_arch=(16,), hidden_size=8, history_steps=4),
        encoder=request.param,
    )


@pytest.fixture
def buffer(policy):
    """Episodes of a rollout that kept states, and acted at random now and then."""
    plan = WindowPlan(STEPS, BURN_IN, policy.encoder.state)
    envs = [gym.make("sami-tests/HiddenSign-v0") for _ in range(4)]
    exploration = Exploration(random_action=0.5)
    rollout = Rollout(envs, NumpyPolicy(policy.numpy_weights(), 4), 0, exploration, state_every=plan.stride)
    buffer = EpisodeBuffer(16, toy.EPISODE_STEPS, 3, 1, plan=plan)
    for first in (0, 4):
        for episode in rollout.round(range(first, first + 4)):
            buffer.add(episode)
    return buffer


def test_windows_from_stored_states_give_the_contexts_of_whole_episodes(policy, buffer):
    where = np.repeat(np.arange(8), 20)
    windows = buffer.windows(where, RNG(0))
    x, state = policy.sequence_input(buffer.sequences(windows))
    contexts, _ = policy.encoder(x, state)
    for row, (episode, start, length, _) in enumerate(zip(*windows, strict=True)):
        actions = np.concatenate([np.zeros((1, 1), np.float32), buffer.actions[episode]])
        inputs = torch.cat(
            [policy.features(torch.as_tensor(buffer.observations[episode])), torch.as_tensor(actions)], -1
        )
        whole, _ = policy.encoder(inputs.unsqueeze(0))
        expected = whole[0, start : start + length + 1]
        assert torch.allclose(contexts[row, : length + 1], expected, atol=1e-5)


def test_windows_begin_where_states_are_and_leave_something_to_learn_from(buffer):
    windows = buffer.windows(np.zeros(500, np.int64), RNG(0))
    assert set(windows.starts) == {0, 2, 4, 6, 8}  # at 10, two steps of burn-in would reach the end of 12
    assert (windows.burn_in == np.where(windows.starts > 0, BURN_IN, 0)).all()
    assert (windows.lengths == np.minimum(toy.EPISODE_STEPS - windows.starts, STEPS)).all()
    assert (windows.lengths > windows.burn_in).all()


@pytest.mark.parametrize("burn_in", range(12))
def test_every_step_of_an_episode_is_learned_from_whatever_the_burn_in(burn_in):
    windows = WindowPlan(12, burn_in, {}).draw(np.zeros(2000, np.int64), np.full(2000, 50), RNG(0))
    spans = zip(windows.starts + windows.burn_in, windows.starts + windows.lengths, strict=True)
    assert set().union(*(range(*span) for span in spans)) == set(range(50))


def test_an_episode_shorter_than_the_burn_in_is_learned_from_whole():
    plan = WindowPlan(STEPS, BURN_IN, {})
    windows = plan.draw(np.arange(3), np.array([1, 2, 3]), RNG(0))
    assert windows.starts.tolist() == [0, 0, 0]
    assert windows.burn_in.tolist() == [0, 0, 0]
    assert windows.lengths.tolist() == [1, 2, 3]


def test_transitions_of_windows_are_those_of_the_episode_past_the_burn_in(buffer):
    windows = buffer.windows(np.repeat(np.arange(8), 10), RNG(1))
    batch = buffer.transitions(windows, None, 0.0, RNG(0))
    assert len(batch.rows) == (windows.lengths - windows.burn_in).sum()
    assert (batch.steps >= windows.burn_in[batch.rows]).all()
    steps, episodes = windows.starts[batch.rows] + batch.steps, windows.episodes[batch.rows]
    assert np.array_equal(batch.observations, buffer.observations[episodes, steps])
    assert np.array_equal(batch.next_observations, buffer.observations[episodes, steps + 1])
    assert np.array_equal(batch.rewards, buffer.rewards[episodes, steps])
    # with a count, burn-in stays out too
    few = buffer.transitions(windows, 300, 0.0, RNG(0))
    assert (few.steps >= windows.burn_in[few.rows]).all()


def test_states_are_saved_and_restored_and_other_encoders_refused(buffer, tmp_path):
    buffer.save(tmp_path / "buffer.npz")
    again = EpisodeBuffer(16, toy.EPISODE_STEPS, 3, 1, plan=buffer.plan)
    again.restore(tmp_path / "buffer.npz")
    assert all(np.array_equal(a, b) for a, b in zip(again.states, buffer.states, strict=True))
    other = EpisodeBuffer(16, toy.EPISODE_STEPS, 3, 1, plan=WindowPlan(STEPS, BURN_IN, {"other": (1,)}))
    with pytest.raises(ReplayError, match=r"has no state\.other"):
        other.restore(tmp_path / "buffer.npz")


def test_an_episode_without_states_is_refused(buffer):
    rollout = Rollout([gym.make("sami-tests/HiddenSign-v0")], _Idle(), 0)
    with pytest.raises(ReplayError, match="has 0 encoder states, but this buffer needs"):
        buffer.add(rollout.round([0])[0])


class _Idle:
    state = ()

    def reset(self, tasks):
        pass

    def step(self, observation, noise=None):
        return np.zeros((len(observation), 1), np.float32), None
