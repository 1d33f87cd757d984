"""What contrastive losses learn from trajectories that are known to tell their task, or their length alone."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from sami_train.agent.contrast import Contrast
from sami_train.agent.losses import k_sample_bound
from sami_train.agent.networks import soft_update
from sami_train.config.methods import METHODS
from sami_train.episodes.buffer import EpisodeBuffer, WindowPlan
from sami_train.episodes.episode import Episode
from sami_train.episodes.sampling import Trajectories, of_one_age
from tests.making.toy import EPISODE_STEPS, HiddenSign
from tests.sami_train.agent.test_context_sac import agent

RNG = np.random.default_rng
TASKS, STEPS = 5, 6


class ShownSign(HiddenSign):
    """Its velocity tells the task."""

    def _observation(self):
        return np.array([self.position, self.sign, 0.0], np.float32)


gym.register("sami-tests/ShownSign-v0", ShownSign, max_episode_steps=EPISODE_STEPS, disable_env_checker=True)


def episode(task, number, steps, value, rng):
    """One whose observations show a sign (two numbers, the same at each step) beside noise."""
    angle = 2.0 * np.pi * number / TASKS
    observations = np.zeros((steps + 1, 3), np.float32)
    observations[:, :2], observations[:, 2] = (np.cos(angle), np.sin(angle)), rng.normal(size=steps + 1)
    actions, rewards = rng.normal(size=(steps, 1)).astype(np.float32), np.full(steps, value / steps, np.float32)
    return Episode(0, {}, task, observations, actions, rewards, True, False, frozenset())


def lasting(*lengths, plan=None):
    """A buffer of episodes of one task, of these lengths."""
    rng, buffer = RNG(0), EpisodeBuffer(len(lengths), max(lengths), 3, 1, plan=plan)
    for steps in lengths:
        buffer.add(episode(0, 0, steps, rng.normal(), rng))
    return buffer


def learned(buffer, losses, **changes):
    """Return the mean bound of the last losses of an encoder that learns from a contrast alone, and log K."""
    torch.manual_seed(0)
    sac = agent(**changes)
    contrast = Contrast(sac.policy, METHODS[sac.config.method].estimator, sac.config.contrast)
    optimizer, rng, bounds = torch.optim.Adam(sac.policy.encoder.parameters(), lr=5e-3), RNG(0), []
    for _ in range(losses):
        if (loss := contrast.loss(buffer, rng)) is None:
            continue  # a draw of equal returns
        optimizer.zero_grad()
        loss.loss.backward()
        optimizer.step()
        soft_update(sac.policy.momentum_encoder, sac.policy.encoder, 0.05)
        bounds.append(float(loss.bound))
    return np.mean(bounds[-30:]), np.log(sac.config.contrast.trajectories // 2 + 1)


def showing(emission):
    """A buffer whose episodes of a task show each sign as often as its row says, (tasks, signs)."""
    rng, buffer = RNG(0), EpisodeBuffer(2000, STEPS, 3, 1)
    for number in range(2000):
        task = number % TASKS
        buffer.add(episode(task, rng.choice(TASKS, p=emission[task]), STEPS, rng.normal(), rng))
    return buffer


def best_bound(emission, k, draws=4000):
    """The bound [nats] of the best critic of signs, log p(positive's | query's) / p(negative's | query's)."""
    other_tasks = (1.0 - np.eye(TASKS)) @ emission / (TASKS - 1)
    of_query = (emission / emission.sum(0)).T  # (sign, task)
    ratio = torch.from_numpy(np.log(of_query @ emission) - np.log(of_query @ other_tasks))
    rng = RNG(1)
    tasks = rng.integers(TASKS, size=draws)
    signs = [np.array([rng.choice(TASKS, p=rows[task]) for task in tasks]) for rows in (emission, emission)]
    negatives = np.array([rng.choice(TASKS, size=k - 1, p=other_tasks[task]) for task in tasks])
    return float(k_sample_bound(ratio[signs[0], signs[1]], ratio[signs[0][:, None], negatives]).mean())


@pytest.mark.parametrize("keys", ["encoder", "momentum"])
def test_infonce_reaches_its_largest_bound_where_trajectories_show_their_task(keys):
    bound, log_k = learned(showing(np.eye(TASKS)), 120, method="ccm", contrast__keys=keys)
    assert bound > 0.95 * log_k


def test_infonce_reaches_what_the_best_critic_does_where_trajectories_show_their_task_now_and_then():
    emission = 0.6 * np.eye(TASKS) + 0.4 / TASKS
    bound, log_k = learned(showing(emission), 200, method="ccm", contrast__trajectories=32)
    truth = best_bound(emission, 17)
    assert 0.3 < truth < 0.5 * log_k
    assert bound == pytest.approx(truth, abs=0.12)


@pytest.mark.parametrize(("window", "keys"), [(0, "encoder"), (6, "momentum")])
def test_infonce_reaches_its_largest_bound_in_a_training_whose_observations_show_the_task(window, keys):
    """Collection, buffer, windows, the step shared with the critics, and the momentum encoder's own."""
    changes = {"learning__window": window, "learning__burn_in": window // 3, "contrast__keys": keys}
    env = gym.make("sami-tests/ShownSign-v0")
    sac = agent(env=env, method="ccm", contrast__every=1, learning__encoder_rate=1e-3, **changes).learn(2000)
    scalars = sac.contrast_record.scalars()
    assert scalars["contrast/bound"] > 0.9 * np.log(scalars["contrast/k"])


@pytest.mark.parametrize(("pairing", "counts"), [("last", True), ("prefix", True), ("one_age", False)])
def test_a_contrast_at_one_age_cannot_be_solved_by_counting_steps(pairing, counts):
    """Good episodes are short, and nothing else tells them from bad ones."""
    rng, buffer = RNG(0), EpisodeBuffer(400, 12, 3, 1)
    for number in range(400):
        buffer.add(episode(0, 0, *((4, 1.0) if number % 2 else (12, 0.0)), rng))
    bound, _ = learned(buffer, 150, method="satesac", contrast__pairing=pairing)
    assert (bound > 0.3) == counts


def test_what_ended_before_the_age_is_left_out_and_too_few_are_not_compared():
    buffer = lasting(2, 5, 9, 9, 1, 9)
    trajectories = Trajectories(np.array([1, 2, 3]), np.array([0, 4, 5]))
    ages = set()
    for seed in range(60):
        rest, window = of_one_age(trajectories, buffer, RNG(seed))
        ages.add(age := int(window.lengths[0]))
        assert all((buffer.lengths[where] >= age).all() for where in rest)
        assert set(trajectories.positives[buffer.lengths[trajectories.positives] >= age]) == set(rest.positives)
    assert ages == set(range(1, 10))
    few = Trajectories(np.array([0, 2]), np.array([4]))
    assert any(of_one_age(few, buffer, RNG(seed)) is None for seed in range(9))


def test_an_age_is_counted_from_the_start_of_an_episode_also_where_it_is_learned_from_in_windows(monkeypatch):
    sac = agent(contrast__pairing="one_age", contrast__keys="momentum")
    contrast = Contrast(sac.policy, METHODS["satesac"].estimator, sac.config.contrast)
    buffer = lasting(*[3, 12] * 20, plan=WindowPlan(5, 2, {}))
    windows, ages = [], set()
    honest = buffer.sequences
    monkeypatch.setattr(buffer, "sequences", lambda window: (windows.append(window), honest(window))[1])
    for seed in range(100):
        windows.clear()
        if contrast.loss(buffer, RNG(seed)) is not None:
            (age,) = {int(age) for window in windows for age in window.starts + window.lengths}
            ages.add(age)
            assert all((window.lengths > window.burn_in).all() for window in windows)
            assert all((buffer.lengths[window.episodes] >= age).all() for window in windows)
    assert ages == set(range(1, 13))
