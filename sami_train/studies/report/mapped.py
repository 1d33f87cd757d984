"""What contexts encode: maps of contexts in the plane, and how well contexts separate the values of a label.

Both measures, a silhouette and the accuracy of k nearest neighbours, use the contexts themselves, (n, C): a map in the
plane exaggerates clusters and would inflate both.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NEIGHBOURS = 10
"""k: the most common label of a context's k nearest neighbours is its predicted label."""
PERMUTATIONS = 200
"""Number of random permutations of the labels, which estimate the accuracy of chance."""
SEED = 0
FEWEST = 5
"""Fewest episodes of a value of a label; rarer values are left out."""
UMAP, TSNE = "UMAP", "t-SNE"


@dataclass(frozen=True)
class Separability:
    """How well contexts separate the values of one label."""

    label: str
    values: int
    """Number of values."""
    episodes: int
    knn: float
    """Leave-one-out accuracy of nearest neighbours: fraction of episodes whose value they predict."""
    knn_chance: float
    """Mean accuracy with permuted labels."""
    knn_chance_high: float
    """95th percentile of the accuracy with permuted labels."""
    silhouette: float
    """Mean silhouette, from -1 to 1; 0 if the clusters of the values overlap."""
    silhouette_chance_high: float
    """95th percentile of the silhouette with permuted labels."""
    p: float
    """p of the permutation test: fraction of permutations at least as accurate, counting the true labels as one."""


def plane(contexts: np.ndarray) -> dict[str, np.ndarray]:
    """Return maps of contexts (n, C) to the plane, (n, 2) each from -1 to 1, by the method: UMAP and t-SNE.

    Raises:
        ModuleNotFoundError: umap-learn or scikit-learn is not installed.
    """
    from sklearn import manifold
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings():
        # UMAP warns that a seed needs a single thread, which is intended, and that TensorFlow is missing.
        warnings.simplefilter("ignore")
        import umap

        neighbours = max(2, min(15, len(contexts) - 1))
        mapped = umap.UMAP(n_neighbors=neighbours, random_state=SEED, n_jobs=1).fit_transform(contexts)
    perplexity = min(30.0, (len(contexts) - 1) / 3)
    with threadpool_limits(1):  # on busy cores, several threads mostly wait for each other
        scattered = manifold.TSNE(perplexity=perplexity, random_state=SEED, init="pca").fit_transform(contexts)
    return {UMAP: _stretched(mapped), TSNE: _stretched(scattered)}


def _stretched(points: np.ndarray) -> np.ndarray:
    """Return the points (n, 2) scaled to -1 to 1 on both axes: the axes of such maps have no meaningful unit."""
    middle = points - (points.max(axis=0) + points.min(axis=0)) / 2
    return np.asarray(middle / np.maximum(np.abs(middle).max(axis=0), 1e-9), np.float64)


def usable(labels: Sequence[str]) -> np.ndarray:
    """Return which episodes have a value that `FEWEST` or more have, (n,) bool; none if only one value is so common."""
    values, counts = np.unique(list(labels), return_counts=True)
    common = values[counts >= FEWEST]
    return np.isin(list(labels), common) if len(common) > 1 else np.zeros(len(labels), bool)


def separability(label: str, contexts: np.ndarray, labels: Sequence[str]) -> Separability | None:
    """Measure how well contexts separate the values of a label; None if fewer than two have `FEWEST` episodes.

    `contexts` (n, C) has one context of each of n independent episodes, `labels` (n,) their values of the label.
    """
    from sklearn.metrics import silhouette_score

    mask = usable(labels)
    if not mask.any():
        return None
    contexts = contexts[mask]
    values, codes = np.unique(np.array(list(labels))[mask], return_inverse=True)
    distances = _distances(contexts)
    nearest = _nearest(distances)
    rng = np.random.default_rng(SEED)
    permuted = [rng.permutation(codes) for _ in range(PERMUTATIONS)]
    reached = _accuracy(nearest, codes, len(values))
    chance = np.array([_accuracy(nearest, codes_permuted, len(values)) for codes_permuted in permuted])
    # A silhouette takes longer: a quarter of the permutations must do.
    silhouettes = [
        silhouette_score(distances, codes_permuted, metric="precomputed")
        for codes_permuted in permuted[: PERMUTATIONS // 4]
    ]
    return Separability(
        label=label,
        values=len(values),
        episodes=len(codes),
        knn=reached,
        knn_chance=float(chance.mean()),
        knn_chance_high=float(np.percentile(chance, 95)),
        silhouette=float(silhouette_score(distances, codes, metric="precomputed")),
        silhouette_chance_high=float(np.percentile(silhouettes, 95)),
        p=float((1 + (chance >= reached).sum()) / (1 + PERMUTATIONS)),
    )


def accuracy(contexts: np.ndarray, labels: Sequence[str]) -> float:
    """Return the leave-one-out accuracy of nearest neighbours of contexts (n, C), see `Separability.knn`."""
    values, codes = np.unique(list(labels), return_inverse=True)
    return _accuracy(_nearest(_distances(contexts)), codes, len(values))


def _distances(contexts: np.ndarray) -> np.ndarray:
    """Return Euclidean distances (n, n), 0 between an episode and itself."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(contexts, contexts))


def _nearest(distances: np.ndarray) -> np.ndarray:
    """Return the indices of each episode's k nearest other episodes, (n, k), given distances (n, n)."""
    masked = distances + np.diag(np.full(len(distances), np.inf))
    k = min(NEIGHBOURS, len(distances) - 1)
    return np.argpartition(masked, k - 1, axis=1)[:, :k]


def _accuracy(nearest: np.ndarray, codes: np.ndarray, count: int) -> float:
    votes = np.eye(count)[codes[nearest]].sum(axis=1)  # (n, values)
    # The more common value wins a tie.
    votes += np.bincount(codes, minlength=count) / (10 * len(codes))
    return float(np.mean(votes.argmax(axis=1) == codes))
