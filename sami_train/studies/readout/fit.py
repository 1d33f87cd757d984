"""Fits a probe: a readout on half of the episodes, margins on a quarter (split conformal), R2 and coverage on the rest.

Every episode is in a task of its own, so that calibration and evaluation use tasks that nothing was fitted to. Each
episode has the same total weight. An interval therefore contains the true value with probability `RATE` at a random
step of a new episode, whatever the distribution of the contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sami_runtime.errors import SamiError
from sami_runtime.model.probe import PROBE, Probe, ProbedFeature
from sami_train.agent.networks import descend
from sami_train.envs.task_numbers import FeatureScale
from sami_train.envs.tasks import Crippled, Feature, Task, TaskSpace

Array = NDArray[np.float32]
Wide = NDArray[np.float64]


@dataclass(frozen=True)
class Readout:
    """An MLP with one hidden layer of tanh; normalisation is folded into its weights."""

    weights: tuple[Array, Array]
    """(C, units), (units, M): M has a column for each numeric feature, and for each part of a feature with parts."""
    biases: tuple[Array, Array]

    def places(self, contexts: NDArray[np.floating]) -> Wide:
        """Return the estimates on the features' scales, (N, M), for contexts (N, C), in double precision."""
        hidden = np.tanh(contexts.astype(np.float64) @ self.weights[0] + self.biases[0])
        return np.asarray(hidden @ self.weights[1] + self.biases[1], np.float64)

    def columns(self, columns: list[int]) -> Readout:
        """Return the readout of some of the columns alone."""
        (first, last), (hidden, offset) = self.weights, self.biases
        return Readout((first, np.ascontiguousarray(last[:, columns])), (hidden, offset[columns]))


def widths(features: tuple[ProbedFeature, ...]) -> list[int]:
    """Return the number of columns of each feature in a readout."""
    return [len(feature.parts) or 1 for feature in features]


def columns_of(features: tuple[ProbedFeature, ...]) -> list[slice]:
    """Return the columns of each feature in a readout."""
    ends = np.cumsum(widths(features)).tolist()
    return [slice(end - width, end) for end, width in zip(ends, widths(features), strict=True)]


def bounds(feature: ProbedFeature) -> tuple[float, float]:
    """Return the feature's range, low and high, on its scale, which is the logarithm for a logarithmic feature."""
    ends = [feature.low, feature.high]
    low, high = np.log(ends).tolist() if feature.logarithmic else ends
    return low, high


def answers(readout: Readout, features: tuple[ProbedFeature, ...], contexts: NDArray[np.floating]) -> dict[str, Array]:
    """Return the outputs of the probe's graph by name: (N, 3) estimate, low and high, or (N, parts) from 0 to 1.

    Args:
        readout: the readout of these features alone.
        features: the features with outputs, in order.
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


SETS = ("training", "moderate")
"""Task sets that span the range of drawn tasks. The paper's extreme tasks are not included: some cannot be solved."""


def known_range(space: TaskSpace) -> tuple[Task, ...]:
    """Return the tasks of `SETS`, which span the range of drawn tasks."""
    return tuple(task for name in SETS if name in space.sets for task in space.sets[name])


def varying(space: TaskSpace) -> list[FeatureScale | Crippled]:
    """Return the features that differ between the tasks of `known_range`, which a probe can estimate.

    Raises:
        SamiError: no feature differs.
    """
    tasks, features = known_range(space), list[FeatureScale | Crippled]()
    for feature in space.features:
        if isinstance(feature, Crippled):
            if len({str(feature.of(task)) for task in tasks}) > 1:
                features.append(feature)
        elif (scale := FeatureScale.of(feature, tasks)).varies:
            features.append(scale)
    if not features:
        raise SamiError("the environment's tasks do not differ by any feature: there is nothing a probe could read.")
    return features


def unseen_tasks(space: TaskSpace, count: int, seed: int) -> list[Task]:
    """Draw tasks: each number uniformly on its scale, crippled parts from the combinations in `known_range`.

    If training draws its tasks at random, these are drawn in the same way.
    """
    rng = np.random.default_rng(seed)
    if (draw := space.drawn.get("training")) is not None:
        return [space.check(draw(rng)) for _ in range(count)]
    tasks = known_range(space)
    return [
        space.check({feature.name: _sample(feature, tasks, rng) for feature in space.features}) for _ in range(count)
    ]


