"""ContextPolicy: encoder, actor and critics together, and how they act from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor, nn

from .envs.catalog import FLAT_KEYS
from .features import FeatureLayout
from .networks import Actor, ContextEncoder, Features, TwinCritic


class PolicyState(NamedTuple):
    """What `predict` carries from step to step, arrays with one row an episode."""

    hidden: np.ndarray
    cell: np.ndarray
    previous_action: np.ndarray
    """The action executed last; replace it where another one was executed than predicted."""


class ContextPolicy(BasePolicy):
    """Encoder, momentum encoder, actor, critics and their targets; acts with `predict`.

    Args:
        observation_space, action_space: of the environment.
        lr_schedule: unused here (the agent owns the optimisers); part of stable-baselines3's signature.
        layout: features of the flat observation.
        hidden_size, context_size: of the encoder.
        net_arch: units of the MLPs' hidden layers.
        layer_norm: LayerNorm in the critics.
        initial_temperature: SAC's alpha at the start.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Box,
        lr_schedule: Any = None,
        *,
        layout: FeatureLayout,
        hidden_size: int = 128,
        context_size: int = 6,
        net_arch: Sequence[int] = (256, 256),
        layer_norm: bool = True,
        initial_temperature: float = 1.0,
    ) -> None:
        super().__init__(observation_space, action_space, squash_output=True)
        actions = int(np.prod(action_space.shape))
        self.layout, self.hidden_size, self.context_size, self.action_size = (
            layout,
            hidden_size,
            context_size,
            actions,
        )
        self.features = Features(layout)
        encoder_input = layout.encoder_columns + actions
        self.encoder = ContextEncoder(encoder_input, hidden_size, context_size)
        self.momentum_encoder = ContextEncoder(encoder_input, hidden_size, context_size)
        inputs = self.features.size + context_size
        self.actor = Actor(inputs, actions, net_arch)
        self.critic = TwinCritic(inputs + actions, net_arch, layer_norm)
        self.critic_target = TwinCritic(inputs + actions, net_arch, layer_norm)
        self.log_temperature = nn.Parameter(torch.tensor(float(np.log(initial_temperature))))
        self.momentum_encoder.load_state_dict(self.encoder.state_dict())
        self.critic_target.load_state_dict(self.critic.state_dict())
        for target in (self.momentum_encoder, self.critic_target):
            target.requires_grad_(False)

    def encoder_input(self, features: Tensor, previous_action: Tensor) -> Tensor:
        """What the encoder reads at each step: its share of the features, and the previous executed action."""
        return torch.cat([features[..., : self.layout.encoder_columns], previous_action], -1)

    def step(
        self, observation: Tensor, previous_action: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One deterministic step, as it is exported.

        Args:
            observation: flat, (B, D).
            previous_action: (B, A).
            hidden: of the LSTM, (B, 1, H).
            cell: of the LSTM, (B, 1, H).

        Returns:
            Action (B, A), context (B, C), next hidden and cell (B, 1, H).
        """
        (mean, _), context, hidden, cell = self._advance(observation, previous_action, hidden, cell)
        return torch.tanh(mean), context, hidden, cell

    def _advance(
        self, observation: Tensor, previous_action: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor, Tensor]:
        """As `step`, with the actor's mean and log standard deviation in place of an action."""
        features = self.features(observation)
        x = self.encoder_input(features, previous_action).unsqueeze(1)
        context, (h, c) = self.encoder(x, (hidden.transpose(0, 1), cell.transpose(0, 1)))
        context = context.squeeze(1)
        return self.actor(torch.cat([features, context], -1)), context, h.transpose(0, 1), c.transpose(0, 1)

    def _predict(self, observation: Any, deterministic: bool = False) -> Tensor:
        raise NotImplementedError("a recurrent policy acts with predict(observation, state, episode_start)")

    def predict(
        self,
        observation: np.ndarray | dict[str, np.ndarray],
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, PolicyState]:
        """Act on one observation or a batch of them (stable-baselines3's convention for recurrent policies).

        Args:
            observation: of the environment, with or without a leading batch axis.
            state: what the last call returned; None starts new episodes.
            episode_start: (n,) bool, rows that begin a new episode: their state and previous action become zero.
            deterministic: the distribution's centre instead of a sample.

        Returns:
            Actions in the action space, batched as the observation was, and the next state.
        """
        flat, batched = self._flat(observation)
        n = len(flat)
        if state is None:
            state = PolicyState(
                np.zeros((n, 1, self.hidden_size), np.float32),
                np.zeros((n, 1, self.hidden_size), np.float32),
                np.zeros((n, self.action_size), np.float32),
            )
        elif episode_start is not None:
            keep = 1.0 - np.asarray(episode_start, np.float32).reshape(n)
            state = tuple(part * keep.reshape(n, *[1] * (part.ndim - 1)) for part in state)
        hidden, cell, previous = (torch.as_tensor(part, device=self.device) for part in state)
        with torch.no_grad():
            observed = torch.as_tensor(flat, device=self.device)
            (mean, log_std), _, hidden, cell = self._advance(observed, previous, hidden, cell)
            raw = mean if deterministic else mean + log_std.exp() * torch.randn_like(mean)
            action = torch.tanh(raw).cpu().numpy()
        after = PolicyState(hidden.cpu().numpy(), cell.cpu().numpy(), action)
        scaled = self.unscale_action(action)
        return (scaled if batched else scaled[0]), after

    def _flat(self, observation: np.ndarray | dict[str, np.ndarray]) -> tuple[np.ndarray, bool]:
        if isinstance(observation, dict):
            flat = np.concatenate([np.asarray(observation[key], np.float32) for key in FLAT_KEYS], -1)
        else:
            flat = np.asarray(observation, np.float32)
        return (flat, True) if flat.ndim == 2 else (flat[None], False)

    def numpy_weights(self) -> dict[str, np.ndarray]:
        """The weights that `NumpyPolicy` needs, as arrays that share no memory with the module."""
        lstm = self.encoder.lstm
        linears = [module for module in self.actor.body.modules() if isinstance(module, nn.Linear)]
        tensors: dict[str, Any] = {
            "features.projection": self.features.projection,
            "features.mean": self.features.mean,
            "features.scale": self.features.scale,
            "encoder.weight_ih": lstm.weight_ih_l0,
            "encoder.weight_hh": lstm.weight_hh_l0,
            "encoder.bias_ih": lstm.bias_ih_l0,
            "encoder.bias_hh": lstm.bias_hh_l0,
            "encoder.head.weight": self.encoder.head.weight,
            "encoder.head.bias": self.encoder.head.bias,
            "actor.mean.weight": self.actor.mean.weight,
            "actor.mean.bias": self.actor.mean.bias,
            "actor.log_std.weight": self.actor.log_std.weight,
            "actor.log_std.bias": self.actor.log_std.bias,
        }
        for i, linear in enumerate(linears):
            tensors[f"actor.weight_{i}"], tensors[f"actor.bias_{i}"] = linear.weight, linear.bias
        weights = {name: tensor.detach().float().cpu().numpy().copy() for name, tensor in tensors.items()}
        weights["features.encoder_columns"] = np.array(self.layout.encoder_columns, np.float32)
        return weights
