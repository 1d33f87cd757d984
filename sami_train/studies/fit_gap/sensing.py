"""Fits sensor errors: noise and bias from readings at rest, the steps of rounding, and latency and loss of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sami_runtime.signals import Signal
from sami_train.studies.fit_gap.trace import FIRST, Trace

FEWEST = 4
"""Fewest readings of an episode at rest that identify noise, and fewest different values that identify a step."""
OFF_GRID = 0.02
"""Largest distance of a rounded value from a multiple of the step, as a fraction of the step."""
SIGMAS = 1.96
"""Half width of a normal distribution's 95 % interval, in standard deviations."""


class Estimate(NamedTuple):
    """A number with the ends of its 95 % interval."""

    low: float
    value: float
    high: float


class SensorNoise(NamedTuple):
    """Noise of a signal's elements at rest."""

    deviation: Estimate
    differences: int
    """Number of differences between consecutive readings, over all episodes and elements."""
    in_motion: bool
    """Whether successive differences do not reverse, as those of noise do: the correlation of noise is -1/2."""


def at_rest(trace: Trace, name: str, rest: np.ndarray, first: int = 0) -> np.ndarray:
    """Return the values of a signal before the first command that differs from `rest`, each message once, (m, size).

    Args:
        trace: An episode.
        name: The signal's name.
        rest: The neutral action, (A,).
        first: Tick of the first message to use; if 0, the very first message always counts as at rest.
    """
    steps = np.flatnonzero(np.abs(trace.executed - rest).max(axis=1) > 1e-6)
    until = int(steps[0]) if len(steps) else len(trace.executed)
    ticks, values = trace.fresh(name)
    resting = (ticks <= until) & (ticks >= first)
    resting[0] |= first == 0
    return values[resting]


def fit_noise(traces: Sequence[Trace], name: str, rest: np.ndarray) -> SensorNoise | None:
    """Return a signal's noise from differences of consecutive readings; None if no episode has `FEWEST` at rest."""
    readings = [reading for trace in traces if len(reading := at_rest(trace, name, rest, FIRST)) >= FEWEST]
    if not readings:
        return None
    steps = np.concatenate([np.diff(reading, axis=0) for reading in readings])
    deviation = float(np.sqrt((steps**2).mean() / 2.0))
    # Differences share readings: they are worth 3/4 as many independent ones (Allan variance of white noise).
    share = SIGMAS / np.sqrt(2.0 * 0.75 * steps.size)
    products = np.concatenate([np.diff(reading[1:], axis=0) * np.diff(reading[:-1], axis=0) for reading in readings])
    ends = Estimate(deviation * max(0.0, 1.0 - share), deviation, deviation * (1.0 + share))
    return SensorNoise(ends, steps.size, bool(products.mean() > -0.25 * (steps**2).mean()))


def fit_step(traces: Sequence[Trace], name: str, column: int) -> float | None:
    """Return the step to whose multiples an element is rounded; None if it is not rounded, or hardly moves."""
    values = np.unique(np.concatenate([trace.fresh(name)[1][:, column] for trace in traces]))
    if len(values) < FEWEST:
        return None
    finest = float(np.spacing(np.float32(np.abs(values).max())))
    gaps = np.diff(values)
    gaps = gaps[gaps > 4.0 * finest]
    if not len(gaps) or gaps.min() < 100.0 * finest:
        return None
    counts = np.round(values / gaps.min())
    step = float(values @ counts / (counts @ counts))  # more precise than the smallest gap, which float32 rounds
    off = np.abs(values / step - np.round(values / step))
    return step if (off < OFF_GRID).all() else None


def fit_bias(
    traces: Sequence[Trace], signal: Signal, known_values: Mapping[str, float], rest: np.ndarray, deviation: float
) -> dict[str, Estimate]:
    """Return the biases of the elements whose true value at rest is known, by `SIGNAL.ELEMENT`.

    If they differ between episodes by more than noise explains, the interval spans the episodes' biases.

    Args:
        traces: Episodes; biases that `BiasCalibration` removed from them are added again.
        signal: The signal.
        known_values: True value at rest, by `SIGNAL.ELEMENT`.
        rest: The neutral action, (A,).
        deviation: Standard deviation of the signal's noise.
    """
    errors = {}
    for column, element in enumerate(signal.elements):
        name = f"{signal.name}.{element}"
        if name not in known_values:
            continue
        readings = [at_rest(trace, signal.name, rest)[:, column] for trace in traces]
        offsets = np.array([reading.mean() - known_values[name] for reading in readings])
        offsets += [trace.removed_biases.get(name, 0.0) for trace in traces]
        unsure = SIGMAS * deviation / np.sqrt([len(reading) for reading in readings])
        if np.ptp(offsets) > 2.0 * float(unsure.max()) + 1e-6:
            errors[name] = Estimate(float(offsets.min()), float(offsets.mean()), float(offsets.max()))
        else:
            error = float(unsure.mean()) / np.sqrt(len(offsets))
            errors[name] = Estimate(*(float(offsets.mean()) + sign * error for sign in (-1, 0, 1)))
    return errors


def copies(traces: Sequence[Trace], signals: Sequence[Signal]) -> dict[str, str]:
    """Return, by name, the earlier signal that each signal always equals: both read the same sensor."""
    same_as: dict[str, str] = {}
    for at, signal in enumerate(signals):
        for source in signals[:at]:
            if source.size != signal.size or source.name in same_as:
                continue
            varies = any(np.ptp(trace.values[signal.name], axis=0).any() for trace in traces)
            if varies and all(np.array_equal(t.values[signal.name], t.values[source.name]) for t in traces):
                same_as[signal.name] = source.name
                break
    return same_as


