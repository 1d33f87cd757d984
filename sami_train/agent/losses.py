"""K-sample estimators of mutual information, as functions of tensors, and the losses made of them.

All three of the paper's estimators are one bound on different samples: f compares a query with one positive and with
K - 1 negatives. What sets them apart is whose trajectories those are (paper, figure 4; see `episodes.sampling`).
Keys (positives and negatives) come from the momentum encoder psi*, and carry no gradient.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class ContrastiveLoss(NamedTuple):
    """A contrastive loss and what it is made of; all scalars."""

    loss: Tensor
    bound: Tensor
    """Mean of the estimator over the queries [nats], at most log K."""
    weight: Tensor
    """Mean soft weight, at least 1."""
    log_k: float
    """log K [nats], of the K samples that there were."""


def scores(queries: Tensor, keys: Tensor, temperature: float) -> Tensor:
    """Compare by log f(q, k) = q . k / beta, with f as under equation 3: (N, E) and (M, E) to (N, M)."""
    return queries @ keys.T / temperature


def k_sample_bound(positive: Tensor, negative: Tensor, hardness: float = 0.0) -> Tensor:
    """Return log(K f+ / (f+ + sum of f-)), the bound that InfoNCE, SaNCE and Sa+InfoNCE share (equations 1 and 3).

    Args:
        positive: log f of each query and its positive, (N,).
        negative: log f of each query and its K - 1 negatives, (N, K - 1).
        hardness: negatives weigh more in the sum, the more alike they are: in proportion to f ** hardness, with a mean
            weight of 1 ("Contrastive Learning with Hard Negative Samples", Robinson et al. 2021). 0 weighs all alike.

    Returns:
        (N,) in nats, each at most log K.
    """
    if hardness:
        negative = negative + (hardness * negative.detach()).log_softmax(1) + math.log(negative.shape[1])
    similarities = torch.cat([positive.unsqueeze(1), negative], 1)  # (N, K)
    return positive - similarities.logsumexp(1) + math.log(similarities.shape[1])


def soft_weight(queries: Tensor, negatives: Tensor) -> Tensor:
    """Return max(||psi(tau+) - psi(tau-)||_2, 1) of each query (paper, equation 4): (N, E) and (M, E) to (N,).

    The distance is each query's mean distance to the negatives. It weighs the bound and is held constant for the
    gradient: differentiated too, it would reward pushing embeddings apart without end.
    """
    with torch.no_grad():
        return torch.cdist(queries, negatives).mean(1).clamp(min=1.0)


def contrastive_loss(
    queries: Tensor, positives: Tensor, negatives: Tensor, temperature: float, *, soft: bool, hardness: float = 0.0
) -> ContrastiveLoss:
    """Return what is minimised: -w I, with the soft weight w where `soft` (L_SaNCE, equation 4), else with w = 1.

    Args:
        queries: psi(tau) of trajectories that belong together, (N, E).
        positives: psi*(tau) of the same, (N, E): one for each query.
        negatives: psi*(tau) of trajectories apart from them, (K - 1, E): shared by all queries.
        temperature: beta.
        soft: whether to weigh each query by `soft_weight`.
        hardness: see `k_sample_bound`.
    """
    positive = (queries * positives).sum(-1) / temperature  # (N,)
    bound = k_sample_bound(positive, scores(queries, negatives, temperature), hardness)  # (N,)
    weight = soft_weight(queries, negatives) if soft else torch.ones_like(bound)
    log_k = math.log(len(negatives) + 1)
    return ContrastiveLoss(-(weight * bound).mean(), bound.detach().mean(), weight.mean(), log_k)
