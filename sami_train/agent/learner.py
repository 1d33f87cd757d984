"""One gradient step: SAC on transitions whose context comes from whole episodes or windows, and a contrastive loss."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that torch's users know)

from sami_train.agent.contrast import Contrast
from sami_train.agent.encoders import Inference
from sami_train.agent.policy import ContextPolicy
from sami_train.config.schema import LearningConfig
from sami_train.episodes.buffer import EpisodeBuffer
from sami_train.episodes.windows import Windows
from sami_train.methods.losses import ContrastiveLoss


class _Batch(NamedTuple):
    """A `TransitionBatch` as tensors; same fields."""

    rows: Tensor
    steps: Tensor
    observations: Tensor
    next_observations: Tensor
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    lost: Tensor


class Learner:
    """Owns the optimisers and the losses; changes the policy in place.

    Args:
        policy: what is trained.
        learning: hyperparameters.
        contrast: the method's contrastive loss, if it has one.
    """

    def __init__(self, policy: ContextPolicy, learning: LearningConfig, contrast: Contrast | None) -> None:
        self.policy, self.learning, self.contrast = policy, learning, contrast
        self.device = policy.device
        self.noise = torch.Generator(device=self.device)
        fused = self.device.type in ("cpu", "cuda")
        self.actor_optimizer = torch.optim.Adam(policy.actor.parameters(), lr=learning.actor_rate, fused=fused)
        self.critic_optimizer = torch.optim.Adam(
            [
                {"params": list(policy.critic.parameters()), "lr": learning.critic_rate},
                {"params": list(policy.encoder.parameters()), "lr": learning.encoder_rate},
            ],
            fused=fused,
        )
        self.temperature_optimizer = torch.optim.Adam(
            [policy.log_temperature], lr=learning.temperature_rate, fused=fused
        )

    def set_progress(self, done: float) -> None:
        """Set the learning rates for a share `done` of the run in [0, 1]."""
        cfg = self.learning
        done = min(done, 1.0)  # the last episode goes past the end
        past = 0.0 if done <= cfg.decay_from else (done - cfg.decay_from) / (1.0 - cfg.decay_from)
        left = 1.0 - past * (1.0 - cfg.decay_to)
        # The groups are looked up each time: loading an optimiser's state replaces them.
        critic, encoder = self.critic_optimizer.param_groups
        for group, rate in (
            (self.actor_optimizer.param_groups[0], cfg.actor_rate),
            (critic, cfg.critic_rate),
            (encoder, cfg.encoder_rate),
            (self.temperature_optimizer.param_groups[0], cfg.temperature_rate),
        ):
            group["lr"] = rate * left

    def update(self, buffer: EpisodeBuffer, rng: np.random.Generator, with_contrast: bool) -> dict[str, Tensor]:
        """Take gradient steps on one draw of windows: the encoder one, actor, critics and temperature `steps_per_draw`.

        Args:
            buffer: where episodes are drawn from.
            rng: the only source of randomness: the same state gives the same step.
            with_contrast: whether the contrastive loss takes part.

        Returns:
            Scalars for the log, of the last step.
        """
        self.noise.manual_seed(int(rng.integers(2**63)))
        windows = buffer.windows(buffer.sample(self.learning.batch_episodes, rng), rng)
        x, state = self.policy.sequence_input(buffer.sequences(windows))
        inference = self.policy.encoder.infer(x, state, self.noise)
        with torch.no_grad():
            target_contexts = self.policy.momentum_encoder(x, state)[0]  # (B, L + 1, C)
        scalars: dict[str, Tensor] = {}
        for _ in range(self.learning.steps_per_draw):
            batch = self._transitions(buffer, windows, rng)
            contrastive = self.contrast.loss(buffer, rng) if self.contrast is not None and with_contrast else None
            scalars |= self._step(batch, inference, target_contexts, contrastive)
            # The encoder has learned from these windows; the steps that follow take its contexts as data.
            inference, with_contrast = Inference(inference.contexts.detach(), None), False
        _soft_update(self.policy.momentum_encoder, self.policy.encoder, self.learning.momentum_rate)
        return scalars

    def _transitions(self, buffer: EpisodeBuffer, windows: Windows, rng: np.random.Generator) -> _Batch:
        cfg = self.learning
        batch = buffer.transitions(windows, cfg.batch_transitions or None, cfg.hindsight, rng)
        return _Batch(*(torch.from_numpy(array).to(self.device) for array in batch))

    def _step(
        self, batch: _Batch, inference: Inference, target_contexts: Tensor, contrastive: ContrastiveLoss | None
    ) -> dict[str, Tensor]:
        """One gradient step of all that `inference` and `contrastive` lead back to, and of actor and temperature."""
        cfg, policy = self.learning, self.policy
        rows, steps = batch.rows, batch.steps
        features = policy.features(batch.observations)  # (N, F)
        next_features = policy.features(batch.next_observations)  # (N, F)
        context = inference.contexts[rows, steps]  # (N, C), with gradient where the encoder learns
        next_context = inference.contexts[rows, steps + 1].detach()
        with torch.no_grad():
            temperature = policy.log_temperature.exp()
            with self._autocast():
                next_actions, next_log_prob = policy.actor.sample(
                    torch.cat([next_features, next_context], -1), self.noise
                )
                target_context = target_contexts[rows, steps + 1]
                q1, q2 = policy.critic_target(torch.cat([next_features, target_context, next_actions], -1))
            alive = 1.0 - batch.terminated.float()
            following = torch.minimum(q1, q2) - temperature * next_log_prob
            target = batch.rewards - cfg.reward_offset + alive * cfg.discount * following
            if cfg.clip_targets:
                target = target.clamp(-1.0 / (1.0 - cfg.discount), 0.0)
                # Nothing that follows a lost episode can reach the goal: -1 for ever.
                target = torch.where(batch.lost, -1.0 / (1.0 - cfg.discount), target)

        with self._autocast():
            q1, q2 = policy.critic(torch.cat([features, context, batch.actions], -1))
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        loss = 0.5 * critic_loss
        scalars = {}
        if self.contrast is not None and contrastive is not None:
            loss = loss + self.contrast.config.coefficient * contrastive.loss
            scalars = {f"contrast_{name}": value for name, value in contrastive._asdict().items() if name != "loss"}
        if inference.divergence is not None:
            divergence = inference.divergence[rows, steps].mean()
            loss = loss + cfg.divergence_coefficient * divergence
            scalars["divergence"] = divergence.detach()
        self.critic_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if cfg.encoder_clip > 0:
            torch.nn.utils.clip_grad_norm_(policy.encoder.parameters(), cfg.encoder_clip)
        self.critic_optimizer.step()

        policy.critic.requires_grad_(False)
        with self._autocast():
            sampled, log_prob = policy.actor.sample(torch.cat([features, context.detach()], -1), self.noise)
            q1, q2 = policy.critic(torch.cat([features, context.detach(), sampled], -1))
        actor_loss = (temperature * log_prob - torch.minimum(q1, q2)).mean()
        self.actor_optimizer.zero_grad(set_to_none=True)
        actor_loss.backward()
        self.actor_optimizer.step()
        policy.critic.requires_grad_(True)

        entropy = -log_prob.detach().mean()
        temperature_loss = policy.log_temperature * (entropy - cfg.target_entropy)
        self.temperature_optimizer.zero_grad(set_to_none=True)
        temperature_loss.backward()
        self.temperature_optimizer.step()
        if cfg.minimum_temperature > 0:
            with torch.no_grad():
                policy.log_temperature.clamp_(min=float(np.log(cfg.minimum_temperature)))
        _soft_update(policy.critic_target, policy.critic, cfg.critic_target_rate)
        return scalars | {
            "critic_loss": critic_loss.detach() / 2,
            "actor_loss": actor_loss.detach(),
            "entropy": entropy,
            "temperature": temperature,
            "value": q1.detach().mean(),
        }

    def _autocast(self) -> AbstractContextManager[None]:
        enabled = self.learning.bf16 and self.device.type == "cpu"
        # Entered anew for each use: its cache of cast weights must not outlive an optimiser's step.
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled)


@torch.no_grad()
def _soft_update(target: torch.nn.Module, source: torch.nn.Module, rate: float) -> None:
    """Target <- rate * source + (1 - rate) * target (paper, equation of the momentum encoder)."""
    torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), rate)