def _sample(feature: Feature | Crippled, tasks: Sequence[Task], rng: np.random.Generator) -> float | list[int]:
    if isinstance(feature, Crippled):
        silent = list({str(parts): parts for parts in map(feature.of, tasks)}.values())
        return silent[int(rng.integers(len(silent)))]
    scale = FeatureScale.of(feature, tasks)
    low, high = scale.place([scale.low, scale.high])
    # Rounding must not exceed the range.
    return float(np.clip(scale.value(rng.uniform(low, high)), scale.low, scale.high))


RATE = 0.9
"""Nominal coverage: fraction of intervals that should contain the true value."""
UNITS = 32
"""Units of the hidden layer."""
UPDATES, REPORT_EVERY, BATCH = 3_000, 100, 256
"""Most updates, updates between two checks for early stopping, and steps in the batch of an update."""
LEARNING_RATE, WEIGHT_DECAY = 3e-3, 1e-3
PATIENCE = 5
"""Consecutive checks without improvement after which the fit ends."""
STOP = 0.2
"""Fraction of the episodes of the fit that are used for early stopping only."""
LEAST = 40
"""Fewest episodes that count: a quarter of them, 10, is about the least for a 90 % quantile."""
LEAST_SPREAD = 1e-3
"""Least standard deviation that normalises a coordinate of the context, as a fraction of the largest deviation."""


class FittedReadout(NamedTuple):
    """A fitted probe."""

    readout: Readout
    """The readout of all features, carried or not."""
    probe: Probe


class _Steps(NamedTuple):
    """The N counted steps of some episodes."""

    contexts: Wide
    """(N, C)"""
    places: Wide
    """True values on the features' scales, (N, M)."""
    weights: Wide
    """Weights (N,), which sum to 1 over each episode."""


