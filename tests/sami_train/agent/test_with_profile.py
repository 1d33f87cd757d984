"""Training with a profile and privileged information: each key alone; without a profile none of them matters."""

import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback

from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.encoders import Inference
from sami_train.config.resolve import resolve
from sami_train.config.schema import ConfigError
from sami_train.episodes.buffer import SequenceBatch, Windows
from sami_train.episodes.numpy_policy import NumpyPolicy
from sami_train.runs.train import make_env

GAP = '{"latency_s": [0.04, 0.12], "dropout": 0.2, "noise": 0.01, "action_latency_s": [0.0, 0.08]}'
ALL = {"privileged_goals": True, "privileged_critic": True, "critic_actions": 2, "estimate": 1.0}
SMALL = {
    "steps": 300,
    "network.net_arch": [16],
    "network.hidden_size": 16,
    "learning.train_every": 25,
    "learning.batch_transitions": 32,
    "learning.batch_episodes": 4,
    "learning.buffer_episodes": 60,
    "exploration.warmup_steps": 150,
    "contrast.trajectories": 4,
    "contrast.every": 2,
    "collection.workers": 0,
}


class Stop(BaseCallback):
    def _on_step(self):
        return self.num_timesteps < 200


def agent(gap=GAP, env="panda", more=None, **switches):
    """An agent that has learned nothing yet, with a sim-to-real profile and these keys."""
    long = {
        "learning.window": 16,
        "learning.burn_in": 4,
        "learning.buffer_episodes": 120,
        "collection.episode_steps": 60,
    }
    keys = (
        SMALL | (long if env != "panda" else {}) | {f"with_profile.{name}": value for name, value in switches.items()}
    )
    config = resolve("fast-cpu", keys | {"env": env, "gap": gap} | (more or {}))
    return ContextSAC("ContextPolicy", make_env(config), config, device="cpu")


def agent_with(*arguments, **switches):
    untrained = agent(*arguments, **switches)
    return untrained.learn(untrained.config.steps)


def differing(agent, other):
    """Names of the tensors that differ in anything; those that only one has are none of them."""
    first, second = agent.policy.state_dict(), other.policy.state_dict()
    return {name for name in first.keys() & second.keys() if not torch.equal(first[name], second[name])}


@pytest.fixture(scope="module")
def plain():
    return agent_with()


@pytest.fixture(scope="module")
def full():
    return agent_with(**ALL)


@pytest.fixture(scope="module")
def bare():
    return agent_with("")


@pytest.mark.parametrize("gap", ["", "{}"])
def test_where_nothing_lies_between_truth_and_estimate_change_nothing_to_the_bit(bare, gap):
    report = agent_with(gap, privileged_goals=True, privileged_critic=True, estimate=1.0)
    assert report._n_updates == bare._n_updates > 0
    assert differing(report, bare) == set()
    np.testing.assert_array_equal(report.buffer.true_observations, bare.buffer.observations)
    assert report._last_scalars["estimate_error"] == report._last_scalars["arrived_error"] == 0.0
    corrections = report.policy.encoder.correction
    assert not corrections.weight.any()
    assert not corrections.bias.any()


@pytest.mark.parametrize("switch", ALL)
def test_each_switch_alone_learns_otherwise_with_a_profile_from_the_same_first_episodes(plain, switch):
    switched = agent_with(**{switch: ALL[switch]})
    assert any(name.startswith("actor.") for name in differing(switched, plain))
    np.testing.assert_array_equal(switched.buffer.observations[0], plain.buffer.observations[0])
    assert (switched.buffer.true_observations is switched.buffer.observations) == (switch == "critic_actions")


def test_off_nothing_of_the_truth_is_kept_or_learned(plain):
    assert plain.buffer.true_observations is plain.buffer.observations
    assert not any("correction" in name for name in plain.policy.state_dict())
    assert "estimate_error" not in plain._last_scalars


