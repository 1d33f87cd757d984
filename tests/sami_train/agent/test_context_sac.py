"""ContextSAC: an algorithm in stable-baselines3's sense, reproducible to the bit, that learns to remember."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from sami_runtime.errors import SamiError, UnknownName
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.methods import METHODS
from sami_train.config.resolve import resolve
from sami_train.envs.measure import SUCCESS
from sami_train.episodes.rollout_workers import WorkerError
from tests.making import toy

toy.register()

TOY = {
    "method": "satesac",
    "network.net_arch": [32, 32],
    "network.hidden_size": 16,
    "network.encoder_reads_goal": True,
    "network.relative_goal": False,
    "learning.hindsight": 0.0,
    "learning.clip_targets": False,
    "learning.batch_transitions": 96,
    "learning.train_every": 12,
    "learning.buffer_episodes": 500,
    "learning.target_entropy": -1.0,
    "learning.bf16": False,
    "exploration.warmup_steps": 120,
    "exploration.reach_episodes": 0.0,
    "contrast.trajectories": 16,
    "collection.workers": 0,
    "collection.end_on_fall": False,
}


def agent(seed=0, envs=1, env=None, **changes):
    config = resolve("fast-cpu", TOY | {"seed": seed} | {k.replace("__", "."): v for k, v in changes.items()})
    if env is None:
        name = "sami-tests/HiddenSign-v0"
        env = make_vec_env(name, envs, wrapper_class=None) if envs > 1 else gym.make(name)
    return ContextSAC("ContextPolicy", env, config, device="cpu")


def weights(agent):
    return {name: tensor.clone() for name, tensor in agent.policy.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


class Stop(BaseCallback):
    """Stops a run at a number of steps."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def _on_step(self):
        return self.num_timesteps < self.at


def test_the_same_seed_gives_the_same_weights_and_another_seed_does_not():
    first, second, other = (agent(seed).learn(360) for seed in (0, 0, 1))
    assert first._n_updates == 20
    assert same(weights(first), weights(second))
    assert not same(weights(first), weights(other))


