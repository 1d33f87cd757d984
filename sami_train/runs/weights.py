"""The weights of an agent, as `--init` takes them."""

from __future__ import annotations

from pathlib import Path

from sami_train.agent.context_sac import ContextSAC
from sami_train.config.warm_start.alike import flat_signals
from sami_train.config.warm_start.weights import Weights, WeightsHeader, write_weights
from sami_train.envs.catalog import environment

TARGETS = {"momentum_encoder": "encoder", "critic_target": "critic"}
"""Networks that follow another one: what a file of weights does not hold begins as a copy of it."""


def weights_of(agent: ContextSAC, model: str = "", *, targets: bool = True) -> Weights:
    """Return an agent's weights.

    Args:
        agent: trained in an environment of the catalogue.
        model: hash of the weights of the model file that is made of it, if one is.
        targets: with the networks that follow others; without, a fine-tuning begins them as copies.
    """
    config, policy = agent.config, agent.policy
    spec = agent.environment or environment(config.env)
    header = WeightsHeader(
        env=config.env,
        method=config.method,
        observation=flat_signals(spec),
        actions=policy.action_size,
        network=config.network.model_dump(mode="json"),
        temperature=float(policy.log_temperature.detach().exp()),
        steps=agent.num_timesteps,
        model=model,
    )
    tensors = {
        name: tensor.detach().cpu().numpy()
        for name, tensor in policy.state_dict().items()
        if targets or name.split(".")[0] not in TARGETS
    }
    return Weights(header, tensors)


def keep_weights(path: Path, agent: ContextSAC, model: str = "", *, targets: bool = True) -> None:
    """Write an agent's weights, see `weights_of`."""
    write_weights(path, weights_of(agent, model, targets=targets))
