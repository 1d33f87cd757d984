"""An agent that counts as trained."""

import torch


def learned(agent):
    """Return an agent whose critics have made one step, of gradients 0, so that they are stored with its weights."""
    for parameter in agent.policy.critic.parameters():
        parameter.grad = torch.zeros_like(parameter)
    agent.learner.critic_optimizer.step()
    return agent
