"""Estimators against arithmetic done by hand, against mutual information that is known, and against their own laws."""

import math

import pytest
import torch

from sami_train.agent.losses import contrastive_loss, k_sample_bound, scores, soft_weight


def bounds(queries, positives, negatives, temperature, hardness=0.0):
    """What `contrastive_loss` weighs and averages, of each query: (N,) in nats."""
    positive = (queries * positives).sum(-1) / temperature
    return k_sample_bound(positive, scores(queries, negatives, temperature), hardness)


def equation_3(queries, positives, negatives, temperature):
    """I_SaNCE of each query as the paper writes it; equation 1 and the appendix's differ in the samples alone."""
    f_positive = ((queries * positives).sum(-1) / temperature).exp()
    f_negative = (queries @ negatives.T / temperature).exp()
    k = len(negatives) + 1
    return (k * f_positive / (f_positive + f_negative.sum(1))).log()


def test_the_loss_is_what_the_paper_writes():
    torch.manual_seed(4)
    q, p, n = (torch.randn(rows, 6, dtype=torch.float64) for rows in (5, 5, 9))
    bound = equation_3(q, p, n, 0.5)
    assert torch.allclose(bounds(q, p, n, 0.5), bound)
    hard, soft = (contrastive_loss(q, p, n, 0.5, soft=soft) for soft in (False, True))
    assert hard.bound.item() == soft.bound.item() == pytest.approx(bound.mean().item())
    assert hard.loss.item() == pytest.approx(-bound.mean().item())
    distance = (q.unsqueeze(1) - n).square().sum(-1).sqrt().mean(1)
    assert soft.loss.item() == pytest.approx(-(distance.clamp(min=1.0) * bound).mean().item())


def test_a_case_by_hand():
    # One query (1, 0); its positive is itself, negatives (0, 1) and (-1, 0); temperature 1.
    # f+ = e^1, f- = e^0 and e^-1, K = 3: log(3 e / (e + 1 + 1/e)).
    query = torch.tensor([[1.0, 0.0]])
    negatives = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    expected = math.log(3 * math.e / (math.e + 1 + 1 / math.e))
    assert bounds(query, query, negatives, 1.0).item() == pytest.approx(expected, abs=1e-6)
    assert equation_3(query, query, negatives, 1.0).item() == pytest.approx(expected, abs=1e-6)
    # Distances to the negatives are sqrt(2) and 2: the weight is their mean, which is above 1.
    weight = (math.sqrt(2) + 2) / 2
    assert soft_weight(query, negatives).item() == pytest.approx(weight, abs=1e-6)
    soft = contrastive_loss(query, query, negatives, 1.0, soft=True)
    assert soft.loss.item() == pytest.approx(-weight * expected, abs=1e-5)
    hard = contrastive_loss(query, query, negatives, 1.0, soft=False)
    assert hard.loss.item() == pytest.approx(-expected, abs=1e-6)
    assert hard.log_k == pytest.approx(math.log(3))


def test_hard_negatives_by_hand():
    # f- = e^1 and e^0; with hardness 1 they weigh 2e/(e + 1) and 2/(e + 1), a mean of 1; K = 3, f+ = e^2.
    negative = torch.tensor([[1.0, 0.0]])
    weighted = (2 * math.e * math.e + 2) / (math.e + 1)
    expected = math.log(3 * math.e**2 / (math.e**2 + weighted))
    assert k_sample_bound(torch.tensor([2.0]), negative, 1.0).item() == pytest.approx(expected, abs=1e-6)


def test_a_lower_temperature_is_the_same_as_longer_embeddings():
    torch.manual_seed(0)
    q, p, n = torch.randn(4, 6), torch.randn(4, 6), torch.randn(9, 6)
    scale = math.sqrt(10.0)
    assert torch.allclose(bounds(q, p, n, 0.1), bounds(q * scale, p * scale, n * scale, 1.0), atol=1e-4)


def test_equal_embeddings_tell_nothing():
    same = torch.ones(5, 3)
    result = contrastive_loss(same, same, same, 0.1, soft=True, hardness=2.0)
    assert result.bound.item() == pytest.approx(0.0, abs=1e-5)
    assert result.weight.item() == 1.0  # the weight never falls below one


@pytest.mark.parametrize("hardness", [0.0, 1.5])
@pytest.mark.parametrize("negatives", [1, 7, 63])
def test_the_bound_never_exceeds_log_k(negatives, hardness):
    torch.manual_seed(0)
    for scale in (0.1, 1.0, 30.0):
        q, p, n = (scale * torch.randn(rows, 6) for rows in (16, 16, negatives))
        assert (bounds(q, p, n, 0.1, hardness) <= math.log(negatives + 1) + 1e-4).all()
    # and reaches it where positives are certain
    q = torch.tensor([[1.0, 0.0]])
    certain = bounds(q, q, -q.repeat(negatives, 1), 0.01, hardness)
    assert certain.item() == pytest.approx(math.log(negatives + 1), abs=1e-4)


def test_the_order_of_negatives_does_not_matter():
    torch.manual_seed(1)
    q, p, n = torch.randn(4, 6), torch.randn(4, 6), torch.randn(9, 6)
    assert torch.allclose(bounds(q, p, n, 0.1), bounds(q, p, n.flip(0), 0.1), atol=1e-5)


