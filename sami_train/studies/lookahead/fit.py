"""Fits a forward model by gradient descent on its predictions over one to K periods, fed with its own predictions.

The loss is Huber's, in units of the typical change of each number within a period, so that contacts count but do not
dominate. A tenth of the stretches (runs of observations) selects the best weights, and the signals that are better left
as they arrive; another tenth is held out for the reported errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that torch's users know)

from sami_runtime.errors import SamiError
from sami_runtime.model.lookahead import SignalErrors
from sami_runtime.signals import Signal
from sami_train.agent.networks import descend
from sami_train.studies.lookahead.forward_model import Fit, ForwardModel
from sami_train.studies.lookahead.stretches import Stretch

UNITS = 128
"""Units of each hidden layer."""
UPDATES = 5_000
"""Most updates; `fit` makes fewer if there are few transitions, at most two a transition or 1,000."""
BATCH = 256
RATE = 1e-3
"""Adam's initial learning rate, a quarter of it with `start`; a cosine schedule reduces it to zero."""
WITHOUT_CONTEXT = 0.1
"""Fraction of the examples whose context is zero, as before the first step of an episode."""
HELD_OUT = 0.1
"""Fraction of the stretches that is held out, and fraction that selects the best weights."""
LEAST = 40
"""Fewest transitions for a fit."""
REPORT_EVERY = 100
"""Updates between two evaluations of the loss that selects the best weights."""
SMALLEST = 1e-6
"""A change or a deviation below this counts as zero."""


def fit(
    stretches: Sequence[Stretch],
    signals: Sequence[Signal],
    steps: int,
    seed: int = 0,
    updates: int = UPDATES,
    on_update: Callable[[int], None] | None = None,
    start: ForwardModel | None = None,
) -> Fit:
    """Fit a forward model.

    Args:
        stretches: the data; stretches are split at random into training, selection and held-out ones.
        signals: the signals of the observation, in the contract's order.
        steps: K, the number of periods over which the model will be rolled forward.
        seed: seed of the split, the initial weights and the batches.
        updates: most updates.
        on_update: called every `REPORT_EVERY` updates with that number.
        start: a model to fine-tune, such as one of another robot; None starts from random weights.

    Raises:
        SamiError: there are too few transitions or stretches.
    """
    torch.set_num_threads(1)  # several threads slow such small networks down if the cores are busy
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(stretches))
    count = max(1, round(HELD_OUT * len(order)))
    held_out, stop, training = ([stretches[k] for k in part] for part in np.split(order, [count, 2 * count]))
    transitions, tests = (sum(map(len, part)) for part in (training, held_out))
    if transitions < LEAST or not tests or not stop:
        raise SamiError(
            f"there are {transitions} transitions in {len(training)} stretches to fit a forward model to, and {tests} "
            f"held out; it takes at least {LEAST}, in 3 stretches. Record more episodes."
        )
    data = _Windows(training, signals, steps)
    network = _Network(data, seed, start)
    judge = _Windows(stop, signals, steps).all()
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE if start is None else RATE / 4)
    updates = min(updates, max(1_000, 2 * transitions))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    best, least = network.folded(), float("inf")
    for update in range(updates + 1):
        if update % REPORT_EVERY == 0 or update == updates:
            with torch.no_grad():
                loss = float(network.loss(*judge))
            if loss < least:
                best, least = network.folded(), loss
            if on_update is not None:
                on_update(REPORT_EVERY)
        descend(optimizer, network.loss(*data.batch(rng)))
        schedule.step()
    model = _modest(best, errors_of(best, stop, signals, steps), signals)
    return Fit(model, transitions, tests, errors_of(model, held_out, signals, steps))


def _modest(model: ForwardModel, errors: Mapping[str, SignalErrors], signals: Sequence[Signal]) -> ForwardModel:
    """Return the model without changes of those signals that it predicts no better than if they are left unchanged."""
    better = [sum(errors[signal.name].predicted) < sum(errors[signal.name].standing) for signal in signals]
    columns = np.repeat(np.array(better, np.float32), [signal.size for signal in signals])
    *weights, last = model.weights
    *biases, offset = model.biases
    return ForwardModel((*weights, last * columns), (*biases, offset * columns))