MOST = 40
"""Number of delays that are distinguished, in whole periods from 0; the last one includes all longer ones."""
STEP = 0.25
"""Step of the grid of latencies and jitters [periods]."""
DROP = 1.92
"""Drop of the log likelihood at the ends of a 95 % interval."""
SLOWEST = 12
"""Longest interval between the messages of a slow sensor [periods]; longer ones count as lost messages."""
REGULAR = 0.95
"""Least fraction of a sensor's messages that are a whole number of its intervals apart."""
LOSSES = np.concatenate([[0.0], np.geomspace(0.002, 0.95, 80)])


class Arrivals(NamedTuple):
    """Number of an episode's messages by delay [periods], (MOST,) each."""

    read: np.ndarray
    """Messages that were read, by their delay."""
    missing: np.ndarray
    """Messages that were never read, by the least delay that would explain this."""


class Arrival(NamedTuple):
    """Latency and jitter [periods] and dropout [fraction] of observations."""

    latency: tuple[float, float]
    """Lowest and highest latency of the episodes."""
    jitter: tuple[float, float, float]
    """Low end, estimate and high end."""
    dropout: tuple[float, float, float]
    """Low end, estimate and high end."""
    messages: int


def spacing(traces: Sequence[Trace], name: str) -> float:
    """Return the interval [periods] between a sensor's messages, 1 for every tick; infinite if there is only one."""
    intervals = np.concatenate([np.diff(trace.fresh(name)[0]) for trace in traces])
    if not len(intervals):
        return np.inf
    return float(max(every for every in range(1, SLOWEST + 1) if (intervals % every == 0).mean() >= REGULAR))


def arrivals(trace: Trace, name: str) -> Arrivals:
    """Count a signal's messages by delay."""
    read, missing = np.zeros(MOST), np.zeros(MOST)
    newest = FIRST - 1
    for tick, stamp in zip(trace.ticks, trace.measured_at[name], strict=True):
        if stamp <= newest:
            continue
        for absent in range(newest + 1, stamp):
            missing[min(MOST - 1, tick - absent)] += 1
        read[min(MOST - 1, tick - stamp)] += 1
        newest = stamp
    return Arrivals(read, missing)


def fit_arrival(episodes: list[Arrivals]) -> Arrival:
    """Fit a latency for each episode, with one jitter and one dropout for all, by maximum likelihood."""
    observed = [episode for episode in episodes if episode.read.sum()]
    spread = max(float(np.flatnonzero(episode.read).max() - np.flatnonzero(episode.read).min()) for episode in observed)
    jitters = np.arange(0.0, spread + 2.0, STEP)
    likelihood = np.zeros((len(jitters), len(LOSSES)))
    latencies = np.zeros((len(observed), len(jitters), len(LOSSES)))
    for number, run in enumerate(observed):
        least = float(np.flatnonzero(run.read).min())
        candidates = np.arange(max(0.0, least - spread - 1.0), least + 0.5, STEP)
        table = np.stack([_likelihood(run, latency, jitters) for latency in candidates])  # (latencies, jitters, losses)
        best = table.max(axis=0)
        # Several latencies explain whole periods equally well: take their mean.
        equal = table >= best - 1e-9
        latencies[number] = (equal * candidates[:, None, None]).sum(axis=0) / equal.sum(axis=0)
        likelihood += best
    # Take the least likely jitter: below a period, jitter and latency have almost the same effect.
    least = int(np.argmax(likelihood.max(axis=1) >= likelihood.max() - DROP))
    at = least, int(likelihood[least].argmax())
    likely = likelihood >= likelihood.max() - DROP
    jitter, loss = jitters[likely.any(axis=1)], LOSSES[likely.any(axis=0)]
    samples = latencies[:, at[0], at[1]]
    if jitters[least] == 0.0:  # only whole periods are identifiable
        samples = np.floor(samples + 0.5)
    return Arrival(
        (float(samples.min()), float(samples.max())),
        (float(jitter.min()), float(jitters[at[0]]), float(jitter.max())),
        (float(loss.min()), float(LOSSES[at[1]]), float(loss.max())),
        int(sum(episode.read.sum() + episode.missing.sum() for episode in observed)),
    )


def _likelihood(episode: Arrivals, latency: float, jitters: np.ndarray) -> np.ndarray:
    """Return the log likelihood of an episode, (jitters, LOSSES), given a latency [periods]."""
    edges = np.arange(MOST + 1) - 0.5
    # The fraction of [latency, latency + jitter) that rounds to each whole delay.
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.clip((edges[None] - latency) / jitters[:, None], 0.0, 1.0)
    below[jitters == 0.0] = edges > latency
    chance = np.diff(below, axis=1)
    later = 1.0 - below[:, :-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        reads = np.where(episode.read > 0, episode.read * np.log(chance), 0.0).sum(axis=1)[:, None]
        received = episode.read.sum() * np.log1p(-LOSSES)[None]
        absence = LOSSES[None, :, None] + (1.0 - LOSSES)[None, :, None] * later[:, None, :]
        missing = np.where(episode.missing > 0, episode.missing * np.log(absence), 0.0).sum(axis=2)
    return np.nan_to_num(reads + received + missing, nan=-np.inf, neginf=-np.inf)
