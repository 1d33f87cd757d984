"""The contrastive loss of a method: draw trajectories, embed them, compare them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that torch's users know)

from sami_train.agent.policy import ContextPolicy
from sami_train.config.schema import ContrastConfig
from sami_train.episodes.buffer import EpisodeBuffer, SequenceBatch
from sami_train.methods.losses import ContrastiveLoss, contrastive_loss
from sami_train.methods.methods import Estimator
from sami_train.methods.sampling import rank_by


class Contrast:
    """Compares trajectories by their embeddings (paper, figure 5): queries by psi, keys by psi or its momentum psi*.

    With keys of psi* (the paper's) no gradient reaches the negatives: a step pulls the queries towards good skills, and
    takes bad ones, which the same network reads, along. Alone on a buffer, that learns and forgets in turn
    (docs/results/contrast.md). With keys of psi itself both sides move apart.

    Args:
        policy: whose encoders these are.
        estimator: which trajectories are compared.
        config: hyperparameters.
    """

    def __init__(self, policy: ContextPolicy, estimator: Estimator, config: ContrastConfig) -> None:
        self.policy, self.estimator, self.config = policy, estimator, config

    def loss(self, buffer: EpisodeBuffer, rng: np.random.Generator) -> ContrastiveLoss | None:
        """Return the loss on newly drawn trajectories; its gradient reaches psi alone.

        Returns:
            None while the buffer holds nothing to compare: a single task for InfoNCE; for SaNCE only equal scores, or
            in the draw a single one above the others.
        """
        config = self.config

        def score(where: np.ndarray) -> np.ndarray:
            if config.ranking == "value":
                return self._values(sequences(where))
            return rank_by(config.ranking, buffer, where, rng)

        def sequences(where: np.ndarray) -> SequenceBatch:
            return buffer.sequences(buffer.windows(where, rng))

        drawn = self.estimator.strategy(buffer, config.trajectories, rng, score, config.stretch)
        if drawn is None:
            return None
        # A query's positive is another good trajectory, not the query's own embedding.
        partners = np.roll(np.arange(len(drawn.positives)), 1)
        if config.keys == "momentum":
            queries = self._embed(self.policy.encoder, sequences(drawn.positives), rng)
            with torch.no_grad():
                keys = self.policy.momentum_encoder
                positives = self._embed(keys, sequences(drawn.positives[partners]), rng)
                negatives = self._embed(keys, sequences(drawn.negatives), rng)
        else:
            queries = self._embed(self.policy.encoder, sequences(drawn.positives), rng)
            negatives = self._embed(self.policy.encoder, sequences(drawn.negatives), rng)
            positives = queries if config.pairing == "all_steps" else queries[partners]
        if config.pairing == "all_steps":
            # As many positives as there are queries: the partners' steps, in random order and repeated as needed.
            positives = positives[rng.permutation(np.arange(len(queries)) % len(positives))]
        return contrastive_loss(
            queries, positives, negatives, config.temperature, soft=self.estimator.soft, hardness=config.hardness
        )

    def _embed(self, encoder: torch.nn.Module, sequences: SequenceBatch, rng: np.random.Generator) -> Tensor:
        contexts, _ = encoder(*self.policy.sequence_input(sequences))
        embeddings = embeddings_of(contexts, sequences.lengths, self.config.pairing, rng)
        return F.normalize(embeddings, dim=-1) if self.config.unit_length else embeddings

    @torch.no_grad()
    def _values(self, sequences: SequenceBatch) -> np.ndarray:
        """Return the critics' mean value of what each trajectory did, (B,)."""
        policy = self.policy
        contexts, corrections, _ = policy.momentum_encoder.heads(*policy.sequence_input(sequences))
        observations, true, recent, actions = (
            torch.from_numpy(array).to(policy.device)
            for array in (
                sequences.observations,
                sequences.true_observations,
                sequences.recent_actions,
                sequences.actions,
            )
        )
        state = policy.critic_state(policy.features(policy.believed(observations, corrections)), true, contexts, recent)
        done = torch.from_numpy(np.arange(actions.shape[1]) < sequences.lengths[:, None]).to(policy.device)  # (B, L)
        q1, q2 = policy.critic_target(torch.cat([state[:, :-1], actions], -1))
        return ((torch.minimum(q1, q2) * done).sum(1) / done.sum(1)).cpu().numpy()


def embeddings_of(contexts: Tensor, lengths: np.ndarray, pairing: str, rng: np.random.Generator) -> Tensor:
    """Return the embeddings that stand for trajectories; padding never does.

    Args:
        contexts: (B, L + 1, C), of episodes padded to L steps.
        lengths: (B,) steps of each.
        pairing: "last": the whole trajectory, one embedding (B, C). "prefix": the first steps of each, as many as
            chance says, (B, C). "all_steps": every prefix of every trajectory, (sum of lengths, C).
        rng: draws the prefixes.
    """
    if pairing == "all_steps":
        steps = np.arange(contexts.shape[1])
        return contexts[torch.from_numpy((steps > 0) & (steps <= lengths[:, None])).to(contexts.device)]
    steps = lengths if pairing == "last" else rng.integers(1, lengths + 1)
    return contexts[np.arange(len(lengths)), torch.from_numpy(steps)]
