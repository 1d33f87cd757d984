"""The encoder and the actor in numpy, so that rollout workers need no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.task_numbers import TaskCode
from sami_train.envs.tasks import Task

EncoderKind = Literal["lstm", "gaussians", "none", "history", "told"]
"""The paper's LSTM, PEARL's product of Gaussians; or a baseline's input in place of a context: nothing, the last steps
unchanged, or (the oracle's) the task itself."""
Arrays = Mapping[str, np.ndarray]
"""Weights by name."""


@dataclass(frozen=True)
class NumpyWeights:
    """The weights and settings of a policy that `NumpyPolicy` needs; `ContextPolicy.numpy_weights` returns them."""

    encoder: EncoderKind
    """The kind of encoder that the arrays belong to."""
    encoder_columns: int
    """How many of the first features the encoder reads."""
    clip: float
    """Features are clipped to this many standard deviations."""
    arrays: Arrays
    history_steps: int = 0
    """Number k of steps that the history encoder outputs; other encoders ignore it."""
    task_input: TaskCode | None = None
    """The code that makes the task an input, for the oracle alone."""

    @property
    def actions(self) -> int:
        """Size of the action, A."""
        return int(self.arrays["actor.log_std.weight"].shape[0])


LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
SMALLEST_VARIANCE = 1e-4
"""Smallest variance of a Gaussian factor in PEARL's encoder, so that one transition cannot fix the context."""

State = tuple[np.ndarray, ...]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # By tanh: exact up to rounding, and without overflow for large negative inputs.
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


class _LSTM:
    """`encoders.LSTMEncoder` in numpy, for n episodes at once.

    `start` returns the initial state of n episodes. `step` maps features (n, F), previous actions (n, A) and the state
    to contexts (n, C) and the next state. All encoders here have these two methods.
    """

    def __init__(self, weights: NumpyWeights) -> None:
        arrays = weights.arrays
        # One product for both halves of the gates: [x, h] @ W.
        halves = [arrays["encoder.weight_ih"], arrays["encoder.weight_hh"]]
        self._gates = np.ascontiguousarray(np.concatenate(halves, axis=1).T)
        self._bias = arrays["encoder.bias_ih"] + arrays["encoder.bias_hh"]
        self._head, self._head_bias = arrays["encoder.head.weight"].T, arrays["encoder.head.bias"]
        self._correction = arrays["encoder.correction.weight"].T if "encoder.correction.weight" in arrays else None
        self._correction_bias = arrays.get("encoder.correction.bias")

    def start(self, rows: int) -> State:
        return tuple(np.zeros((2, rows, 1, len(self._bias) // 4), np.float32))

    def step(self, features: np.ndarray, action: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        hidden, cell = state[0][:, 0], state[1][:, 0]
        gates = np.concatenate([features, action, hidden], axis=1) @ self._gates + self._bias
        i, f, g, o = np.split(gates, 4, axis=1)
        cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
        hidden = _sigmoid(o) * np.tanh(cell)
        return np.maximum(hidden, 0.0) @ self._head + self._head_bias, (hidden[:, None], cell[:, None])

    def corrections(self, state: State) -> np.ndarray:
        """Return the estimated present minus the arrived observation, (n, E), from the state after a step."""
        assert self._correction is not None
        return state[0][:, 0] @ self._correction + self._correction_bias


class _Gaussians:
    """`encoders.GaussianEncoder` in numpy: the context is the posterior's mean."""

    def __init__(self, weights: NumpyWeights) -> None:
        self._layers = _layers(weights.arrays, "encoder.factor")
        self._features = weights.encoder_columns

    def start(self, rows: int) -> State:
        size = len(self._layers[-1][1]) // 2
        return tuple(np.zeros((rows, n), np.float32) for n in (size, size, self._features, 1))

    def step(self, features: np.ndarray, action: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        precision, weighted, previous, has_past = state
        x = _mlp(np.concatenate([previous, features, action], axis=1), self._layers)
        mean, spread = np.split(x, 2, axis=1)
        factor = has_past / (np.logaddexp(0.0, spread) + np.float32(SMALLEST_VARIANCE))
        precision, weighted = precision + factor, weighted + factor * mean
        return weighted / (1.0 + precision), (precision, weighted, features, np.ones_like(has_past))


class _NoContext:
    """`encoders.NoEncoder` in numpy: no state, and a context without numbers, (n, 0)."""

    def __init__(self, weights: NumpyWeights) -> None:
        pass

    def start(self, rows: int) -> State:
        return ()

    def step(self, features: np.ndarray, action: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        return features[:, :0], ()


class _History:
    """`encoders.HistoryEncoder` in numpy: the last steps, concatenated, the newest last."""

    def __init__(self, weights: NumpyWeights) -> None:
        self._shape = (weights.history_steps - 1, weights.encoder_columns + weights.actions)

    def start(self, rows: int) -> State:
        return (np.zeros((rows, *self._shape), np.float32),)

    def step(self, features: np.ndarray, action: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        newest = np.concatenate([features, action], axis=1)[:, None]
        steps = np.concatenate([state[0], newest], axis=1)
        return steps.reshape(len(steps), -1), (steps[:, 1:],)


class _TaskInput:
    """`encoders.ToldEncoder` in numpy: state and output are the task, which `NumpyPolicy.reset` sets."""

    def __init__(self, weights: NumpyWeights) -> None:
        assert weights.task_input is not None
        self._size = weights.task_input.size

    def start(self, rows: int) -> State:
        return (np.zeros((rows, self._size), np.float32),)

    def step(self, features: np.ndarray, action: np.ndarray, state: State) -> tuple[np.ndarray, State]:
        return state[0], state


_ENCODERS: Mapping[EncoderKind, type[_LSTM | _Gaussians | _NoContext | _History | _TaskInput]] = {
    "lstm": _LSTM,
    "gaussians": _Gaussians,
    "none": _NoContext,
    "history": _History,
    "told": _TaskInput,
}


def _layers(arrays: Arrays, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    count = sum(key.startswith(f"{name}.weight_") for key in arrays)
    return [(arrays[f"{name}.weight_{i}"].T, arrays[f"{name}.bias_{i}"]) for i in range(count)]


def _mlp(x: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Apply linear layers with ReLU between them; none after the last."""
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight + bias, 0.0)
    weight, bias = layers[-1]
    return x @ weight + bias


class NumpyPolicy:
    """Steps n episodes at once: encoder, context, squashed Gaussian actor (paper appendix).

    Args:
        weights: see `ContextPolicy.numpy_weights`.
        rows: number of episodes n stepped together.
    """

    state: State
    """The encoder's state, (n, ...) each, with the shapes of the torch encoders."""

    def __init__(self, weights: NumpyWeights, rows: int) -> None:
        self.load(weights)
        self.rows = rows
        self._begin()

    def load(self, weights: NumpyWeights) -> None:
        """Replace the weights; the recurrent state stays."""
        self._w = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.arrays.items()}
        self._encoder = _ENCODERS[weights.encoder](replace(weights, arrays=self._w))
        self._encoder_columns, self._clip, self._task_input = weights.encoder_columns, weights.clip, weights.task_input
        self._actor = _layers(self._w, "actor")
        self.action_size = weights.actions

    def reset(self, tasks: Sequence[Task] = ()) -> None:
        """Start new episodes: initial state and zero previous action in every row.

        Args:
            tasks: the task of each row, (n,); only the oracle reads them.

        Raises:
            SamiError: the policy is an oracle, and the number of tasks is not the number of rows.
        """
        self._begin()
        if self._task_input is not None:
            if len(tasks) != self.rows:
                raise SamiError(
                    f"this oracle needs the task of each of its {self.rows} episodes, but reset() got {len(tasks)} "
                    "tasks. Pass one task for each row."
                )
            self.state = (self._task_input.encode(tasks),)

    def _begin(self) -> None:
        self.state = self._encoder.start(self.rows)
        self.previous_action = np.zeros((self.rows, self.action_size), np.float32)

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Advance one step.

        Args:
            observation: flat observations, (n, D).
            noise: standard normal, (n, A), to sample the action; None for the deterministic action.

        Returns:
            Actions (n, A) in [-1, 1], contexts (n, C). If you execute other actions, set `previous_action` to them.
        """
        w = self._w
        features = self._features(observation)
        encoder_features = features[:, : self._encoder_columns]
        context, self.state = self._encoder.step(encoder_features, self.previous_action, self.state)
        if "present.place" in w:
            assert isinstance(self._encoder, _LSTM)
            features = self._features(observation + self._encoder.corrections(self.state) @ w["present.place"])
        x = np.maximum(_mlp(np.concatenate([features, context], axis=1), self._actor), 0.0)
        action = x @ w["actor.mean.weight"].T + w["actor.mean.bias"]
        if noise is not None:
            log_std = np.clip(x @ w["actor.log_std.weight"].T + w["actor.log_std.bias"], LOG_STD_MIN, LOG_STD_MAX)
            action = action + np.exp(log_std) * noise
        action = np.tanh(action).astype(np.float32)
        self.previous_action = action
        return action, context

    def _features(self, observation: np.ndarray) -> np.ndarray:
        w = self._w
        features = (observation @ w["features.projection"] - w["features.mean"]) * w["features.scale"]
        return np.clip(features, -self._clip, self._clip)
