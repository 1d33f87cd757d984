"""Rollouts: episode k is a function of the seed, k and the weights alone."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest

import sami_train.envs  # noqa: F401 (registers the environments)
from sami_runtime.errors import SamiError
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from sami_train.episodes.exploration import Exploration
from sami_train.episodes.numpy_policy import NumpyPolicy
from sami_train.episodes.rollout import Rollout
from tests.making.networks import small_network
from tests.sami_train.agent.test_networks import OPTIONS

SPEC = environment("panda")


def untrained(env, spec):
    import torch

    from sami_train.agent.policy import ContextPolicy

    torch.manual_seed(0)
    spaces = env.observation_space, env.action_space
    return ContextPolicy(*spaces, goal=spec.goal, network=small_network(**OPTIONS)).numpy_weights()


@pytest.fixture(scope="module")
def weights():
    env = make(SPEC)
    yield untrained(env, SPEC)
    env.close()


@pytest.fixture(scope="module")
def envs():
    envs = [gym.make("sami/PandaSkill-v0") for _ in range(3)]
    yield envs
    for env in envs:
        env.close()


def rollout(envs, weights, seed=0, **plan):
    exploration = Exploration(**plan) if plan else None
    return Rollout(envs, NumpyPolicy(weights, len(envs)), seed, exploration, SPEC.reach)


def same(a, b):
    return np.array_equal(a.observations, b.observations) and np.array_equal(a.actions, b.actions)


def test_an_episode_depends_on_seed_and_number_only(envs, weights):
    plan = {"random_action": 0.2}
    first = rollout(envs, weights, **plan).round([4, 5, 6])
    again = rollout(envs, weights, **plan)
    again.round([0, 1, 2])
    assert all(same(a, b) for a, b in zip(first, again.round([4, 5, 6]), strict=True))
    assert not same(first[0], rollout(envs, weights, seed=1, **plan).round([4, 5, 6])[0])


@pytest.mark.parametrize("where", ["reward", "observation", "first observation"])
def test_what_is_not_finite_ends_the_training_at_once(weights, where):
    """One NaN would spread to all networks, and the run would end as if nothing had happened."""

    class Broken(gym.Wrapper):
        def reset(self, **options):
            observation, info = self.env.reset(**options)
            observation["observation"][3] = np.nan if where == "first observation" else 0.0
            return observation, info

        def step(self, action):
            observation, reward, *rest = self.env.step(action)
            observation["observation"][3] = np.nan if where == "observation" else 0.0
            return observation, np.nan if where == "reward" else reward, *rest

    env = Broken(gym.make("sami/PandaSkill-v0"))
    fault = "reward" if where == "reward" else "observed number 3"
    with pytest.raises(SamiError, match=f"the environment's {fault} is nan; no network learns from that. Correct it"):
        rollout([env], weights).round([0])
    env.close()


def test_a_policy_that_diverged_is_not_blamed_on_the_environment(envs, weights):
    arrays = {name: np.full_like(array, np.nan) for name, array in weights.arrays.items()}
    with pytest.raises(SamiError, match="the policy's actions are not finite: the training diverged"):
        rollout(envs, dataclasses.replace(weights, arrays=arrays)).round([0, 1, 2])


def test_tasks_are_visited_in_turn(envs, weights):
    episodes = rollout(envs, weights).round([5, 6, 7])
    tasks = SPEC.tasks.sets["training"]
    assert [e.task for e in episodes] == [tasks[5], tasks[0], tasks[1]]
    assert [e.task_index for e in episodes] == [5, 0, 1]


def test_without_exploration_actions_are_the_policys_own(envs, weights):
    episode = rollout(envs, weights).round([0, 1, 2])[1]
    policy = NumpyPolicy(weights, 1)
    for observation, action in zip(episode.observations, episode.actions, strict=False):
        assert policy.step(observation[None])[0][0] == pytest.approx(action, abs=1e-5)


def test_a_greedy_episode_acts_as_deployed(envs, weights):
    greedy = rollout(envs, weights, greedy_episodes=1.0, random_action=0.5).round([0, 1, 2], steps_done=10)
    assert all(same(a, b) for a, b in zip(greedy, rollout(envs, weights).round([0, 1, 2]), strict=True))


def test_the_policy_is_told_the_action_that_was_executed(envs, weights):
    class Listening(NumpyPolicy):
        def step(self, observation, noise=None):
            reports.append(self.previous_action.copy())
            answer = super().step(observation, noise)
            proposed.append(answer[0].copy())
            return answer

    reports, proposed = [], []
    runner = Rollout(envs, Listening(weights, 3), 0, Exploration(random_action=0.5), SPEC.reach)
    episode = runner.round([0, 1, 2], steps_done=1)[0]
    n = len(episode)
    assert not reports[0].any()
    assert np.array_equal([row[0] for row in reports[1:n]], episode.actions[: n - 1])
    assert not np.array_equal([row[0] for row in proposed[:n]], episode.actions)


def test_warm_up_is_uniform_and_reaches_touch_the_cube(envs, weights):
    def warm_up(plan):
        runner = rollout(envs, weights, **plan)
        return [e for k in range(0, 9, 3) for e in runner.round([k, k + 1, k + 2])]

    def share_of_moves(episodes):
        return np.mean([np.linalg.norm(np.ptp(e.observations[:, 7:9], axis=0)) > 0.01 for e in episodes])

    warm = warm_up({"warmup_steps": 1000, "random_action": 0.0})
    actions = np.concatenate([e.actions for e in warm])
    assert actions.mean(0) == pytest.approx(np.zeros(4), abs=0.12)
    assert actions.std(0) == pytest.approx(np.full(4, 1 / np.sqrt(3)), abs=0.06)
    reached = warm_up({"warmup_steps": 1000, "reach_episodes": 1.0, "reach_until": 10_000, "reach_steps": (12, 13)})
    assert share_of_moves(reached) > 0.8 > share_of_moves(warm)


def test_held_random_actions_take_their_share_of_the_steps():
    spec = dataclasses.replace(environment("half-cheetah"), episode_steps=300)
    env = make(spec)
    policy = NumpyPolicy(untrained(env, spec), 1)
    for hold in ((1, 1), (1, 5), (4, 4)):
        runner = Rollout([env], policy, 0, Exploration(random_action=0.3, random_hold=hold), None)
        episodes = [e for k in range(3) for e in runner.round([k], steps_done=1)]
        repeated = np.concatenate([(np.diff(e.actions, axis=0) == 0).all(1) for e in episodes])
        # h steps held are one beginning and h - 1 repetitions
        h = sum(hold) / 2
        assert repeated.mean() == pytest.approx(0.3 * (h - 1) / h, abs=0.04)
    env.close()
