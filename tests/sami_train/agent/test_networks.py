"""Networks: what goes in is normalised, episodes are apart, and densities integrate to one."""

import numpy as np
import pytest
import torch

from sami_train.agent.networks import Features, feature_layout
from sami_train.agent.policy import ContextPolicy
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from tests.making.networks import small_network

SPEC = environment("panda")
OPTIONS = {"encoder_reads_goal": False, "relative_goal": True, "normalize": True}


def layout(**changes):
    return feature_layout(25, SPEC.goal, small_network(**{**OPTIONS, **changes}))


@pytest.fixture
def policy():
    torch.manual_seed(0)
    env = make(SPEC)
    policy = ContextPolicy(env.observation_space, env.action_space, goal=SPEC.goal, network=small_network(**OPTIONS))
    policy.features.update(np.random.default_rng(0).normal(1.0, 2.0, (500, 25)).astype(np.float32))
    env.close()
    return policy


def observations(steps, rows=3):
    return np.random.default_rng(1).normal(size=(steps, rows, 25)).astype(np.float32)


def test_features_are_normalised_by_the_mean_and_deviation_of_all_data_seen():
    data = np.random.default_rng(2).normal(3.0, 0.5, (1000, 25)).astype(np.float32)
    features = Features(layout())
    for part in np.split(data, [10, 400]):
        features.update(part)
    normalised = features(torch.as_tensor(data)).numpy()
    columns = [i for i in range(19)]
    assert features.mean[columns].numpy() == pytest.approx(data[:, columns].mean(0), abs=1e-4)
    assert normalised[:, columns].std(0) == pytest.approx(np.ones(19), abs=0.02)
    assert np.abs(normalised).max() <= 5.0


def test_relative_goals_are_the_way_from_cube_to_goal_in_tenths():
    features = Features(layout())
    observation = torch.zeros(1, 25)
    observation[0, 19:22] = torch.tensor([0.1, 0.0, 0.02])
    observation[0, 22:25] = torch.tensor([0.05, 0.1, 0.02])
    assert features(observation)[0, 19:].numpy() == pytest.approx([-0.5, 1.0, 0.0, 0.5, 1.0, 0.2], abs=1e-6)


def test_an_encoder_that_reads_no_goal_does_not_notice_another_goal(policy):
    x = torch.as_tensor(observations(1)[0])
    y = x.clone()
    y[:, 19:] += 0.1
    previous = torch.zeros(3, 4)
    assert torch.equal(
        policy.encoder_input(policy.features(x), previous), policy.encoder_input(policy.features(y), previous)
    )


def _as_dict(flat):
    return {"observation": flat[..., :19], "achieved_goal": flat[..., 19:22], "desired_goal": flat[..., 22:]}


def test_a_new_episode_forgets_everything_in_its_row_only(policy):
    first, *rest = observations(6)
    state = None
    for row in rest:
        _, state = policy.predict(_as_dict(row), state, deterministic=True)
    stored, _ = policy.predict(_as_dict(first), state, np.array([False] * 3), deterministic=True)
    mixed, _ = policy.predict(_as_dict(first), state, np.array([False, True, False]), deterministic=True)
    fresh, _ = policy.predict(_as_dict(first), None, deterministic=True)
    assert np.array_equal(mixed[[0, 2]], stored[[0, 2]])
    assert mixed[1] == pytest.approx(fresh[1], abs=1e-6)
    assert np.abs(mixed[1] - stored[1]).max() > 1e-4


def test_one_observation_needs_no_batch_axis(policy):
    row = observations(1)[0]
    single, _ = policy.predict(_as_dict(row[0]), None, deterministic=True)
    batch, _ = policy.predict(_as_dict(row), None, deterministic=True)
    assert single.shape == (4,)
    assert single == pytest.approx(batch[0], abs=1e-6)


def test_the_actors_log_probability_is_that_of_a_squashed_gaussian(policy):
    x = torch.randn(1000, 31)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        action, log_prob = policy.actor.sample(x, generator)
        mean, log_std = policy.actor(x)
    truth = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(mean.double(), log_std.exp().double()), torch.distributions.TanhTransform()
    )
    inside = (action.abs() < 0.999).all(-1)  # beyond, inverting tanh in the reference loses digits
    expected = truth.log_prob(action.double()).sum(-1)
    assert inside.sum() > 500
    assert torch.allclose(log_prob[inside].double(), expected[inside], atol=1e-3)


def test_the_momentum_encoder_and_target_critics_start_as_copies_and_take_no_gradient(policy):
    for target, source in ((policy.momentum_encoder, policy.encoder), (policy.critic_target, policy.critic)):
        for a, b in zip(target.parameters(), source.parameters(), strict=True):
            assert torch.equal(a, b)
            assert not a.requires_grad
            assert b.requires_grad
