"""ContextPolicy: encoder, actor and critics in one module, with the forward pass of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor, nn

from sami_runtime.errors import SamiError
from sami_train.agent.encoders import GaussianEncoder, HistoryEncoder, LSTMEncoder, NoEncoder, State, ToldEncoder
from sami_train.agent.networks import CLIP, Actor, EstimateLoss, Features, Present, TwinCritic, feature_layout
from sami_train.config.schema import NetworkConfig
from sami_train.envs.layout import flat_size, flatten
from sami_train.envs.measure import Goal
from sami_train.envs.task_numbers import TaskCode
from sami_train.episodes.buffer import SequenceBatch
from sami_train.episodes.exploration import WithProfile
from sami_train.episodes.numpy_policy import EncoderKind, NumpyWeights

AnyEncoder = LSTMEncoder | GaussianEncoder | NoEncoder | HistoryEncoder | ToldEncoder


class ContextPolicy(BasePolicy):
    """Encoder, momentum encoder, actor, critics and their targets; acts with `predict`.

    Args:
        observation_space, action_space: of the environment.
        network: shapes of the networks.
        goal: columns of the goal in the flat observation; None if the environment has no goal.
        encoder: its kind, see `encoders`.
        task_input: the code that makes the task an input, for the oracle alone.
        initial_temperature: SAC's alpha at the start.
        estimated: columns of the flat observation, by signal, whose present the encoder estimates for the actor.
        with_profile: whether the critics read the true state, and how many (K) of the most recent executed actions.
        privileged: P, the last numbers of the true state, which are no part of any observation.
        resting: columns of the action whose mean stays 0, see `Actor`.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Box,
        *,
        network: NetworkConfig,
        goal: Goal | None = None,
        encoder: EncoderKind = "lstm",
        task_input: TaskCode | None = None,
        initial_temperature: float = 1.0,
        estimated: Sequence[Sequence[int]] | None = None,
        with_profile: WithProfile | None = None,
        privileged: int = 0,
        resting: Sequence[int] = (),
    ) -> None:
        super().__init__(observation_space, action_space, squash_output=True)
        actions = int(np.prod(action_space.shape))
        self.layout = feature_layout(flat_size(observation_space), goal, network)
        self.action_size, self._history_steps = actions, network.history_steps
        self.task_input = task_input
        options = with_profile or WithProfile()
        self.features, self.privileged_critic = Features(self.layout), options.privileged_critic
        privileged = privileged if options.privileged_critic else 0
        self.privileged = Features(feature_layout(privileged, None, network)) if privileged else None
        self.present = None if estimated is None else Present(self.features, estimated)

        def make_encoder() -> AnyEncoder:
            columns = self.layout.encoder_columns
            if encoder == "gaussians":
                return GaussianEncoder(columns, actions, network.context_size, network.encoder_units)
            if encoder == "none":
                return NoEncoder()
            if encoder == "history":
                return HistoryEncoder(columns, actions, network.history_steps)
            if encoder == "told":
                assert task_input is not None
                return ToldEncoder(task_input.size)
            corrections = self.present.size if self.present else 0
            return LSTMEncoder(columns, actions, network.hidden_size, network.context_size, corrections)

        self.encoder, self.momentum_encoder = make_encoder(), make_encoder()
        self.context_size = self.encoder.size if self.encoder.infers else 0
        """Size C of the context that the policy outputs; 0 if the encoder infers none."""
        inputs = self.features.size + self.encoder.size
        self.actor = Actor(inputs, actions, network.net_arch, resting)
        critic_size = inputs + actions * (options.critic_actions + 1) + (self.privileged.size if self.privileged else 0)
        self.critic = TwinCritic(critic_size, network.net_arch, network.layer_norm)
        self.critic_target = TwinCritic(critic_size, network.net_arch, network.layer_norm)
        self.log_temperature = nn.Parameter(torch.tensor(float(np.log(initial_temperature))))
        self.momentum_encoder.load_state_dict(self.encoder.state_dict())
        self.critic_target.load_state_dict(self.critic.state_dict())
        for target in (self.momentum_encoder, self.critic_target):
            target.requires_grad_(False)

    def encoder_input(self, features: Tensor, previous_action: Tensor) -> Tensor:
        """Return the encoder's input, (..., columns + A): the first features, and the previous executed action."""
        return torch.cat([features[..., : self.layout.encoder_columns], previous_action], -1)

    def sequence_input(self, sequences: SequenceBatch) -> tuple[Tensor, State | None]:
        """Return the encoder's input over windows, (B, L + 1, columns + A), and its state before each; None is zero."""

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(self.device)

        previous = torch.cat([tensor(sequences.previous_action).unsqueeze(1), tensor(sequences.actions)], 1)
        x = self.encoder_input(self.features(tensor(sequences.observations)), previous)
        return x, tuple(tensor(part) for part in sequences.state) or None

    def step(self, observation: Tensor, previous_action: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Take the deterministic step that export traces: observation (B, D), previous action (B, A), states (B, ...).

        Returns:
            Action (B, A), context (B, C) if the encoder infers one, the estimated signals (B, size), then the encoder's
            next state.
        """
        (mean, _), context, estimated, state = self._advance(observation, previous_action, state)
        return torch.tanh(mean), *((context,) if self.context_size else ()), *estimated, *state

    def estimate(self, observations: Tensor, corrections: Tensor | None) -> Tensor:
        """Return the actor's observation (..., D): as it arrived, or corrected (..., E) to estimate the present."""
        if self.present is None or corrections is None:
            return observations
        return self.present(observations, self.present.estimate(self.features, observations, corrections))

    def estimate_loss(self, sequences: SequenceBatch, corrections: Tensor | None) -> EstimateLoss | None:
        """Return the loss of the estimated present over windows; None without estimates or without their gradient."""
        if self.present is None or corrections is None or not corrections.requires_grad:
            return None
        observed, true = sequences.observations, sequences.true_observations
        arrays = (observed, true[..., : observed.shape[-1]], sequences.burn_in, sequences.lengths)
        return self.present.loss(self.features, corrections, *(torch.from_numpy(a).to(self.device) for a in arrays))

    def critic_state(self, actor_features: Tensor, true: Tensor, contexts: Tensor, recent_actions: Tensor) -> Tensor:
        """Return the critics' input beside the action: features, contexts (..., C), recent actions (..., K A).

        The features are the actor's, (..., F), or with `privileged_critic` those of the true observation, the first D
        numbers of the true state (..., D + P); features of the P privileged numbers then follow the actions.
        """
        size = len(self.features.projection)
        features = self.features(true[..., :size]) if self.privileged_critic else actor_features
        privileged = [self.privileged(true[..., size:])] if self.privileged else []
        return torch.cat([features, contexts, recent_actions, *privileged], -1)

    def _advance(
        self, observation: Tensor, previous_action: Tensor, state: State
    ) -> tuple[tuple[Tensor, Tensor], Tensor, tuple[Tensor, ...], State]:
        """Return as `step`, but the actor's mean and log standard deviation in place of the action."""
        features = self.features(observation)
        estimated: tuple[Tensor, ...] = ()
        x = self.encoder_input(features, previous_action).unsqueeze(1)
        context, corrections, state = self.encoder.heads(x, state)
        context = context.squeeze(1)
        if self.present is not None and corrections is not None:
            # Split by signal and joined again, so that the action depends on the file's outputs: see `PolicyHead`.
            estimated = self.present.estimate(self.features, observation, corrections.squeeze(1))
            features = self.features(self.present(observation, estimated))
        inputs = torch.cat([features, context], -1) if self.encoder.size else features
        return self.actor(inputs), context, estimated, state

    def _predict(self, observation: Any, deterministic: bool = False) -> Tensor:
        raise NotImplementedError("a recurrent policy acts with predict(observation, state, episode_start)")

    def predict(
        self,
        observation: np.ndarray | dict[str, np.ndarray],
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Act on one observation or a batch of them (stable-baselines3's convention for recurrent policies).

        Args:
            observation: of the environment, with or without a leading batch axis.
            state: what the last call returned; None starts new episodes.
            episode_start: (n,) bool, rows that begin a new episode: their state and previous action become zero.
            deterministic: whether to return the squashed mean instead of a sample.

        Returns:
            Actions in the action space, batched as the observation was, and the next state: the encoder's state, then
            this action. If another action is executed, the caller must put it there.

        Raises:
            SamiError: the policy is an oracle, and `state`, which holds its task, is missing.
        """
        if self.task_input is not None and (state is None or (episode_start is not None and np.any(episode_start))):
            raise SamiError(
                "an oracle reads the task, which predict() does not know. Evaluate it with sami eval --run RUN, or "
                "pass predict() a state: (task_input.encode(tasks), zeros for the previous action)."
            )
        flat = flatten(observation)
        batched = flat.ndim == 2
        if not batched:
            flat = flat[None]
        n = len(flat)
        if state is None:
            shapes = (*self.encoder.state.values(), (self.action_size,))
            state = tuple(np.zeros((n, *shape), np.float32) for shape in shapes)
        elif episode_start is not None:
            keep = 1.0 - np.asarray(episode_start, np.float32).reshape(n)
            state = tuple(part * keep.reshape(n, *[1] * (part.ndim - 1)) for part in state)
        with torch.no_grad():
            observed, *encoder, previous = (torch.as_tensor(part, device=self.device) for part in (flat, *state))
            (mean, log_std), _, _, after = self._advance(observed, previous, tuple(encoder))
            raw = mean if deterministic else mean + log_std.exp() * torch.randn_like(mean)
            action = torch.tanh(raw).cpu().numpy()
        state = (*(part.cpu().numpy() for part in after), action)
        scaled = self.unscale_action(action)
        return (scaled if batched else scaled[0]), state

    def numpy_weights(self) -> NumpyWeights:
        """Return copies of the weights that `NumpyPolicy` needs."""
        linears = [module for module in self.actor.body.modules() if isinstance(module, nn.Linear)]
        tensors: dict[str, Any] = {f"features.{n}": getattr(self.features, n) for n in ("projection", "mean", "scale")}
        for name, head in (("mean", self.actor.mean), ("log_std", self.actor.log_std)):
            tensors |= {f"actor.{name}.weight": head.weight, f"actor.{name}.bias": head.bias}
        tensors |= {f"encoder.{name}": tensor for name, tensor in self.encoder.arrays().items()}
        if self.present is not None:
            tensors["present.place"] = self.present.unit(self.features)[:, None] * self.present.place
        for i, linear in enumerate(linears):
            tensors[f"actor.weight_{i}"], tensors[f"actor.bias_{i}"] = linear.weight, linear.bias
        arrays = {name: tensor.detach().float().cpu().numpy().copy() for name, tensor in tensors.items()}
        return NumpyWeights(
            self.encoder.kind,
            self.layout.encoder_columns,
            CLIP,
            arrays,
            history_steps=self._history_steps,
            task_input=self.task_input,
        )
