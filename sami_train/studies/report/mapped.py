"""What contexts tell: maps of them in the plane, and how well they keep apart what a label names.

The two numbers, a silhouette and the accuracy of k nearest neighbours, are of the contexts themselves, (n, C): a map
in the plane pulls apart what lies together, and would flatter both.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

NEIGHBOURS = 10
"""Of a context, of which the most common label is its guess."""
PERMUTATIONS = 200
"""Of the labels, which say what chance reaches."""
SEED = 0
FEWEST = 5
"""Episodes that a label must have to count as one."""
UMAP, TSNE = "UMAP", "t-SNE"


@dataclass(frozen=True)
class Separability:
    """How well contexts keep apart the values of one label."""

    label: str
    values: int
    """How many there are."""
    episodes: int
    knn: float
    """Share of the episodes whose nearest neighbours, without themselves, guess the value right."""
    knn_chance: float
    """The same with permuted labels, mean."""
    knn_chance_high: float
    """95th percentile of that."""
    silhouette: float
    """From -1 to 1; 0 where the values lie in each other."""
    silhouette_chance_high: float
    """95th percentile with permuted labels."""
    p: float
    """Share of the permutations that are as accurate, with itself counted."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def plane(contexts: np.ndarray, seed: int = SEED) -> dict[str, np.ndarray]:
    """Return maps of contexts (n, C) in the plane, (n, 2) each, by the method's name.

    Raises:
        ModuleNotFoundError: umap-learn or scikit-learn is not installed.
    """
    from sklearn import manifold
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings():
        # One thread for the seed's sake, which is meant; and what TensorFlow would have added.
        warnings.simplefilter("ignore")
        import umap

        neighbours = max(2, min(15, len(contexts) - 1))
        mapped = umap.UMAP(n_neighbors=neighbours, random_state=seed, n_jobs=1).fit_transform(contexts)
    perplexity = min(30.0, (len(contexts) - 1) / 3)
    with threadpool_limits(1):  # on busy cores its threads wait for one another most of the time
        scattered = manifold.TSNE(perplexity=perplexity, random_state=seed, init="pca").fit_transform(contexts)
    return {UMAP: _stretched(mapped), TSNE: _stretched(scattered)}


def _stretched(points: np.ndarray) -> np.ndarray:
    """Return the points from -1 to 1 on both axes, whose units mean nothing."""
    middle = points - (points.max(axis=0) + points.min(axis=0)) / 2
    return np.asarray(middle / np.maximum(np.abs(middle).max(axis=0), 1e-9), np.float64)


def usable(labels: Sequence[str]) -> np.ndarray:
    """Return which episodes have a label that enough others have, (n,) bool; none where only one such label is left."""
    values, counts = np.unique(list(labels), return_counts=True)
    common = values[counts >= FEWEST]
    return np.isin(list(labels), common) if len(common) > 1 else np.zeros(len(labels), bool)


def separability(label: str, contexts: np.ndarray, labels: Sequence[str], seed: int = SEED) -> Separability | None:
    """Measure how well contexts keep the values of a label apart; None where fewer than two have enough episodes.

    Args:
        label: its name.
        contexts: (n, C), of independent episodes.
        labels: a value each, (n,).
        seed: of the permutations.
    """
    from sklearn.metrics import silhouette_score

    chosen = usable(labels)
    if not chosen.any():
        return None
    contexts = contexts[chosen]
    values, codes = np.unique(np.array(list(labels))[chosen], return_inverse=True)
    distances = _distances(contexts)
    nearest = _nearest(distances)
    rng = np.random.default_rng(seed)
    permuted = [rng.permutation(codes) for _ in range(PERMUTATIONS)]
    reached = _accuracy(nearest, codes, len(values))
    chance = np.array([_accuracy(nearest, codes_permuted, len(values)) for codes_permuted in permuted])
    # A silhouette takes longer: a quarter of the permutations tell where its chance ends.
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
    """Return the accuracy of nearest neighbours of contexts (n, C) alone, see `Separability.knn`."""
    values, codes = np.unique(list(labels), return_inverse=True)
    return _accuracy(_nearest(_distances(contexts)), codes, len(values))


def _distances(contexts: np.ndarray) -> np.ndarray:
    """Return Euclidean distances (n, n), 0 between an episode and itself."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(contexts, contexts))


def _nearest(distances: np.ndarray) -> np.ndarray:
    """Return the nearest others of each, (n, k)."""
    masked = distances + np.diag(np.full(len(distances), np.inf))
    k = min(NEIGHBOURS, len(distances) - 1)
    return np.argpartition(masked, k - 1, axis=1)[:, :k]


def _accuracy(nearest: np.ndarray, codes: np.ndarray, count: int) -> float:
    votes = np.eye(count)[codes[nearest]].sum(axis=1)  # (n, values)
    # A tie goes to the more common value, which needs no luck.
    votes += np.bincount(codes, minlength=count) / (10 * len(codes))
    return float(np.mean(votes.argmax(axis=1) == codes))
