"""The encoder and the policy in numpy: what collectors step, so that they need no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

EncoderKind = Literal["lstm", "gaussians"]
"""The LSTM of the paper, or PEARL's product of Gaussians."""
Arrays = Mapping[str, np.ndarray]
"""Weights by name."""


@dataclass(frozen=True)
class Weights:
    """All that `NumpyPolicy` needs of a policy, as `ContextPolicy.numpy_weights` gives it."""

    encoder: EncoderKind
    """Which encoder the arrays belong to."""
    encoder_columns: int
    """How many of the first features the encoder reads."""
    clip: float
    """Features are clipped to this many standard deviations."""
    arrays: Arrays


LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
SMALLEST_VARIANCE = 1e-4
"""Of one Gaussian factor of PEARL's context: a single transition must not fix it for good."""

State = tuple[np.ndarray, ...]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # tanh form: exact to rounding, and no overflow for large negative inputs.
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


class LSTM:
    """`encoders.LSTMEncoder` in numpy, for n episodes at once.

    Args:
        arrays: the policy's.
        features: how many the encoder reads.
    """

    def __init__(self, arrays: Arrays, features: int) -> None:
        # One product for both halves of the gates: [x, h] @ W.
        halves = [arrays["encoder.weight_ih"], arrays["encoder.weight_hh"]]
        self._gates = np.ascontiguousarray(np.concatenate(halves, axis=1).T)
        self._bias = arrays["encoder.bias_ih"] + arrays["encoder.bias_hh"]
        self._head, self._head_bias = arrays["encoder.head.weight"].T, arrays["encoder.head.bias"]

    def start(self, rows: int) -> State:
        """Return the state of n episodes that begin."""
        return tuple(np.zeros((2, rows, 1, len(self._bias) // 4), np.float32))

    def step(self, features: np.ndarray, action: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Return context (n, C) and next state for features (n, F), previous action (n, A) and state."""
        hidden, cell = state[0][:, 0], state[1][:, 0]
        gates = np.concatenate([features, action, hidden], axis=1) @ self._gates + self._bias
        i, f, g, o = np.split(gates, 4, axis=1)
        cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
        hidden = _sigmoid(o) * np.tanh(cell)
        return np.maximum(hidden, 0.0) @ self._head + self._head_bias, (hidden[:, None], cell[:, None])


class Gaussians:
    """`encoders.GaussianEncoder` in numpy, for n episodes at once; arguments and methods as those of `LSTM`."""

    def __init__(self, arrays: Arrays, features: int) -> None:
        self._layers = _layers(arrays, "encoder.factor")
        self._features = features

    def start(self, rows: int) -> State:
        """Return the state before any transition or observation."""
        size = len(self._layers[-1][1]) // 2
        return tuple(np.zeros((rows, n), np.float32) for n in (size, size, self._features, 1))

    def step(self, features: np.ndarray, action: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        """Return the posterior's mean (n, C), and next state."""
        precision, weighted, previous, begun = state
        x = _mlp(np.concatenate([previous, features, action], axis=1), self._layers)
        mean, spread = np.split(x, 2, axis=1)
        factor = begun / (np.logaddexp(0.0, spread) + np.float32(SMALLEST_VARIANCE))
        precision, weighted = precision + factor, weighted + factor * mean
        return weighted / (1.0 + precision), (precision, weighted, features, np.ones_like(begun))


ENCODERS: Mapping[EncoderKind, type[LSTM] | type[Gaussians]] = {"lstm": LSTM, "gaussians": Gaussians}


def _layers(arrays: Arrays, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    count = sum(key.startswith(f"{name}.weight_") for key in arrays)
    return [(arrays[f"{name}.weight_{i}"].T, arrays[f"{name}.bias_{i}"]) for i in range(count)]


def _mlp(x: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Apply linear layers with ReLU between them; none after the last."""
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight + bias
        if i < len(layers) - 1:
            x = np.maximum(x, 0.0)
    return x


class NumpyPolicy:
    """Steps n episodes at once: encoder, context, squashed Gaussian actor (paper appendix).

    Args:
        weights: see `ContextPolicy.numpy_weights`.
        rows: number of episodes n stepped together.
    """

    def __init__(self, weights: Weights, rows: int) -> None:
        self.load(weights)
        self.rows = rows
        self.reset()

    def load(self, weights: Weights) -> None:
        """Take new weights; the recurrent state stays."""
        self._w = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.arrays.items()}
        self._encoder = ENCODERS[weights.encoder](self._w, weights.encoder_columns)
        self._encoder_columns, self._clip = weights.encoder_columns, weights.clip
        self._actor = _layers(self._w, "actor")
        self.action_size = self._w["actor.log_std.weight"].shape[0]

    def reset(self) -> None:
        """Forget everything: zero state and zero previous action in every row."""
        self.state = self._encoder.start(self.rows)
        """The encoder's, (n, ...) each, shaped as `encoders` shapes it."""
        self.previous_action = np.zeros((self.rows, self.action_size), np.float32)

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Advance one step.

        Args:
            observation: flat observations, (n, D).
            noise: standard normal, (n, A), to sample the action; None for the deterministic action.

        Returns:
            actions (n, A) in [-1, 1] and contexts (n, C). The caller sets `previous_action` if it executes others.
        """
        w, clip = self._w, self._clip
        features = (observation @ w["features.projection"] - w["features.mean"]) * w["features.scale"]
        features = np.clip(features, -clip, clip)
        encoder_features = features[:, : self._encoder_columns]
        context, self.state = self._encoder.step(encoder_features, self.previous_action, self.state)
        x = np.maximum(_mlp(np.concatenate([features, context], axis=1), self._actor), 0.0)
        action = x @ w["actor.mean.weight"].T + w["actor.mean.bias"]
        if noise is not None:
            log_std = np.clip(x @ w["actor.log_std.weight"].T + w["actor.log_std.bias"], LOG_STD_MIN, LOG_STD_MAX)
            action = action + np.exp(log_std) * noise
        action = np.tanh(action).astype(np.float32)
        self.previous_action = action
        return action, context
