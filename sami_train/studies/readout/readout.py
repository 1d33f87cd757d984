"""The readout: features of the task from a context, in numpy. It is what the graph computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sami_runtime.model.probe import PROBE, ProbedFeature

Array = NDArray[np.float32]
Wide = NDArray[np.float64]


@dataclass(frozen=True)
class Readout:
    """An MLP with one hidden layer of tanh; normalisation is folded into its weights."""

    weights: tuple[Array, Array]
    """(C, units), (units, M): a column a number, a column a part."""
    biases: tuple[Array, Array]

    def places(self, contexts: NDArray[np.floating]) -> Wide:
        """Return where features are on their scales, (N, M), for contexts (N, C), in double precision."""
        hidden = np.tanh(contexts.astype(np.float64) @ self.weights[0] + self.biases[0])
        return np.asarray(hidden @ self.weights[1] + self.biases[1], np.float64)

    def columns(self, columns: list[int]) -> Readout:
        """Return what reads some of the columns alone."""
        (first, last), (one, other) = self.weights, self.biases
        return Readout((first, np.ascontiguousarray(last[:, columns])), (one, other[columns]))


def widths(features: tuple[ProbedFeature, ...]) -> list[int]:
    """Return how many columns of a readout each feature has."""
    return [len(feature.parts) or 1 for feature in features]


def bounds(feature: ProbedFeature) -> tuple[float, float]:
    """Return the feature's range on its scale."""
    low, high = np.array([feature.low, feature.high])
    return tuple(map(float, np.log([low, high]))) if feature.logarithmic else (float(low), float(high))  # type: ignore[return-value]


def answers(readout: Readout, features: tuple[ProbedFeature, ...], contexts: NDArray[np.floating]) -> dict[str, Array]:
    """Return what the graph answers for contexts (N, C), by output.

    Args:
        readout: of these features alone.
        features: those that contexts carry, in order.
        contexts: (N, C).
    """
    estimates = {}
    places = np.split(readout.places(contexts), np.cumsum(widths(features))[:-1], axis=1)
    for feature, place in zip(features, places, strict=True):
        if not feature.parts:
            place = np.concatenate([place, place - feature.margin, place + feature.margin], axis=1)
        clipped = np.clip(place, *bounds(feature))
        estimates[PROBE + feature.name] = (np.exp(clipped) if feature.logarithmic else clipped).astype(np.float32)
    return estimates
