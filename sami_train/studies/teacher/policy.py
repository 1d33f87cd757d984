"""The teacher's networks: an actor, and a critic with separate inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

CLIP = 6.0
"""Inputs are clipped to this many standard deviations."""
LARGEST_COUNT = 2e6
"""Largest count of observations in the statistics; beyond it, old observations lose weight to new ones."""


class Normaliser(nn.Module):
    """Normalises vectors by a running mean and variance, which only `update` changes."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))
        self.register_buffer("count", torch.tensor(1e-2))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise vectors (..., size)."""
        return ((x - self.mean) * torch.rsqrt(self.variance + 1e-4)).clamp(-CLIP, CLIP)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Update the statistics with vectors (n, size)."""
        n, total = len(x), self.count + len(x)
        delta, share = x.mean(0) - self.mean, len(x) / total
        of_both = self.variance * self.count + x.var(0, unbiased=False) * n
        self.variance.copy_((of_both + delta**2 * self.count * share) / total)
        self.mean.add_(delta * share)
        self.count.copy_(total.clamp(max=LARGEST_COUNT))


class Inputs(BaseFeaturesExtractor):
    """Normalises the parts of an observation, `observation` (D) and `privileged` (P), and concatenates them."""

    def __init__(self, observation_space: spaces.Dict) -> None:
        sizes = {name: int(np.prod(space.shape or ())) for name, space in observation_space.spaces.items()}
        super().__init__(observation_space, sum(sizes.values()))
        self.normalisers = nn.ModuleDict({name: Normaliser(size) for name, size in sizes.items()})

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Return inputs (B, D + P)."""
        return torch.cat([normaliser(observations[name]) for name, normaliser in self.normalisers.items()], -1)


class Bodies(nn.Module):
    """Hidden layers of actor and critic; the critic reads all inputs, the actor the first `actor_inputs` of them."""

    def __init__(self, inputs: int, actor_inputs: int, units: int) -> None:
        super().__init__()
        self.actor_inputs = actor_inputs
        self.latent_dim_pi = self.latent_dim_vf = units
        self.actor, self.critic = _body(actor_inputs, units), _body(inputs, units)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the latents of actor and critic, (B, units) each, for inputs (B, D + P)."""
        return self.forward_actor(inputs), self.forward_critic(inputs)

    def forward_actor(self, inputs: Tensor) -> Tensor:
        """Return the actor's latents (B, units)."""
        return self.actor(inputs[..., : self.actor_inputs])

    def forward_critic(self, inputs: Tensor) -> Tensor:
        """Return the critic's latents (B, units)."""
        return self.critic(inputs)


def _body(inputs: int, units: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, units), nn.ELU(), nn.Linear(units, units), nn.ELU())


class PrivilegedPolicy(ActorCriticPolicy):
    """PPO's policy, whose critic reads privileged information, as does its actor unless it is `blind`.

    Args:
        units: units of each of the two hidden layers.
        blind: whether the actor reads only the robot's own observation, as a deployed policy without memory.
        arguments: arguments of the base class.
    """

    def __init__(self, *arguments: Any, units: int = 128, blind: bool = False, **options: Any) -> None:
        self._units, self._blind = units, blind
        super().__init__(*arguments, **{"features_extractor_class": Inputs, **options})

    def _build_mlp_extractor(self) -> None:
        assert isinstance(self.observation_space, spaces.Dict)
        observed = int(np.prod(self.observation_space["observation"].shape or ()))
        actor_inputs = observed if self._blind else self.features_dim
        self.mlp_extractor = Bodies(self.features_dim, actor_inputs, self._units)  # type: ignore[assignment]

    @torch.no_grad()
    def act(self, observation: np.ndarray, privileged: np.ndarray) -> np.ndarray:
        """Return the mean actions (n, A) for observations (n, D) and privileged information (n, P)."""
        parts = {"observation": torch.from_numpy(observation), "privileged": torch.from_numpy(privileged)}
        inputs = self.extract_features(parts)
        assert isinstance(inputs, Tensor)
        return self.action_net(self.mlp_extractor.forward_actor(inputs)).numpy()
