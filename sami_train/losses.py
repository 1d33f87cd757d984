"""Contrastive losses as functions of tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class SaNCE(NamedTuple):
    """The soft SaNCE loss and what it is made of."""

    loss: Tensor
    """Scalar: minus the weighted bound."""
    bound: Tensor
    """Scalar, I_SaNCE in nats (equation 4): a lower bound on the mutual information, at most log K."""
    weight: Tensor
    """Scalar: mean soft weight, at least 1."""


def sance_bound(queries: Tensor, positives: Tensor, negatives: Tensor, temperature: float) -> Tensor:
    """I_SaNCE of each query (paper, equation 4), in nats.

    With f(x, y) = exp(x . y / temperature) and K = 1 + M samples, log(K f(q, p) / (f(q, p) + sum f(q, n))).

    Args:
        queries: psi(tau+), (N, E).
        positives: psi*(tau+), (N, E): one for each query.
        negatives: psi*(tau-), (M, E): shared by all queries.
        temperature: beta.

    Returns:
        (N,), each at most log K.
    """
    positive = (queries * positives).sum(-1, keepdim=True) / temperature  # (N, 1)
    negative = queries @ negatives.T / temperature  # (N, M)
    logits = torch.cat([positive, negative], 1)  # (N, K)
    log_k = torch.log(torch.tensor(float(logits.shape[1]), device=logits.device))
    return positive.squeeze(1) - logits.logsumexp(1) + log_k


def sance(queries: Tensor, positives: Tensor, negatives: Tensor, temperature: float) -> SaNCE:
    """Soft SaNCE loss (paper, section 4.3): -max(||psi(tau+) - psi(tau-)||_2, 1) I_SaNCE.

    The distance is each query's mean distance to the negatives. It weighs the bound and is held constant for the
    gradient: differentiated too, it would reward pushing embeddings apart without end.

    Args and shapes as `sance_bound`.
    """
    bound = sance_bound(queries, positives, negatives, temperature)
    with torch.no_grad():
        weight = torch.cdist(queries, negatives).mean(1).clamp(min=1.0)  # (N,)
    return SaNCE(-(weight * bound).mean(), bound.mean().detach(), weight.mean())
