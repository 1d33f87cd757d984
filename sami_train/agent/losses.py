"""K-sample estimators of mutual information, as functions of tensors, and the contrastive losses made of them.

The paper's three estimators compute the same bound on different samples: f compares a query with one positive and with
K - 1 negatives. They differ in which trajectories these are (paper, figure 4; see `episodes.sampling`). Positives and
negatives are the keys; in the paper the momentum encoder psi* embeds them, and they get no gradient (see `contrast`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class ContrastiveLoss(NamedTuple):
    """A contrastive loss and its parts, all scalars."""

    loss: Tensor
    bound: Tensor
    """Mean of the estimator over the queries [nats], at most log K."""
    weight: Tensor
    """Mean soft weight, at least 1."""
    log_k: float
    """log K [nats], with K the number of samples that were compared."""


def scores(queries: Tensor, keys: Tensor, temperature: float) -> Tensor:
    """Return log f(q, k) = q . k / beta (f as under equation 3), (N, M), of queries (N, E) and keys (M, E)."""
    return queries @ keys.T / temperature


def k_sample_bound(positive: Tensor, negative: Tensor, hardness: float = 0.0) -> Tensor:
    """Return log(K f+ / (f+ + sum of f-)), the bound that InfoNCE, SaNCE and Sa+InfoNCE share (equations 1 and 3).

    Args:
        positive: log f of each query and its positive, (N,).
        negative: log f of each query and its K - 1 negatives, (N, K - 1).
        hardness: each negative gets a weight proportional to f ** hardness, with mean 1, so that those most similar to
            the query count most ("Contrastive Learning with Hard Negative Samples", Robinson et al. 2021). 0: equal.

    Returns:
        (N,) in nats, each at most log K.
    """
    if hardness:
        negative = negative + (hardness * negative.detach()).log_softmax(1) + math.log(negative.shape[1])
    similarities = torch.cat([positive.unsqueeze(1), negative], 1)  # (N, K)
    return positive - similarities.logsumexp(1) + math.log(similarities.shape[1])


def soft_weight(queries: Tensor, negatives: Tensor) -> Tensor:
    """Return max(||psi(tau+) - psi(tau-)||_2, 1) of each query (paper, equation 4): (N, E) and (M, E) to (N,).

    The distance is each query's mean distance to the negatives. It is a weight of the bound without a gradient: with
    one, the loss would push embeddings apart without limit.
    """
    with torch.no_grad():
        return torch.cdist(queries, negatives).mean(1).clamp(min=1.0)


def contrastive_loss(
    queries: Tensor, positives: Tensor, negatives: Tensor, temperature: float, *, soft: bool, hardness: float = 0.0
) -> ContrastiveLoss:
    """Return the loss -w I to minimise, with w the soft weight if `soft` (L_SaNCE, equation 4), and 1 otherwise.

    Args:
        queries: psi(tau) of the positive trajectories, (N, E).
        positives: psi*(tau) of one other positive trajectory for each query, (N, E).
        negatives: psi*(tau) of the negative trajectories, (K - 1, E), which all queries share.
        temperature: beta.
        soft: whether to weight each query by `soft_weight`.
        hardness: see `k_sample_bound`.
    """
    positive = (queries * positives).sum(-1) / temperature  # (N,)
    bound = k_sample_bound(positive, scores(queries, negatives, temperature), hardness)  # (N,)
    weight = soft_weight(queries, negatives) if soft else torch.ones_like(bound)
    log_k = math.log(len(negatives) + 1)
    return ContrastiveLoss(-(weight * bound).mean(), bound.detach().mean(), weight.mean(), log_k)
