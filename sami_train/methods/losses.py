"""K-sample estimators of mutual information, as functions of tensors, and the losses made of them.

All three of the paper's estimators are one bound on different samples: f compares a query with one positive and with
K - 1 negatives. What sets them apart is whose trajectories those are (paper, figure 4; see `sampling`).
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
    """Log f(q, k) = q . k / beta, where f is the critic under equation 4: (N, E) and (M, E) to (N, M)."""
    return queries @ keys.T / temperature


def k_sample_bound(positive: Tensor, negative: Tensor, hardness: float = 0.0) -> Tensor:
    """log(K f+ / (f+ + sum of f-)), the bound that InfoNCE, SaNCE and Sa+InfoNCE share.

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
    everything = torch.cat([positive.unsqueeze(1), negative], 1)  # (N, K)
    return positive - everything.logsumexp(1) + math.log(everything.shape[1])


def info_nce(queries: Tensor, positives: Tensor, other_tasks: Tensor, temperature: float) -> Tensor:
    """I_InfoNCE of each query (paper, equation 1), in nats.

    Args:
        queries: psi(tau) of the current task, (N, E).
        positives: psi*(tau) of the current task, (N, E): one for each query.
        other_tasks: psi*(tau) of other tasks, (K - 1, E): shared by all queries.
        temperature: beta.

    Returns:
        (N,), each at most log K.
    """
    return k_sample_bound((queries * positives).sum(-1) / temperature, scores(queries, other_tasks, temperature))


def sance(queries: Tensor, positives: Tensor, low_return: Tensor, temperature: float, hardness: float = 0.0) -> Tensor:
    """I_SaNCE of each query (paper, equation 4), in nats.

    Args:
        queries: psi(tau+), of the current task's high returns, (N, E).
        positives: psi*(tau+), likewise, (N, E): one for each query.
        low_return: psi*(tau-), of the same task's low returns, (K - 1, E): shared by all queries.
        temperature: beta.
        hardness: see `k_sample_bound`.

    Returns:
        (N,), each at most log K.
    """
    positive = (queries * positives).sum(-1) / temperature
    return k_sample_bound(positive, scores(queries, low_return, temperature), hardness)


def sa_info_nce(queries: Tensor, positives: Tensor, own_low: Tensor, others_low: Tensor, temperature: float) -> Tensor:
    """I_Sa+InfoNCE of each query (paper, appendix "Sample size of I_Sa+InfoNCE"), in nats.

    As `sance`, with the low returns of every task: (M, E) of the current one, (K - 1 - M, E) of the others.
    """
    return sance(queries, positives, torch.cat([own_low, others_low]), temperature)


def soft_weight(queries: Tensor, negatives: Tensor) -> Tensor:
    """max(||psi(tau+) - psi(tau-)||_2, 1) of each query (paper, section 4.3): (N, E) and (M, E) to (N,).

    The distance is each query's mean distance to the negatives. It weighs the bound and is held constant for the
    gradient: differentiated too, it would reward pushing embeddings apart without end.
    """
    with torch.no_grad():
        return torch.cdist(queries, negatives).mean(1).clamp(min=1.0)


def contrastive_loss(
    queries: Tensor, positives: Tensor, negatives: Tensor, temperature: float, *, soft: bool, hardness: float = 0.0
) -> ContrastiveLoss:
    """What is minimised: -w I, with the soft weight w of section 4.3 where `soft` (the SaNCE loss), else 1.

    Args:
        queries: (N, E), see the estimators.
        positives: (N, E).
        negatives: (K - 1, E).
        temperature: beta.
        soft: whether to weigh each query by `soft_weight`.
        hardness: see `k_sample_bound`.
    """
    bound = sance(queries, positives, negatives, temperature, hardness)
    weight = soft_weight(queries, negatives) if soft else torch.ones_like(bound)
    log_k = math.log(len(negatives) + 1)
    return ContrastiveLoss(-(weight * bound).mean(), bound.detach().mean(), weight.mean(), log_k)
