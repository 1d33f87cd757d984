"""Encoders: a step is a slice of a sequence, numpy is torch; PEARL's is a product of Gaussians and nothing else."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from sami_train.agent.contrast import embeddings_of
from sami_train.agent.encoders import GaussianEncoder, HistoryEncoder, LSTMEncoder, NoEncoder
from sami_train.agent.policy import ContextPolicy
from sami_train.episodes.buffer import Windows
from sami_train.episodes.numpy_policy import NumpyPolicy
from tests.making.networks import small_network

FEATURES, ACTIONS, CONTEXT = 19, 4, 6
ENCODERS = {
    "lstm": lambda: LSTMEncoder(FEATURES, ACTIONS, 128, CONTEXT),
    "gaussians": lambda: GaussianEncoder(FEATURES, ACTIONS, CONTEXT, (32, 32)),
    "none": NoEncoder,
    "history": lambda: HistoryEncoder(FEATURES, ACTIONS, 10),
}


@pytest.fixture(params=ENCODERS)
def encoder(request):
    torch.manual_seed(0)
    return ENCODERS[request.param]()


@pytest.fixture
def gaussians():
    torch.manual_seed(0)
    return ENCODERS["gaussians"]()


def inputs(rows=4, steps=30):
    return torch.randn(rows, steps, FEATURES + ACTIONS, generator=torch.Generator().manual_seed(1))


def test_stepping_t_times_equals_one_pass_over_t(encoder):
    x = inputs()
    whole, last = encoder(x)
    state, contexts = tuple(torch.zeros(4, *shape) for shape in encoder.state.values()), []
    for t in range(x.shape[1]):
        context, state = encoder(x[:, t : t + 1], state)
        contexts.append(context)
    assert torch.allclose(whole, torch.cat(contexts, 1), atol=1e-5)
    for a, b in zip(last, state, strict=True):
        assert a.shape == b.shape
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-4)


def test_a_pass_may_begin_in_the_middle_from_the_state_there(encoder):
    x = inputs()
    whole, _ = encoder(x)
    _, state = encoder(x[:, :11])
    assert torch.allclose(whole[:, 11:], encoder(x[:, 11:], state)[0], atol=1e-5)


def test_what_comes_later_does_not_change_earlier_contexts(encoder):
    x = inputs()
    other = x.clone()
    other[:, 12:] = 0.0
    assert torch.equal(encoder(x)[0][:, :12], encoder(other)[0][:, :12])


def test_before_the_first_transition_pearls_posterior_is_the_prior(gaussians):
    mean, variance, _ = gaussians.posterior(inputs())
    assert torch.equal(mean[:, 0], torch.zeros(4, CONTEXT))
    assert torch.equal(variance[:, 0], torch.ones(4, CONTEXT))
    assert (gaussians.infer(inputs(), None, torch.Generator()).divergence[:, 0] == 0).all()


def test_every_transition_narrows_pearls_posterior(gaussians):
    _, variance, _ = gaussians.posterior(inputs())
    assert (variance[:, 1:] < variance[:, :-1]).all()


def test_the_posterior_is_the_product_of_the_factors_and_the_prior(gaussians):
    """Against the density itself: the product of the factors' densities, normalised on a grid."""
    x = inputs(rows=1, steps=4)
    mean, variance, _ = gaussians.posterior(x)
    z = torch.linspace(-8, 8, 20_001, dtype=torch.float64)
    log_density = -0.5 * z**2
    for t in range(1, 4):
        transition = torch.cat([x[:, t - 1, :FEATURES], x[:, t]], -1)
        mu, spread = gaussians.factor(transition).double().chunk(2, -1)
        sigma2 = torch.nn.functional.softplus(spread[0, 0]) + 1e-4
        log_density = log_density - 0.5 * (z - mu[0, 0]) ** 2 / sigma2
    density = (log_density - log_density.max()).exp()
    density = density / density.sum()
    expected = (density * z).sum()
    assert mean[0, -1, 0].item() == pytest.approx(expected.item(), abs=1e-5)
    assert variance[0, -1, 0].item() == pytest.approx((density * (z - expected) ** 2).sum().item(), rel=1e-4)


def test_the_order_of_transitions_does_not_matter_to_pearl_and_matters_to_the_lstm():
    torch.manual_seed(0)
    # Observations that alternate between two states, so that transitions can change places.
    a, b = torch.randn(FEATURES), torch.randn(FEATURES)
    observations = torch.stack([a, b, a, b, a])
    actions = torch.randn(4, ACTIONS)
    zeros = torch.zeros(1, ACTIONS)

    def last(encoder, order):
        x = torch.cat([observations, torch.cat([zeros, actions[order]])], 1)
        return encoder(x.unsqueeze(0))[0][0, -1]

    for name, equal in (("gaussians", True), ("lstm", False)):
        encoder = ENCODERS[name]()
        assert torch.allclose(last(encoder, [0, 1, 2, 3]), last(encoder, [2, 3, 0, 1]), atol=1e-6) == equal


def test_samples_have_the_posteriors_mean_and_variance_and_one_noise_an_episode(gaussians):
    x = inputs(rows=1).expand(20_000, -1, -1)
    mean, variance, _ = gaussians.posterior(x[:1])
    contexts, divergence, _ = gaussians.infer(x, None, torch.Generator().manual_seed(0))
    assert torch.allclose(contexts.mean(0), mean[0], atol=0.03)
    assert torch.allclose(contexts.var(0), variance[0], rtol=0.1, atol=1e-6)
    standard = (contexts - mean) / variance.sqrt()
    assert torch.allclose(standard[:, 0], standard[:, -1], atol=1e-3)
    normal = torch.distributions.Normal(mean, variance.sqrt())
    truth = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum(-1)
    assert torch.allclose(divergence[:1], truth, atol=1e-4)


@pytest.mark.parametrize("name", ENCODERS)
def test_the_numpy_policy_equals_torch_over_a_whole_episode_and_after_a_reset(name):
    torch.manual_seed(0)
    space = gym.spaces.Box(-10.0, 10.0, (FEATURES,), np.float32)
    policy = ContextPolicy(
        space, gym.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32), network=small_network(), encoder=name
    )
    numpy_policy, rng = NumpyPolicy(policy.numpy_weights(), 3), np.random.default_rng(0)
    for _ in range(2):
        state = None
        numpy_policy.reset()
        for row in 3.0 * rng.normal(size=(50, 3, FEATURES)).astype(np.float32):  # some beyond what is clipped
            expected, state = policy.predict(row, state, deterministic=True)
            action, context = numpy_policy.step(row)
            assert np.abs(action - expected).max() < 1e-5
            executed = rng.uniform(-1, 1, action.shape).astype(np.float32)
            numpy_policy.previous_action, state = executed, (*state[:-1], executed)
        assert context.shape == (3, policy.encoder.size)


def test_embeddings_stand_for_whole_trajectories_or_for_prefixes():
    contexts = torch.arange(2 * 6, dtype=torch.float32).reshape(2, 6, 1)  # two episodes padded to 5 steps
    lengths = np.array([5, 2])
    rng, windows = np.random.default_rng(0), Windows(np.arange(2), np.array([4, 0]), lengths, np.array([2, 0]))
    assert embeddings_of(contexts, windows, "last", rng).flatten().tolist() == [5.0, 8.0]
    embeddings = [embeddings_of(contexts, windows, "prefix", rng).flatten().tolist() for _ in range(100)]
    assert {first for first, _ in embeddings} == {3.0, 4.0, 5.0}, "none that ends within the burn-in"
    assert {second for _, second in embeddings} == {7.0, 8.0}