@pytest.mark.parametrize(("method", "window"), [*((name, 0) for name in METHODS), ("satesac", 6)])
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(method, window, tmp_path):
    changes = {"method": method, "learning__window": window, "learning__burn_in": window // 3}
    whole = agent(**changes).learn(324)

    interrupted = agent(**changes)
    interrupted.learn(324, Stop(228))
    interrupted.save(tmp_path / "agent.zip")
    interrupted.make_buffer().save(tmp_path / "buffer.npz")
    torch.manual_seed(1234)  # a new process has another global state
    resumed = ContextSAC.load(tmp_path / "agent.zip", env=gym.make("sami-tests/HiddenSign-v0"), device="cpu")
    resumed.make_buffer().restore(tmp_path / "buffer.npz")
    assert resumed.num_timesteps < 324
    resumed.learn(324 - resumed.num_timesteps, reset_num_timesteps=False)

    assert resumed.num_timesteps == whole.num_timesteps
    assert resumed._n_updates == whole._n_updates
    assert same(weights(whole), weights(resumed))
    assert resumed.buffer.states or not window
    for name in ("actor_optimizer", "critic_optimizer", "temperature_optimizer"):
        a, b = getattr(whole.learner, name).state_dict(), getattr(resumed.learner, name).state_dict()
        for key, state in a["state"].items():
            assert all(torch.equal(state[k], b["state"][key][k]) for k in state)


@pytest.mark.parametrize("method", ["ccm", "satesac", "saccm"])
def test_a_contrastive_loss_moves_the_encoder_and_its_bound_is_logged(method):
    # The same batches on both sides: with a coefficient of zero the loss is computed and weighs nothing.
    contrasted, without = agent(method=method).learn(300), agent(method=method, contrast__coefficient=0.0).learn(300)
    assert contrasted._last_scalars["contrast_bound"] <= contrasted._last_scalars["contrast_log_k"]
    assert not same(weights(contrasted), weights(without))


@pytest.mark.parametrize("method", ["pearl", "tesac"])
def test_methods_without_a_contrastive_loss_compute_none(method):
    scalars = agent(method=method).learn(300)._last_scalars
    assert "contrast_bound" not in scalars
    assert ("divergence" in scalars) == (method == "pearl")


def test_a_method_that_compares_tasks_refuses_an_environment_of_one():
    env = gym.make("sami-tests/HiddenSign-v0")
    env.unwrapped.tasks = ({"sign": 1.0},)
    with pytest.raises(SamiError, match=r"CCM compares tasks .* has 1 for training; it needs at least 2"):
        agent(env=env, method="ccm")
    agent(env=env, method="saccm")


@pytest.mark.parametrize("pairing", ["last", "prefix", "one_age"])
def test_padding_gives_exactly_no_gradient(pairing):
    sac = agent(contrast__pairing=pairing).learn(300)
    buffer, policy, contrast = sac.buffer, sac.policy, sac.learner.contrast
    buffer.lengths[:] = np.random.default_rng(0).integers(3, 12, len(buffer.lengths))

    def gradients():
        policy.zero_grad()
        contrast.loss(buffer, np.random.default_rng(0)).loss.backward()
        return [p.grad.clone() for p in policy.encoder.parameters()]

    clean = gradients()
    assert any(gradient.abs().max() > 0 for gradient in clean)
    for i, length in enumerate(buffer.lengths):
        buffer.observations[i, length + 1 :], buffer.actions[i, length:] = 7.0, 0.9
    assert all(torch.equal(a, b) for a, b in zip(clean, gradients(), strict=True))


def test_ranking_by_value_scores_what_the_critic_thinks_of_what_was_done_and_no_padding():
    sac = agent(contrast__ranking="value").learn(300)
    buffer, policy = sac.buffer, sac.policy
    where = np.arange(4)
    buffer.lengths[:4] = (12, 3, 7, 1)
    values = sac.learner.contrast._values(buffer.sequences(buffer.windows(where, None)))
    for i, length in enumerate(buffer.lengths[:4]):
        sequence = buffer.sequences(buffer.windows(where[i : i + 1], None))
        contexts, _ = policy.momentum_encoder(*policy.sequence_input(sequence))
        features, actions = policy.features(torch.as_tensor(sequence.observations)), torch.as_tensor(sequence.actions)
        inputs = torch.cat([features[0, :length], contexts[0, :length], actions[0, :length]], -1)
        with torch.no_grad():
            q1, q2 = policy.critic_target(inputs)
        assert values[i] == pytest.approx(torch.minimum(q1, q2).mean().item(), abs=1e-5)


def test_a_contrastive_loss_reaches_the_encoder_and_nothing_else():
    sac = agent().learn(300)
    sac.policy.zero_grad()
    sac.learner.contrast.loss(sac.buffer, np.random.default_rng(0)).loss.backward()
    modules = {name.split(".")[0] for name, p in sac.policy.named_parameters() if p.grad is not None}
    assert modules == {"encoder"}


@pytest.mark.parametrize("return_steps", [1, 3])
def test_offset_and_scale_are_learning_from_rewards_that_are_lower_and_smaller(return_steps):
    config = TOY | {"env": "hopper", "method": "tesac", "learning.burn_in": 0, "learning.window": 0}
    config["learning.return_steps"] = return_steps
    report, other = (
        ContextSAC(
            "ContextPolicy", gym.make("sami-tests/HiddenSign-v0"), resolve("fast-cpu", config | more), device="cpu"
        )
        for more in ({"learning.reward_offset": 0.25, "learning.reward_scale": 0.5}, {})
    )
    for item in (report, other):
        item.learn(120)  # the warm-up
        assert item._n_updates == 0
    other.buffer.rewards -= np.float32(0.25)
    other.buffer.rewards *= np.float32(0.5)
    for item in (report, other):
        item.learner.update(item.buffer, np.random.default_rng(0), False)
    if return_steps == 1:
        assert same(weights(report), weights(other))
    first, second = weights(report), weights(other)
    assert all(torch.allclose(first[name], second[name], atol=2e-3) for name in first)
    assert not same(weights(report), weights(agent(method="tesac").learn(120)))


def test_with_a_return_of_n_steps_the_critics_estimate_counts_n_steps_later():
    sac = agent(method="tesac", learning__return_steps=3).learn(300)
    learner, buffer, rng = sac.learner, sac.buffer, np.random.default_rng(0)
    windows = buffer.windows(np.arange(8), rng)
    transitions = buffer.transitions(windows, 200, 0.0, rng, 3, learner.learning.discount)
    rewards = buffer.rewards[windows.episodes[transitions.rows]]
    for row, (step, span) in enumerate(zip(transitions.steps, transitions.spans, strict=True)):
        discounted = sum(learner.learning.discount**k * rewards[row, step + k] for k in range(span))
        assert transitions.rewards[row] == pytest.approx(discounted, abs=1e-5)
        assert learner._discounts[span].item() == pytest.approx(learner.learning.discount**span)
        assert learner._reward_weights[span].item() == pytest.approx(
            sum(learner.learning.discount**k for k in range(span))
        )
    assert set(transitions.spans) == {1, 2, 3}


def test_of_the_steps_on_one_draw_the_encoder_takes_the_first_and_the_critics_all():
    sac = agent(learning__steps_per_draw=3).learn(300)
    optimizer = sac.learner.critic_optimizer
    critic, encoder = (optimizer.state[group["params"][0]]["step"].item() for group in optimizer.param_groups)
    assert (encoder, critic) == (sac._n_updates, 3 * sac._n_updates)
    assert sac._n_updates == 15


def test_a_saved_agent_acts_alike_and_needs_no_environment(tmp_path):
    sac = agent().learn(300)
    sac.save(tmp_path / "agent.zip")
    copy = ContextSAC.load(tmp_path / "agent.zip", device="cpu")
    a_state = b_state = None
    for observation in np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32):
        a, a_state = sac.predict(observation, a_state, deterministic=True)
        b, b_state = copy.predict(observation, b_state, deterministic=True)
        assert np.array_equal(a, b)


