"""What contexts tell is measured against chance: labels that they carry are told, others are not."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sami_train.studies.report.mapped import FEWEST, accuracy, separability, usable

RNG = np.random.default_rng(0)


def contexts_of(labels, spread):
    """Contexts (n, 6) about a centre for each label."""
    centres = {value: RNG.normal(size=6) * spread for value in sorted(set(labels))}
    return np.stack([centres[value] + RNG.normal(size=6) for value in labels])


def test_a_label_that_contexts_carry_is_told():
    labels = [str(n % 4) for n in range(120)]
    separation = separability("mass", contexts_of(labels, 6.0), labels)
    assert separation.knn > 0.95 > separation.knn_chance_high
    assert separation.silhouette > 0.3 > separation.silhouette_chance_high
    assert separation.p < 0.01
    assert (separation.values, separation.episodes) == (4, 120)


def test_a_label_that_contexts_do_not_carry_is_not_told():
    labels = [str(n % 4) for n in range(120)]
    separation = separability("mass", RNG.normal(size=(120, 6)), labels)
    assert separation.knn <= separation.knn_chance_high + 0.05
    assert abs(separation.silhouette) < 0.05
    assert separation.p > 0.02


def test_chance_is_that_of_the_labels_as_they_are():
    """Where nine of ten episodes succeed, guessing success is right nine times: that is no knowledge."""
    labels = ["success"] * 108 + ["failure"] * 12
    separation = separability("outcome", RNG.normal(size=(120, 6)), labels)
    assert separation.knn_chance > 0.85
    assert separation.knn <= separation.knn_chance_high


def test_an_episode_is_no_neighbour_of_its_own():
    contexts = np.arange(12.0)[:, None] * [1.0, 0.0]
    assert accuracy(contexts, [str(n) for n in range(12)]) == 0.0


def test_values_of_too_few_episodes_do_not_count():
    labels = ["often"] * 20 + ["also"] * FEWEST + ["once"]
    assert usable(labels).tolist() == [True] * (20 + FEWEST) + [False]
    assert not usable(["often"] * 20 + ["once"]).any()
    assert separability("skill", RNG.normal(size=(21, 6)), ["often"] * 20 + ["once"]) is None


def test_the_same_contexts_tell_the_same_again():
    labels = [str(n % 3) for n in range(60)]
    contexts = contexts_of(labels, 1.0)
    assert separability("mass", contexts, labels) == separability("mass", contexts, labels)
