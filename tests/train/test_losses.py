"""SaNCE against arithmetic done by hand."""

import math

import pytest
import torch

from sami_train.losses import contrastive_loss, sance


def test_a_case_by_hand():
    # One query (1, 0); its positive is itself, negatives (0, 1) and (-1, 0); temperature 1.
    # f+ = e^1, f- = e^0 and e^-1, K = 3: log(3 e / (e + 1 + 1/e)).
    query = torch.tensor([[1.0, 0.0]])
    negatives = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    expected = math.log(3 * math.e / (math.e + 1 + 1 / math.e))
    assert sance(query, query, negatives, 1.0).item() == pytest.approx(expected, abs=1e-6)
    # Distances to the negatives are sqrt(2) and 2: the weight is their mean, which is above 1.
    result = contrastive_loss(query, query, negatives, 1.0, soft=True)
    weight = (math.sqrt(2) + 2) / 2
    assert result.weight.item() == pytest.approx(weight, abs=1e-6)
    assert result.loss.item() == pytest.approx(-weight * expected, abs=1e-5)


def test_equal_embeddings_tell_nothing():
    same = torch.ones(5, 3)
    result = contrastive_loss(same, same, same, 0.1, soft=True)
    assert result.bound.item() == pytest.approx(0.0, abs=1e-5)
    assert result.weight.item() == 1.0  # the weight never falls below one


@pytest.mark.parametrize("negatives", [1, 7, 63])
def test_the_bound_never_exceeds_log_k(negatives):
    torch.manual_seed(0)
    for scale in (0.1, 1.0, 30.0):
        q, p, n = (scale * torch.randn(rows, 6) for rows in (16, 16, negatives))
        assert (sance(q, p, n, 0.1) <= math.log(negatives + 1) + 1e-4).all()
    # and reaches it where positives are certain
    q = torch.tensor([[1.0, 0.0]])
    assert sance(q, q, -q.repeat(negatives, 1), 0.01).item() == pytest.approx(math.log(negatives + 1), abs=1e-4)


def test_the_order_of_negatives_does_not_matter():
    torch.manual_seed(1)
    q, p, n = torch.randn(4, 6), torch.randn(4, 6), torch.randn(9, 6)
    assert torch.allclose(sance(q, p, n, 0.1), sance(q, p, n.flip(0), 0.1), atol=1e-5)


def test_a_step_against_the_gradient_pulls_positives_and_pushes_negatives():
    torch.manual_seed(2)
    q, p, n = torch.randn(1, 6, requires_grad=True), torch.randn(1, 6), torch.randn(1, 6)
    contrastive_loss(q, p, n, 1.0, soft=True).loss.backward()
    moved = q.detach() - 0.01 * q.grad
    assert (moved @ p.T).item() > (q @ p.T).item()
    assert (moved @ n.T).item() < (q @ n.T).item()
