"""One gradient step: SAC on transitions whose context comes from whole episodes or windows, and a contrastive loss."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that torch's users know)

from sami_train.agent.contrast import Contrast
from sami_train.agent.encoders import Inference
from sami_train.agent.losses import ContrastiveLoss
from sami_train.agent.networks import Actor, TaskReadout, descend, soft_update
from sami_train.agent.policy import ContextPolicy
from sami_train.config.schema import TrainConfig
from sami_train.episodes.buffer import EpisodeBuffer, SequenceBatch, Windows


class _Batch(NamedTuple):
    """A `TransitionBatch` as tensors; same fields."""

    rows: Tensor
    steps: Tensor
    spans: Tensor
    observations: Tensor
    next_observations: Tensor
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    failure: Tensor
    true_observations: Tensor
    next_true_observations: Tensor
    recent_actions: Tensor
    next_recent_actions: Tensor


class _States(NamedTuple):
    """Both states of N transitions as network inputs: (N, F + C) for the actor, see `critic_state` for the critics."""

    state: Tensor
    """s_t, as the actor reads it."""
    critic_state: Tensor
    """s_t, as the critics read it, with gradient where the encoder learns."""
    next_state: Tensor
    """s_t+k, k steps later, as the actor reads it."""
    target_next_state: Tensor
    """s_t+k, as the critics read it, with the context that the momentum encoder infers."""


_Auxiliary = tuple[Tensor, dict[str, Tensor]]
"""The encoder's auxiliary loss, which is added to the critics' loss, and scalars for the log."""


class Learner:
    """Owns the optimisers and the losses; changes the policy in place."""

    def __init__(
        self, policy: ContextPolicy, config: TrainConfig, contrast: Contrast | None, dynamics: TaskReadout | None
    ) -> None:
        self.policy, self.contrast, self.dynamics = policy, contrast, dynamics
        self.learning, self.init, self.with_profile = config.learning, config.init, config.with_profile
        learning = self.learning
        powers = learning.discount ** torch.arange(learning.return_steps + 1, dtype=torch.float64, device=policy.device)
        self._discounts, self._reward_weights = powers.float(), (powers.cumsum(0) - powers).float()
        """gamma^k, and the sum of gamma^i over i < k, by k = 0 ... n: (n + 1,) each."""
        self.first_actor: Actor | None = None
        """Copy of the actor that its loss pulls towards, see `InitConfig.anchor`; None without an anchor."""
        self.device = policy.device
        self.noise = torch.Generator(device=self.device)
        fused = self.device.type in ("cpu", "cuda")
        self.actor_optimizer = torch.optim.Adam(policy.actor.parameters(), lr=learning.actor_rate, fused=fused)
        encoder = [*policy.encoder.parameters(), *(dynamics.parameters() if dynamics else ())]
        self.critic_optimizer = torch.optim.Adam(
            [
                {"params": list(policy.critic.parameters()), "lr": learning.critic_rate},
                {"params": encoder, "lr": learning.encoder_rate},
            ],
            fused=fused,
        )
        temperature = [policy.log_temperature]
        self.temperature_optimizer = torch.optim.Adam(temperature, lr=learning.temperature_rate, fused=fused)
        self.contrast_optimizer = (
            torch.optim.Adam(policy.encoder.parameters(), lr=contrast.config.rate, fused=fused)
            if contrast is not None and contrast.config.rate > 0
            else None
        )
        """Optimiser of the contrastive loss alone; None without this loss, or if the critics' optimiser takes it."""

    def anchor(self) -> None:
        """Make a copy of the present actor the anchor of its loss, if `InitConfig.anchor` is above 0."""
        if self.init.anchor > 0:
            self.first_actor = copy.deepcopy(self.policy.actor).requires_grad_(False)

    def set_progress(self, share: float) -> None:
        """Set the learning rates of the schedule, `share` being the fraction of the run's steps that are done."""
        cfg = self.learning
        share = min(share, 1.0)  # the last episode can end after the run's last step
        past = 0.0 if share <= cfg.decay_from else (share - cfg.decay_from) / (1.0 - cfg.decay_from)
        factor = 1.0 - past * (1.0 - cfg.decay_to)
        # The groups are looked up each time: loading an optimiser's state replaces them.
        critic, encoder = self.critic_optimizer.param_groups
        for group, rate in (
            (self.actor_optimizer.param_groups[0], cfg.actor_rate),
            (critic, cfg.critic_rate),
            (encoder, cfg.encoder_rate),
            (self.temperature_optimizer.param_groups[0], cfg.temperature_rate),
        ):
            group["lr"] = rate * factor
        if self.contrast is not None and self.contrast_optimizer is not None:
            self.contrast_optimizer.param_groups[0]["lr"] = self.contrast.config.rate * factor

    def update(
        self, buffer: EpisodeBuffer, rng: np.random.Generator, contrasting: bool, only_critics: bool = False
    ) -> dict[str, Tensor]:
        """Learn from one draw of windows: one step of the encoder, `steps_per_draw` of actor, critics and temperature.

        Args:
            buffer: the episodes to sample; it must not be empty (ReplayError).
            rng: the only source of randomness: the same state gives the same update.
            contrasting: whether to add the contrastive loss; must be False with `only_critics`.
            only_critics: whether to train the critics alone: encoder, actor and temperature cannot learn from critics
                that are still untrained.

        Returns:
            Scalars for the log, of the last step.
        """
        cfg = self.learning
        self.noise.manual_seed(int(rng.integers(2**63)))
        windows = buffer.windows(buffer.sample(cfg.batch_episodes, rng), rng)
        sequences = buffer.sequences(windows)
        x, state = self.policy.sequence_input(sequences)
        inference = self.policy.encoder.infer(x, state, self.noise)
        with torch.no_grad():
            target_contexts = self.policy.momentum_encoder(x, state)[0]  # (B, L + 1, C)
        scalars: dict[str, Tensor] = {}
        shared = contrasting and self.contrast_optimizer is None
        if only_critics or self.init.keep_encoder:
            inference = inference.detached()
        auxiliary = self._auxiliary(buffer, windows, sequences, inference)
        for _ in range(cfg.steps_per_draw):
            transitions = buffer.transitions(
                windows, cfg.batch_transitions or None, cfg.hindsight, rng, cfg.return_steps, cfg.discount
            )
            batch = _Batch(*(torch.from_numpy(array).to(self.device) for array in transitions))
            contrastive = self.contrast.loss(buffer, rng) if self.contrast is not None and shared else None
            scalars |= self._step(batch, inference, target_contexts, contrastive, auxiliary, only_critics)
            # The encoder learns once from these windows; the following steps treat its contexts as constants.
            inference, shared, auxiliary = inference.detached(), False, None
        if self.contrast is not None and self.contrast_optimizer is not None and contrasting:
            contrastive = self.contrast.loss(buffer, rng)
            if contrastive is not None:
                descend(self.contrast_optimizer, contrastive.loss)
                scalars |= _contrast_scalars(contrastive)
        soft_update(self.policy.momentum_encoder, self.policy.encoder, cfg.momentum_rate)
        return scalars

    def _auxiliary(
        self, buffer: EpisodeBuffer, windows: Windows, sequences: SequenceBatch, inference: Inference
    ) -> _Auxiliary | None:
        """Return the encoder's auxiliary loss on windows; None without one, or if the encoder does not learn."""
        losses: list[Tensor] = []
        errors: dict[str, Tensor] = {}
        estimate = self.policy.estimate_loss(sequences, inference.corrections)
        if estimate is not None:
            losses.append(self.with_profile.estimate * estimate.loss)
            errors |= {"estimate_error": estimate.loss.detach(), "arrived_error": estimate.uncorrected}
        if self.dynamics is not None and inference.contexts.requires_grad:
            where = (buffer.tasks[windows.episodes], windows.burn_in, windows.lengths)
            loss = self.dynamics.loss(inference.contexts, *(torch.from_numpy(a).to(self.device) for a in where))
            losses.append(self.learning.aux_dynamics * loss)
            errors |= {"dynamics_error": loss.detach()}
        return (torch.stack(losses).sum(), errors) if losses else None

    def _step(
        self,
        batch: _Batch,
        inference: Inference,
        target_contexts: Tensor,
        contrastive: ContrastiveLoss | None,
        auxiliary: _Auxiliary | None,
        only_critics: bool,
    ) -> dict[str, Tensor]:
        """Update all networks once (Algorithm 1, inner loop): L_RL trains phi, and L_RL + alpha L_SaNCE trains psi."""
        pair = self._states(batch, inference, target_contexts)
        temperature = self.policy.log_temperature.detach().exp()
        target = self._target(batch, pair, temperature)
        critics = self._update_critics_and_encoder(batch, inference, pair.critic_state, target, contrastive, auxiliary)
        actor: dict[str, Tensor] = {}
        if not only_critics:
            actor = self._update_actor(pair.state.detach(), pair.critic_state.detach(), temperature)
            self._update_temperature(actor["entropy"])
        soft_update(self.policy.critic_target, self.policy.critic, self.learning.critic_target_rate)
        return critics | actor

    def _states(self, batch: _Batch, inference: Inference, target_contexts: Tensor) -> _States:
        """Join the features of each state with the context inferred there, c_t = psi(tau_0:t) (section 3)."""
        rows, steps, policy = batch.rows, batch.steps, self.policy
        ahead = steps + batch.spans
        corrections = None if inference.corrections is None else inference.corrections.detach()
        now, later = (None, None) if corrections is None else (corrections[rows, steps], corrections[rows, ahead])
        features = policy.features(policy.estimate(batch.observations, now))  # (N, F)
        next_features = policy.features(policy.estimate(batch.next_observations, later))  # (N, F)
        contexts, following = inference.contexts[rows, steps], target_contexts[rows, ahead]
        return _States(
            torch.cat([features, contexts], -1),
            policy.critic_state(features, batch.true_observations, contexts, batch.recent_actions),
            torch.cat([next_features, inference.contexts[rows, ahead].detach()], -1),
            policy.critic_state(next_features, batch.next_true_observations, following, batch.next_recent_actions),
        )

    @torch.no_grad()
    def _target(self, batch: _Batch, states: _States, temperature: Tensor) -> Tensor:
        """Return r + gamma^k (min Q*(s', c*, a') - temperature * log pi(a' | s', c)), with a' of pi: (N,).

        SAC's soft policy evaluation (appendix, "Base algorithm"), k steps ahead; c* is inferred by the momentum encoder
        psi*. Entropy on the way is left out, as is the correction for actions of older policies.
        """
        cfg = self.learning
        with self._autocast():
            next_actions, next_log_prob = self.policy.actor.sample(states.next_state, self.noise)
            q1, q2 = self.policy.critic_target(torch.cat([states.target_next_state, next_actions], -1))
        alive = 1.0 - batch.terminated.float()
        following = torch.minimum(q1, q2) - temperature * next_log_prob
        rewards = (batch.rewards - cfg.reward_offset * self._reward_weights[batch.spans]) * cfg.reward_scale
        target = rewards + alive * self._discounts[batch.spans] * following
        if not cfg.clip_targets:
            return target
        lowest = -1.0 / (1.0 - cfg.discount)
        # After a failure the goal is out of reach: the value is that of a reward of -1 for ever.
        return torch.where(batch.failure, lowest, target.clamp(lowest, 0.0))

    def _update_critics_and_encoder(
        self,
        batch: _Batch,
        inference: Inference,
        state: Tensor,
        target: Tensor,
        contrastive: ContrastiveLoss | None,
        auxiliary: _Auxiliary | None,
    ) -> dict[str, Tensor]:
        """Descend on L_RL + alpha L_SaNCE, with alpha the loss coefficient (section 4.3, figure 5, Algorithm 1)."""
        cfg = self.learning
        with self._autocast():
            q1, q2 = self.policy.critic(torch.cat([state, batch.actions], -1))
        # L_RL: half the squared soft Bellman residual of both Q(s, c, a) (Haarnoja et al. 2018).
        loss = critic_loss = 0.5 * (F.mse_loss(q1, target) + F.mse_loss(q2, target))
        scalars: dict[str, Tensor] = {}
        if self.contrast is not None and contrastive is not None:
            loss = loss + self.contrast.config.coefficient * contrastive.loss
            scalars |= _contrast_scalars(contrastive)
        if inference.divergence is not None:  # PEARL's KL divergence, in place of L_SaNCE
            divergence = inference.divergence[batch.rows, batch.steps].mean()
            loss = loss + cfg.divergence_coefficient * divergence
            scalars["divergence"] = divergence.detach()
        if auxiliary is not None:
            loss = loss + auxiliary[0]
            scalars |= auxiliary[1]
        descend(self.critic_optimizer, loss, list(self.policy.encoder.parameters()), cfg.encoder_clip)
        return scalars | {"critic_loss": critic_loss.detach()}

    def _update_actor(self, state: Tensor, critic_state: Tensor, temperature: Tensor) -> dict[str, Tensor]:
        """Descend on temperature * log pi(a | s, c) - min Q(s, c, a), a of pi: SAC's soft policy improvement."""
        policy = self.policy
        policy.critic.requires_grad_(False)
        with self._autocast():
            actions, log_prob = policy.actor.sample(state, self.noise)
            q1, q2 = policy.critic(torch.cat([critic_state, actions], -1))
        loss = (temperature * log_prob - torch.minimum(q1, q2)).mean()
        if self.first_actor is not None:
            with torch.no_grad():
                first = torch.tanh(self.first_actor(state)[0])
            loss = loss + self.init.anchor * ((torch.tanh(policy.actor(state)[0]) - first) ** 2).sum(-1).mean()
        descend(self.actor_optimizer, loss)
        policy.critic.requires_grad_(True)
        return {
            "actor_loss": loss.detach(),
            "entropy": -log_prob.detach().mean(),
            "temperature": temperature,
            "value": q1.detach().mean(),
        }

    def _update_temperature(self, entropy: Tensor) -> None:
        """Descend on log temperature * (entropy - target): the temperature rises while the entropy is too low."""
        cfg, log_temperature = self.learning, self.policy.log_temperature
        descend(self.temperature_optimizer, log_temperature * (entropy - cfg.target_entropy))
        if cfg.minimum_temperature > 0:
            with torch.no_grad():
                log_temperature.clamp_(min=float(np.log(cfg.minimum_temperature)))

    def _autocast(self) -> AbstractContextManager[None]:
        kind = self.device.type
        # A new context for each use: autocast caches the cast weights, which an optimiser's step makes obsolete.
        return torch.autocast(kind, torch.bfloat16, enabled=self.learning.bf16 and kind in ("cpu", "cuda"))


def _contrast_scalars(contrastive: ContrastiveLoss) -> dict[str, Any]:
    return {f"contrast_{name}": value for name, value in contrastive._asdict().items() if name != "loss"}