def errors_of(
    model: ForwardModel, stretches: Sequence[Stretch], signals: Sequence[Signal], steps: int
) -> dict[str, SignalErrors]:
    """Return each signal's RMS error [its unit] after 1 to K periods, if predicted as in a model file or unchanged."""
    ends = np.cumsum([signal.size for signal in signals])
    predicted, standing = [], []
    for k in range(1, steps + 1):
        squares: list[np.ndarray] = []
        for stretch in stretches:
            if len(stretch) < k:
                continue
            past, now = stretch.observations[:-k], stretch.observations[k:]
            actions = [_back(stretch.actions, ago)[k:] for ago in range(k + 1)]
            ahead = model.ahead(past, np.full((1, 1), k), actions, stretch.contexts[k - 1 : -1])
            squares.append(np.stack([_wrapped(part - now, signals) ** 2 for part in (ahead, past)]))
        means = np.concatenate(squares, axis=1).mean(axis=1) if squares else np.zeros((2, ends[-1]))
        by_signal = [[float(np.sqrt(p.mean())) for p in np.split(row, ends[:-1])] for row in means]
        predicted.append(by_signal[0])
        standing.append(by_signal[1])
    return {
        signal.name: SignalErrors(
            predicted=tuple(float(f"{row[at]:.4g}") for row in predicted),
            standing=tuple(float(f"{row[at]:.4g}") for row in standing),
        )
        for at, signal in enumerate(signals)
    }


Examples = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


class _Windows:
    """All windows of K + 1 consecutive observations, or of fewer at the end of a stretch."""

    def __init__(self, stretches: Sequence[Stretch], signals: Sequence[Signal], steps: int) -> None:
        self.steps = steps
        first = [np.arange(len(stretch)) for stretch in stretches]
        starts = np.concatenate([[0], np.cumsum([len(stretch) + 1 for stretch in stretches])])
        self.first = np.concatenate([at + start for at, start in zip(first, starts, strict=False)])
        self.remaining = np.concatenate([len(stretch) - at for stretch, at in zip(stretches, first, strict=True)])
        observations = np.concatenate([stretch.observations for stretch in stretches])
        self.actions = np.concatenate([stretch.actions for stretch in stretches]).astype(np.float32)
        self.contexts = np.concatenate([stretch.contexts for stretch in stretches]).astype(np.float32)
        self.before = np.concatenate([_back(stretch.actions, 1) for stretch in stretches]).astype(np.float32)
        self.observations = observations.astype(np.float32)
        change = _wrapped(observations[self.first + 1] - observations[self.first], signals)
        self.scale = np.sqrt((change**2).mean(axis=0)).astype(np.float32)
        """RMS change of each number within a period, (D,)."""
        self.signals = signals
        inputs = np.concatenate([self.observations, self.actions, self.before, self.contexts], axis=1)
        self.mean, self.deviation = inputs.mean(axis=0), inputs.std(axis=0)

    def all(self) -> Examples:
        """Return all windows, with their contexts."""
        return self._at(np.arange(len(self.first)), np.ones((len(self.first), 1)))

    def batch(self, rng: np.random.Generator) -> Examples:
        """Return a random batch of windows, a few of them without their context."""
        at = rng.integers(len(self.first), size=min(BATCH, len(self.first)))
        return self._at(at, rng.random((len(at), 1)) >= WITHOUT_CONTEXT)

    def _at(self, at: np.ndarray, with_context: np.ndarray) -> Examples:
        """Return observations (B, D), actions (B, K, 2 A), contexts (B, K, C), changes (B, K, D), known (B, K, 1)."""
        rows, valid = self.first[at], np.arange(1, self.steps + 1) <= self.remaining[at, None]
        ahead = np.minimum(rows[:, None] + np.arange(1, self.steps + 1), len(self.observations) - 1)
        now = self.observations[rows]
        changes = _wrapped(self.observations[ahead] - now[:, None], self.signals)
        actions = np.concatenate([self.actions[ahead], self.before[ahead]], axis=2)
        contexts = self.contexts[ahead - 1] * with_context[:, None]  # of the step before, as a model file has them
        parts = (now, actions, contexts, changes, valid[..., None])
        return tuple(torch.as_tensor(part, dtype=torch.float32) for part in parts)  # type: ignore[return-value]