def test_a_step_against_the_gradient_pulls_positives_and_pushes_negatives():
    torch.manual_seed(2)
    q, p, n = torch.randn(1, 6, requires_grad=True), torch.randn(1, 6), torch.randn(1, 6)
    contrastive_loss(q, p, n, 1.0, soft=True).loss.backward()
    stepped = q.detach() - 0.01 * q.grad
    assert (stepped @ p.T).item() > (q @ p.T).item()
    assert (stepped @ n.T).item() < (q @ n.T).item()


def test_the_soft_weight_takes_no_gradient():
    torch.manual_seed(3)
    # Far apart, so that the weight is above one: with a gradient through it, it would scale unlike the bound's.
    q, p, n = (3 * torch.randn(4, 6)).requires_grad_(), torch.randn(4, 6), torch.randn(9, 6)
    loss = contrastive_loss(q, p, n, 1.0, soft=True)
    loss.loss.backward()
    soft, q.grad = q.grad.clone(), None
    (-(soft_weight(q, n) * bounds(q, p, n, 1.0)).mean()).backward()
    assert loss.weight > 1.5
    assert torch.allclose(soft, q.grad)


class CorrelatedGaussians:
    """Pairs (x, y) of standard normals in d dimensions with correlation rho: I(x; y) = -d/2 log(1 - rho^2) nats."""

    def __init__(self, information, dimensions=4):
        self.rho = math.sqrt(1.0 - math.exp(-2.0 * information / dimensions))
        self.dimensions = dimensions

    def pairs(self, count):
        x = torch.randn(count, self.dimensions, dtype=torch.float64)
        noise = torch.randn(count, self.dimensions, dtype=torch.float64)
        return x, self.rho * x + math.sqrt(1.0 - self.rho**2) * noise

    def log_ratio(self, x, y):
        """log p(y | x) / p(y), the best critic there is, summed over dimensions."""
        variance = 1.0 - self.rho**2
        return (0.5 * (y**2 - (y - self.rho * x) ** 2 / variance) - 0.5 * math.log(variance)).sum(-1)

    def bound(self, k, count):
        """The K-sample bound with that critic, averaged over `count` queries."""
        x, y = self.pairs(count)
        negatives = torch.randn(count, k - 1, self.dimensions, dtype=torch.float64)
        return k_sample_bound(self.log_ratio(x, y), self.log_ratio(x.unsqueeze(1), negatives)).mean().item()


@pytest.mark.parametrize("information", [0.5, 2.0, 5.0])
def test_with_the_best_critic_the_bound_rises_with_k_towards_the_true_information(information):
    torch.manual_seed(0)
    truth = CorrelatedGaussians(information)
    by_k = {k: truth.bound(k, 2000) for k in (2, 16, 128, 1024)}
    assert list(by_k.values()) == sorted(by_k.values())
    for k, bound in by_k.items():
        assert bound <= math.log(k) + 1e-9  # Lemma 1, its left half
        assert bound <= information + 0.1  # a lower bound of the information, but for chance
    gap = information - by_k[1024]
    assert gap < (0.05 if information <= 2.0 else 0.5)


def test_the_log_k_curse_a_large_information_needs_far_more_samples_than_a_small_one():
    # Lemma 2's use: what SaNCE estimates is smaller than what InfoNCE estimates, so K samples bound it more tightly.
    torch.manual_seed(0)
    share = {information: CorrelatedGaussians(information).bound(16, 8000) / information for information in (1.0, 6.0)}
    assert share[1.0] > 0.8
    assert share[6.0] < math.log(16) / 6.0 < 0.47


def test_lemma_1s_right_half_needs_few_samples_log_k_passes_the_information_as_k_grows():
    # log K <= I(x; y) holds for K <= exp(I) only; beyond, the information is what limits the bound.
    truth = CorrelatedGaussians(1.0)
    torch.manual_seed(0)
    assert truth.bound(64, 8000) == pytest.approx(1.0, abs=0.05)
    assert math.log(64) > 4.0


def test_lemma_2s_order_of_infonce_and_sance_is_a_matter_of_what_differs_more_tasks_or_skills():
    """Embeddings on the unit circle: the angle tells the task, or the skill; K is the same for both."""

    def estimates(task_angle, skill_angle):
        def at(angle):
            angles = torch.tensor(angle) + 0.05 * torch.randn(32)
            return torch.stack([angles.cos(), angles.sin()], 1)

        torch.manual_seed(0)
        good, partner, low, other_task = at(0.0), at(0.0), at(skill_angle), at(task_angle)
        return tuple(contrastive_loss(good, partner, bad, 0.1, soft=False).bound for bad in (other_task, low))

    infonce_bound, sance_bound = estimates(task_angle=0.2, skill_angle=1.5)
    assert infonce_bound < sance_bound  # as the lemma says
    infonce_bound, sance_bound = estimates(task_angle=1.5, skill_angle=0.2)
    assert infonce_bound > sance_bound  # and against it


def test_scores_compare_every_query_with_every_key():
    q, k = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[3.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    assert torch.equal(scores(q, k, 0.5), torch.tensor([[10.0, 8.0, 2.0], [2.0, 4.0, 0.0]]))