def fit(
    episodes: Sequence[NDArray[np.floating]],
    tasks: Sequence[Task],
    features: Sequence[FeatureScale | Crippled],
    step: int,
    seed: int = 0,
) -> FittedReadout:
    """Fit a probe.

    Args:
        episodes: contexts (T, C) of each episode.
        tasks: task of each episode.
        features: features to estimate.
        step: first step that counts; shorter episodes are left out.
        seed: seed of the split, the initial weights and the batches.

    Raises:
        SamiError: fewer than `LEAST` episodes count.
    """
    tails = [(contexts[step:], task) for contexts, task in zip(episodes, tasks, strict=True) if len(contexts) > step]
    if len(tails) < LEAST:
        raise SamiError(
            f"{len(tails)} of {len(episodes)} episodes last beyond step {step}, from which contexts count; a probe "
            f"takes at least {LEAST}. Run more episodes."
        )
    order = np.random.default_rng(seed).permutation(len(tails))
    parts = np.split(order, [len(order) // 2, len(order) // 2 + len(order) // 4])
    training, calibrating, judging = (_rows([tails[k] for k in part], features) for part in parts)
    stop = parts[0][: max(2, round(STOP * len(parts[0])))]
    learnt = _rows([tails[k] for k in parts[0][len(stop) :]], features)
    readout = _readout(learnt, _rows([tails[k] for k in stop], features), training, seed)
    described = tuple(_probed_feature(feature) for feature in features)
    errors, calm = (np.abs(readout.places(s.contexts) - s.places) for s in (judging, calibrating))
    probed = []
    for feature, columns in zip(described, columns_of(described), strict=True):
        margin = _quantile(calm[:, columns].max(axis=1), calibrating.weights, len(parts[1]))
        covered = (errors[:, columns] <= margin).all(axis=1)
        numbers = {
            "r2": _explained(errors[:, columns], judging.places[:, columns], judging.weights),
            "margin": margin,
            "coverage": float(np.average(covered, weights=judging.weights)),
        }
        probed.append(feature.model_copy(update={name: float(f"{value:.6g}") for name, value in numbers.items()}))
    fit_count, calibrated, held_out = map(len, parts)
    probe = Probe(
        step=step, rate=RATE, fitted=fit_count, calibrated=calibrated, held_out=held_out, features=tuple(probed)
    )
    return FittedReadout(readout, probe)


def _rows(episodes: Sequence[tuple[NDArray[np.floating], Task]], features: Sequence[FeatureScale | Crippled]) -> _Steps:
    truth = [[place for feature in features for place in _places(feature, task)] for _, task in episodes]
    lengths = [len(contexts) for contexts, _ in episodes]
    return _Steps(
        np.concatenate([contexts for contexts, _ in episodes]).astype(np.float64),
        np.repeat(np.array(truth), lengths, axis=0),
        np.repeat(1.0 / np.array(lengths), lengths),
    )


def _places(feature: FeatureScale | Crippled, task: Task) -> list[float]:
    if isinstance(feature, FeatureScale):
        return [float(feature.place(task[feature.feature.name]))]
    silent = feature.of(task)
    return [float(part in silent) for part in range(len(feature.parts))]


def _probed_feature(feature: FeatureScale | Crippled) -> ProbedFeature:
    """Return the description of a feature, with zeros for the results of the fit."""
    if isinstance(feature, Crippled):
        parts = feature.parts
        return ProbedFeature(name=feature.name, unit="1", low=0.0, high=1.0, parts=parts, r2=0, margin=0, coverage=0)
    unit = feature.feature.unit
    return ProbedFeature(
        name=feature.feature.name,
        unit=unit if unit and not unit.startswith("(") else "1",  # a unit in brackets is a remark
        low=feature.low,
        high=feature.high,
        logarithmic=feature.logarithmic,
        r2=0,
        margin=0,
        coverage=0,
    )


def _readout(learnt: _Steps, stop: _Steps, training: _Steps, seed: int) -> Readout:
    """Fit the network by weighted least squares, on normalised contexts and features, with early stopping."""
    mean, spread = training.contexts.mean(0), training.contexts.std(0)
    # A nearly constant coordinate is float32 rounding: amplified, it would differ between versions of onnxruntime.
    spread = np.maximum(spread, max(LEAST_SPREAD * float(spread.max()), 1e-6))
    middle, scale = training.places.mean(0), np.maximum(training.places.std(0), 1e-6)

    def tensors(steps: _Steps) -> tuple[torch.Tensor, ...]:
        arrays = ((steps.contexts - mean) / spread, (steps.places - middle) / scale, steps.weights)
        return tuple(torch.from_numpy(array).float() for array in arrays)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(len(mean), UNITS), nn.Tanh(), nn.Linear(UNITS, len(middle)))
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    (x, y, weight), (inputs, truth, counts) = tensors(learnt), tensors(stop)
    rng, best, weights, worse = torch.Generator().manual_seed(seed), np.inf, network.state_dict(), 0
    for update in range(UPDATES):
        rows = torch.multinomial(weight, BATCH, replacement=True, generator=rng)
        loss = ((network(x[rows]) - y[rows]) ** 2).mean()
        descend(optimizer, loss)
        if (update + 1) % REPORT_EVERY == 0:
            with torch.no_grad():
                error = float((((network(inputs) - truth) ** 2).mean(1) * counts).sum() / counts.sum())
            better = error < best
            worse = 0 if better else worse + 1
            if better:
                best, weights = error, {name: value.clone() for name, value in network.state_dict().items()}
            if worse == PATIENCE:
                break
    (w0, b0, w1, b1) = (weights[name].double().numpy() for name in ("0.weight", "0.bias", "2.weight", "2.bias"))
    first, last = w0.T / spread[:, None], w1.T * scale
    biases = (b0 - mean @ first, b1 * scale + middle)
    (hidden, out), (low, high) = ((part.astype(np.float32) for part in pair) for pair in ((first, last), biases))
    return Readout((hidden, out), (low, high))


def _quantile(errors: Wide, weights: Wide, episodes: int) -> float:
    """Return the error that a step of a new episode exceeds with probability at most 1 - RATE (split conformal)."""
    order = np.argsort(errors)
    # The new episode counts as one more, with unknown errors.
    reached = np.cumsum(weights[order]) / (episodes + 1)
    return float(errors[order][min(int(np.searchsorted(reached, RATE - 1e-12)), len(errors) - 1)])


def _explained(errors: Wide, places: Wide, weights: Wide) -> float:
    """Return R2, as a mean over columns; constant columns do not count, and 0 if all are constant."""
    spread = np.average((places - np.average(places, axis=0, weights=weights)) ** 2, axis=0, weights=weights)
    residual = np.average(errors**2, axis=0, weights=weights)
    varying = spread > 1e-12
    return float(np.mean(1.0 - residual[varying] / spread[varying])) if varying.any() else 0.0