@pytest.mark.parametrize("env", ["panda", "hopper"])
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(tmp_path, env):
    switches = {**ALL, "privileged_goals": env == "panda", "full_from": 260}
    whole = agent_with(GAP, env, **switches)
    original = agent(GAP, env, **switches)
    original.learn(original.config.steps, Stop())
    original.save(tmp_path / "agent.zip")
    original.make_buffer().save(tmp_path / "buffer.npz")
    resumed = ContextSAC.load(tmp_path / "agent.zip", env=make_env(original.config), device="cpu")
    resumed.make_buffer().restore(tmp_path / "buffer.npz")
    assert resumed.num_timesteps < whole.num_timesteps
    resumed.learn(original.config.steps - resumed.num_timesteps, reset_num_timesteps=False)
    assert differing(resumed, whole) == set()
    np.testing.assert_array_equal(resumed.buffer.true_observations, whole.buffer.true_observations)
    assert not np.array_equal(whole.buffer.true_observations, whole.buffer.observations)


def test_what_rollout_workers_step_acts_on_the_estimate_as_torch_does(full):
    policy = full.policy
    with torch.no_grad():
        policy.encoder.correction.weight.normal_(0.0, 0.5)
    worker, rows = NumpyPolicy(policy.numpy_weights(), 1), np.random.default_rng(0).normal(0.1, 0.3, (20, 25))
    state, acted = None, []
    for row in rows.astype(np.float32):
        action, state = policy.predict(row, state, deterministic=True)
        acted.append(action)
        assert worker.step(row[None])[0][0] == pytest.approx(action, abs=1e-5)
    with torch.no_grad():
        policy.encoder.correction.weight.zero_()
        policy.encoder.correction.bias.zero_()
    assert not np.allclose(policy.predict(rows[0].astype(np.float32), None, deterministic=True)[0], acted[0])


def test_the_present_is_learned_past_the_burn_in_alone():
    learner = agent(env="hopper", estimate=1.0).learner
    numbers, size = len(learner.policy.present.place.T), learner.policy.present.size
    corrections = torch.zeros(1, 6, size, requires_grad=True)
    arrived, lengths = np.zeros((1, 6, numbers), np.float32), np.array([4])
    windows = Windows(np.array([0]), np.array([8]), lengths, np.array([2]))
    first, contents = (arrived[:, 0], (), lengths, windows.burn_in), (arrived + 1.0, arrived)
    sequences = SequenceBatch(arrived, arrived[:, 1:], *first, *contents)
    learner._auxiliary(None, windows, sequences, Inference(corrections, None, corrections))[0].backward()
    assert corrections.grad.any(-1).tolist() == [[False, False, True, True, True, False]]


def test_the_goal_is_given_and_never_estimated(full):
    goal = full.environment.goal.desired
    assert not set(full.policy.present.numbers.tolist()) & set(range(goal.start, goal.stop))


def test_critics_read_the_truth_and_the_actor_never_does(full):
    policy, goal_free = full.policy, torch.zeros(1, 25)
    states = [
        policy.critic_state(goal_free, true, torch.zeros(1, 6), torch.zeros(1, 8)) for true in torch.eye(25)[:2, None]
    ]
    assert not torch.equal(*states)
    assert policy.actor.body[0][0].in_features == policy.features.size + policy.context_size
    assert policy.critic.q1[0].in_features == policy.features.size + policy.context_size + 3 * policy.action_size


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"env": "hopper", "with_profile.privileged_goals": True},
            "with_profile.privileged_goals: only for environments with a goal, and hopper has none",
        ),
        (
            {"method": "pearl", "with_profile.estimate": 1.0},
            "only an LSTM encoder estimates the present, and PEARL has none",
        ),
        ({"with_profile.full_from": 10}, "with_profile.full_from is 10, but there is no sim-to-real profile"),
        ({"with_profile.clean_share": 0.5}, "with_profile.clean_share is 0.5, but there is no sim-to-real profile"),
        (
            {"with_profile.privileged_critic": True, "collection.recordings": ["run.mcap"]},
            "collection.recordings lack the true state",
        ),
        ({"with_profile.estimate": -1.0}, "with_profile.estimate is -1.0; it must be a number of at least 0"),
    ],
)
def test_a_switch_that_means_nothing_is_refused(keys, message):
    with pytest.raises(ConfigError, match=message):
        resolve("fast-cpu", keys)
