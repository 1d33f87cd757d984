"""The contrastive loss of a method: draw trajectories, embed them, compare them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that torch's users know)

from sami_train.agent.policy import ContextPolicy
from sami_train.config.schema import ContrastConfig
from sami_train.episodes.buffer import EpisodeBuffer
from sami_train.episodes.windows import SequenceBatch
from sami_train.methods.estimators import Estimator
from sami_train.methods.losses import ContrastiveLoss, contrastive_loss
from sami_train.methods.ranking import rank_by


class Contrast:
    """Compares trajectories by their embeddings (paper, figure 5): queries by psi, keys by psi or its momentum psi*.

    With keys of psi* (the paper's) no gradient reaches the negatives: a step pulls the queries towards good skills, and
    takes bad ones, which the same network reads, along. Alone on a buffer, that learns and forgets in turn
    (docs/contrast.md). With keys of psi itself both sides move apart.

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
            return rank_by(config.ranking, buffer, where, rng)

        def sequences(where: np.ndarray) -> SequenceBatch:
            return buffer.sequences(buffer.windows(where, rng))

        drawn = self.estimator.strategy(buffer, config.trajectories, rng, score, config.stretch)
        if drawn is None:
            return None
        # A query's positive is another good trajectory, not the query's own embedding.
        partners = np.roll(np.arange(len(drawn.positives)), 1)
        if config.keys == "momentum":
            queries = self._embed(self.policy.encoder, sequences(drawn.positives))
            with torch.no_grad():
                keys = self.policy.momentum_encoder
                positives = self._embed(keys, sequences(drawn.positives[partners]))
                negatives = self._embed(keys, sequences(drawn.negatives))
        else:
            queries = self._embed(self.policy.encoder, sequences(drawn.positives))
            negatives = self._embed(self.policy.encoder, sequences(drawn.negatives))
            positives = queries[partners]
        return contrastive_loss(queries, positives, negatives, config.temperature, soft=self.estimator.soft)

    def _embed(self, encoder: torch.nn.Module, sequences: SequenceBatch) -> Tensor:
        contexts, _ = encoder(*self.policy.sequence_input(sequences))
        embeddings = embeddings_of(contexts, sequences.lengths)
        return F.normalize(embeddings, dim=-1) if self.config.unit_length else embeddings


def embeddings_of(contexts: Tensor, lengths: np.ndarray) -> Tensor:
    """Return the embeddings (B, C) of whole trajectories, each at its last step; padding is never read.

    Args:
        contexts: (B, L + 1, C), of trajectories padded to L steps. A trajectory is an episode, or a window of one.
        lengths: (B,) steps of each trajectory.
    """
    return contexts[np.arange(len(lengths)), torch.from_numpy(lengths)]
