"""The forward model: how observations change within a period. It is what the graph computes, in numpy.

An MLP with two hidden layers of tanh, which bound what it can say wherever it is asked. Normalisation is folded into
its weights; a signal that never changed by itself, such as the goal, has weights of zero and stays to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Wide = NDArray[np.float64]

LAYERS = 3


@dataclass(frozen=True)
class ForwardModel:
    """Predicts o_(t+1) - o_t from o_t, the action that acts within the period, the one before, and the context."""

    weights: tuple[Array, ...]
    """(inputs, units), (units, units), (units, D)."""
    biases: tuple[Array, ...]
    """Of each layer."""

    def change(self, observation: Wide, action: Array, before: Array, context: Array) -> Wide:
        """Return the change within a period, (N, D), computed in double precision.

        Args:
            observation: (N, D), the signals end to end in the contract's order.
            action: (N, A), as executed.
            before: (N, A): the one of the period before.
            context: (N, C).
        """
        x: Wide = np.concatenate([observation, action, before, context], axis=1, dtype=np.float64)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.tanh(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]

    def ahead(self, observation: Array, age: NDArray[Any], actions: Sequence[Array], context: Array) -> Array:
        """Return what the present is like, (N, D).

        Step k of K goes from k periods ago to k - 1 periods ago. A number that is younger takes a part of it, or none:
        of one that is 1.5 periods old, the second step counts half.

        Args:
            observation: (N, D) as it arrived.
            age: (N, D): how old each number is [periods].
            actions: K + 1 of (N, A), the one that was executed last first.
            context: (N, C), of the step before.
        """
        x: Wide = observation.astype(np.float64)
        for k in range(len(actions) - 1, 0, -1):
            share: Wide = np.clip(age.astype(np.float64) - (k - 1), 0.0, 1.0)
            x = x + share * self.change(x, actions[k - 1], actions[k], context)
        return x.astype(np.float32)
