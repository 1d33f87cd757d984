"""Motors that obey in no training task: a policy never moves them, whatever it learns or loads."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.networks import Actor
from sami_train.config.resolve import resolve
from sami_train.envs.catalog import environment

SMALL = {
    "env": "crippled-walker",
    "network.net_arch": [16, 16],
    "network.hidden_size": 8,
    "learning.train_every": 4,
    "learning.bf16": False,
    "exploration.warmup_steps": 40,
    "collection.episode_steps": 20,
    "collection.workers": 0,
}
DEAD, LIVING = [0, 1, 2], [3, 4, 5]


def walker(**tasks):
    env = gym.make("sami/CrippledWalker-v0", max_episode_steps=20, **tasks)
    return ContextSAC("ContextPolicy", env, resolve("fast-cpu", SMALL), device="cpu")


def means(agent):
    states = torch.randn(50, agent.policy.features.size + agent.policy.encoder.size)
    with torch.no_grad():
        return agent.policy.actor(states)[0].abs()


def test_a_motor_that_no_training_task_lets_obey_rests_and_the_others_learn():
    agent = walker()
    before = means(agent)
    agent.learn(120)
    assert (means(agent)[:, DEAD] == 0.0).all()
    assert (means(agent)[:, LIVING] > 0.0).all()
    assert agent._n_updates > 0
    assert not np.allclose(means(agent)[:, LIVING].mean(0), before[:, LIVING].mean(0))


def test_where_it_may_obey_it_learns():
    assert (means(walker(tasks="moderate"))[:, DEAD] > 0.0).all()


def test_it_rests_too_with_weights_from_where_it_did_not():
    resting, driven_actor = Actor(4, 3, (8,), resting=[1]), Actor(4, 3, (8,))
    resting.load_state_dict(driven_actor.state_dict())
    assert (resting(torch.randn(5, 4))[0][:, 1] == 0.0).all()
    assert torch.equal(resting.mean.weight[[0, 2]], driven_actor.mean.weight[[0, 2]])


@pytest.mark.parametrize(("env", "motors"), [("crippled-walker", [0, 1, 2]), ("crippled-hopper", []), ("ant", [])])
def test_the_first_task_of_training_tells_its_silent_motors(env, motors):
    tasks = environment(env).tasks
    assert tasks.silent(tasks.sets["training"][0]) == motors


def test_a_crippled_leg_silences_both_of_its_motors():
    assert environment("crippled-ant").tasks.silent({"crippled": [3, 0]}) == [0, 1, 2, 3]