def test_several_environments_step_side_by_side():
    several = agent(envs=3).learn(400)
    assert several._episode_num % 3 == 0
    assert set(several.task_record.by_task(SUCCESS)) == {"sign=-1", "sign=1"}


def test_callbacks_see_every_round_and_can_stop_the_run():
    stopped = agent()
    stopped.learn(10_000, Stop(200))
    assert 200 <= stopped.num_timesteps < 200 + toy.EPISODE_STEPS


def test_it_has_finished_with_the_steps_it_was_asked_for_and_their_updates_whatever_its_run_is_for():
    sac = agent(steps=200)
    sac.learn(240, Stop(240))
    assert sac.num_timesteps == 240
    assert not sac.finished  # the updates that the last round owes
    sac.learn(0, reset_num_timesteps=False)
    assert sac.finished
    assert not agent().learn(240, Stop(200)).finished


def test_updates_keep_the_configured_ratio_to_environment_steps():
    sac = agent(learning__gradient_steps=2).learn(480)
    assert sac._n_updates == (480 - 120) // 12 * 2


def test_learning_again_from_zero_owes_updates_for_the_new_steps_only():
    sac = agent().learn(240)
    before = sac._n_updates
    sac.learn(240)
    assert sac._n_updates == 2 * before == 20


def test_one_that_once_went_on_without_its_buffer_owes_updates_when_it_begins_again():
    sac = agent().learn(240)
    sac._began_at, sac._updates_before = sac.num_timesteps, sac._n_updates  # as `resume` then does
    before = sac.learn(240, reset_num_timesteps=False)._n_updates
    assert sac.learn(240)._n_updates == before + 10


def test_learning_rates_fall_linearly_to_their_share():
    learner = agent(learning__decay_from=0.5, learning__decay_to=0.1).learner
    rates = []
    for result in (0.0, 0.5, 0.75, 1.0):
        learner.set_progress(result)
        rates.append([group["lr"] for group in learner.critic_optimizer.param_groups])
    assert np.array(rates) == pytest.approx(np.outer([1, 1, 0.55, 0.1], [1e-3, 3e-4]))


def test_rollout_workers_run_without_torch_and_bring_what_in_step_collection_brings():
    parallel, in_step = agent(collection__workers=1, collection__envs=1), agent()
    parallel.learn(150)
    in_step.learn(150)
    assert (in_step.buffer.observations[0, :12, 2] == 1.0).all()
    assert (parallel.buffer.observations[0, :12, 2] == 0.0).all()
    # The first episodes use the same weights and the same seeds on either side.
    assert np.array_equal(parallel.buffer.actions[0], in_step.buffer.actions[0])
    assert np.array_equal(parallel.buffer.observations[0, :, 0], in_step.buffer.observations[0, :, 0])


def test_a_run_that_goes_on_begins_no_episode_that_a_faster_worker_brought():
    sac = agent().learn(12)
    (episode,) = sac._source().collect(False, 0)
    for index in (2, 4, 1):
        sac._store(sac.buffer, dataclasses.replace(episode, index=index))
    assert sac._source().next_index == 5


def test_a_rollout_worker_that_fails_says_why():
    config = resolve("fast-cpu", TOY | {"collection.workers": 1, "collection.envs": 1})
    broken = ContextSAC("ContextPolicy", gym.make("sami-tests/HiddenSign-v0", fail_after=3), config)
    with pytest.raises(WorkerError, match="a rollout worker failed: RuntimeError: the toy broke") as caught:
        broken.learn(500)
    assert "toy.py" in str(caught.value.__cause__)  # the rollout worker's own traceback


def test_what_it_cannot_learn_on_is_refused():
    with pytest.raises(SamiError, match="has no time limit"):
        ContextSAC("ContextPolicy", toy.HiddenSign(), resolve("fast-cpu", TOY)).learn(10)
    vec = VecMonitor(DummyVecEnv([lambda: gym.make("sami-tests/HiddenSign-v0")]))
    with pytest.raises(SamiError, match="VecMonitor; ContextSAC takes a Gymnasium environment or a DummyVecEnv"):
        ContextSAC("ContextPolicy", vec, resolve("fast-cpu", TOY))
    with pytest.raises(SamiError, match="needs a Box from -1 to 1"):
        ContextSAC("ContextPolicy", gym.make("Pendulum-v1"), resolve("fast-cpu", TOY))
    with pytest.raises(UnknownName, match="Did you mean 'satesac'"):
        agent(method="satsac")
