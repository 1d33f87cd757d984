"""What a motor comes to that changes nothing: to rest where effort costs, anywhere where it does not."""

import gymnasium as gym
import numpy as np
import torch

from tests.sami_train.agent.test_context_sac import agent


class WithAnIdleMotor(gym.ActionWrapper):
    """Another motor, which nothing obeys."""

    def __init__(self, env):
        super().__init__(env)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def action(self, action):
        return action[:1]


def trained(effort):
    # Nearly no reward for entropy, which would bring it to rest as well.
    return agent(
        env=WithAnIdleMotor(gym.make("sami-tests/HiddenSign-v0")),
        learning__effort=effort,
        learning__train_every=2,
        learning__initial_temperature=1e-3,
        learning__minimum_temperature=0.0,
        learning__temperature_rate=1e-9,
    ).learn(600)


def idle(agent):
    states = torch.from_numpy(agent.buffer.observations[:40].reshape(-1, 3))
    with torch.no_grad():
        seen = torch.cat([agent.policy.features(states), torch.zeros(len(states), 6)], -1)
        return agent.policy.actor.mean_action(seen)[:, 1].abs().mean().item()


def test_a_motor_that_changes_nothing_comes_to_rest_where_effort_costs():
    assert idle(trained(effort=0.3)) < 0.05 < 0.15 < idle(trained(effort=0.0))
