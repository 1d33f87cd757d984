"""The encoder and the policy in numpy: what collectors step, so that they need no torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Weights = Mapping[str, np.ndarray]
"""Arrays by name, as `ContextPolicy.numpy_weights` gives them."""

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # tanh form: exact to rounding, and no overflow for large negative inputs.
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


class NumpyPolicy:
    """Steps n episodes at once: LSTM encoder, context, squashed Gaussian actor (paper appendix).

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
        self._w = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()}
        # One product for both halves of the gates: [x, h] @ W.
        self._gates = np.ascontiguousarray(
            np.concatenate([self._w["encoder.weight_ih"], self._w["encoder.weight_hh"]], axis=1).T
        )
        self._gate_bias = self._w["encoder.bias_ih"] + self._w["encoder.bias_hh"]
        self._encoder_columns = int(weights["features.encoder_columns"])
        self._layers = sum(name.startswith("actor.weight_") for name in self._w)
        self.hidden_size = self._w["encoder.weight_hh"].shape[1]
        self.action_size = self._w["actor.log_std.weight"].shape[0]

    def reset(self) -> None:
        """Forget everything: zero state and zero previous action in every row."""
        self.hidden = np.zeros((self.rows, self.hidden_size), np.float32)
        self.cell = np.zeros((self.rows, self.hidden_size), np.float32)
        self.previous_action = np.zeros((self.rows, self.action_size), np.float32)

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Advance one step.

        Args:
            observation: flat observations, (n, D).
            noise: standard normal, (n, A), to sample the action; None for the deterministic action.

        Returns:
            actions (n, A) in [-1, 1] and contexts (n, C). The caller sets `previous_action` if it executes others.
        """
        w = self._w
        features = np.clip(
            (observation @ w["features.projection"] - w["features.mean"]) * w["features.scale"], -5.0, 5.0
        )
        seen = features[:, : self._encoder_columns]
        gates = np.concatenate([seen, self.previous_action, self.hidden], axis=1) @ self._gates + self._gate_bias
        i, f, g, o = np.split(gates, 4, axis=1)
        self.cell = _sigmoid(f) * self.cell + _sigmoid(i) * np.tanh(g)
        self.hidden = _sigmoid(o) * np.tanh(self.cell)
        context = np.maximum(self.hidden, 0.0) @ w["encoder.head.weight"].T + w["encoder.head.bias"]

        x = np.concatenate([features, context], axis=1)
        for layer in range(self._layers):
            x = np.maximum(x @ w[f"actor.weight_{layer}"].T + w[f"actor.bias_{layer}"], 0.0)
        action = x @ w["actor.mean.weight"].T + w["actor.mean.bias"]
        if noise is not None:
            log_std = np.clip(x @ w["actor.log_std.weight"].T + w["actor.log_std.bias"], LOG_STD_MIN, LOG_STD_MAX)
            action = action + np.exp(log_std) * noise
        action = np.tanh(action).astype(np.float32)
        self.previous_action = action
        return action, context