class _Network(nn.Module):
    """The forward model during its fit, on normalised numbers."""

    mean: Tensor
    spread: Tensor
    scale: Tensor

    def __init__(self, data: _Windows, seed: int, start: ForwardModel | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            sizes = (len(data.mean), UNITS, UNITS, len(data.scale))
            self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        spread = np.where(data.deviation < SMALLEST, np.inf, data.deviation)  # constants have no information
        for name, value in (("mean", data.mean), ("spread", 1.0 / spread), ("scale", data.scale)):
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float32))
        if start is not None:
            self._unfold(start, data)

    def _unfold(self, model: ForwardModel, data: _Windows) -> None:
        """Set the weights from a model of numbers that are not normalised: the inverse of `folded`."""
        first, *middle, last = (weight.astype(np.float64) for weight in model.weights)
        offset, *hidden, out = (bias.astype(np.float64) for bias in model.biases)
        scale = np.where(data.scale > SMALLEST, data.scale, np.inf)
        matrices = (first * data.deviation[:, None], *middle, last / scale)
        offsets = (offset + data.mean @ first, *hidden, out / scale)
        for layer, matrix, bias in zip(self.layers, matrices, offsets, strict=True):
            layer.load_state_dict({"weight": torch.as_tensor(matrix.T), "bias": torch.as_tensor(bias)})

    def loss(self, now: Tensor, actions: Tensor, contexts: Tensor, changes: Tensor, valid: Tensor) -> Tensor:
        """Roll forward over K periods, and return the sum of their losses, that of period k divided by k."""
        mask = self.scale > SMALLEST
        scale, shift, loss = self.scale.clamp(min=SMALLEST), torch.zeros_like(now), torch.zeros(())
        for k in range(actions.shape[1]):
            x = (torch.cat([now + shift, actions[:, k], contexts[:, k]], 1) - self.mean) * self.spread
            for layer in self.layers[:-1]:
                x = torch.tanh(layer(x))
            shift = shift + torch.where(mask, self.layers[-1](x) * self.scale, 0.0)
            off = F.huber_loss(shift / scale, changes[:, k] / scale, reduction="none")
            loss = loss + (off * mask * valid[:, k]).mean() / (k + 1)
        return loss

    def folded(self) -> ForwardModel:
        """Return the model for numbers that are not normalised."""
        weights, biases = ([getattr(layer, part).detach().double().numpy() for layer in self.layers] for part in PARTS)
        first = weights[0].T * self.spread.double().numpy()[:, None]
        scale = np.where(self.scale.numpy() > SMALLEST, self.scale.numpy(), 0.0)
        matrices = (first, *(weight.T for weight in weights[1:-1]), weights[-1].T * scale)
        offsets = (biases[0] - self.mean.double().numpy() @ first, *biases[1:-1], biases[-1] * scale)
        return ForwardModel(
            tuple(matrix.astype(np.float32) for matrix in matrices), tuple(o.astype(np.float32) for o in offsets)
        )


PARTS = ("weight", "bias")


def _back(actions: np.ndarray, ago: int) -> np.ndarray:
    """Return the actions (T, A) of `ago` periods before; zeros before the first."""
    return np.concatenate([np.zeros_like(actions[:ago]), actions])[: len(actions)]


def _wrapped(change: np.ndarray, signals: Sequence[Signal]) -> np.ndarray:
    """Return changes (..., D), with changes of angles [rad] wrapped to -pi to pi."""
    start = 0
    change = change.astype(np.float64)
    for signal in signals:
        if signal.unit == "rad":
            angle = change[..., start : start + signal.size]
            change[..., start : start + signal.size] = (angle + np.pi) % (2 * np.pi) - np.pi
        start += signal.size
    return change
