"""What sensors add: noise and bias, from what they say while the robot rests, and the steps of their rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sami_runtime.signals import Signal
from sami_train.studies.fit_gap.trace import FIRST, Trace

FEWEST = 4
"""Readings of an episode at rest that tell its noise; values that tell a step."""
OFF_GRID = 0.02
"""How far a value may lie from a multiple of a step, as a share of it."""
SIGMAS = 1.96
"""Of a normal distribution's 95 % interval."""


class Estimate(NamedTuple):
    """A number with the ends of its 95 % interval."""

    low: float
    value: float
    high: float


class SensorNoise(NamedTuple):
    """Noise of a signal's elements at rest."""

    deviation: Estimate
    differences: int
    """Of readings that followed each other, over episodes and elements."""


def at_rest(trace: Trace, name: str, rest: np.ndarray, first: int = 0) -> np.ndarray:
    """Return what a signal said before anything was commanded to move, each message once, (m, size).

    Args:
        trace: An episode.
        name: Of the signal.
        rest: The action that moves nothing, (A,).
        first: Message to begin with; the very first one is always at rest.
    """
    moving = np.flatnonzero(np.abs(trace.executed - rest).max(axis=1) > 1e-6)
    until = int(moving[0]) if len(moving) else len(trace.executed)
    sent, values = trace.fresh(name)
    resting = (sent <= until) & (sent >= first)
    resting[0] |= first == 0
    return values[resting]


def fit_noise(traces: Sequence[Trace], name: str, rest: np.ndarray) -> SensorNoise | None:
    """Return a signal's noise, by the differences of readings that follow each other; None where nothing rests."""
    readings = [reading for trace in traces if len(reading := at_rest(trace, name, rest, FIRST)) >= FEWEST]
    if not readings:
        return None
    steps = np.concatenate([np.diff(reading, axis=0) for reading in readings])
    deviation = float(np.sqrt((steps**2).mean() / 2.0))
    # Differences share readings: 3/4 as many tell as much, independently (Allan variance of white noise).
    share = SIGMAS / np.sqrt(2.0 * 0.75 * steps.size)
    return SensorNoise(Estimate(deviation * max(0.0, 1.0 - share), deviation, deviation * (1.0 + share)), steps.size)


def without(noise: SensorNoise, other: float) -> SensorNoise:
    """Return noise without a part of it, such as that of the reference [the signal's unit]."""
    low, value, high = (float(np.sqrt(max(0.0, deviation**2 - other**2))) for deviation in noise.deviation)
    return SensorNoise(Estimate(low, value, high), noise.differences)


def fit_step(traces: Sequence[Trace], name: str, column: int) -> float | None:
    """Return the step to whose multiples an element is rounded; None where it is not, or hardly moves."""
    values = np.unique(np.concatenate([trace.fresh(name)[1][:, column] for trace in traces]))
    if len(values) < FEWEST:
        return None
    finest = float(np.spacing(np.float32(np.abs(values).max())))
    gaps = np.diff(values)
    gaps = gaps[gaps > 4.0 * finest]
    if not len(gaps) or gaps.min() < 100.0 * finest:
        return None
    counts = np.round(values / gaps.min())
    step = float(values @ counts / (counts @ counts))  # the smallest gap is rounded to float32, all of them less so
    off = np.abs(values / step - np.round(values / step))
    return step if (off < OFF_GRID).all() else None


def fit_bias(
    traces: Sequence[Trace], signal: Signal, known: Mapping[str, float], rest: np.ndarray, deviation: float
) -> dict[str, Estimate]:
    """Return the constant errors of the elements whose value at rest is known, by `SIGNAL.ELEMENT`.

    Where they differ between episodes by more than noise does, the ends are those of the episodes.

    Args:
        traces: Episodes; what `Zeroed` took out of them counts.
        signal: Which.
        known: By element, the value at rest.
        rest: The action that moves nothing, (A,).
        deviation: The signal's noise.
    """
    errors = {}
    for column, element in enumerate(signal.elements):
        name = f"{signal.name}.{element}"
        if name not in known:
            continue
        readings = [at_rest(trace, signal.name, rest)[:, column] for trace in traces]
        offsets = np.array([reading.mean() - known[name] for reading in readings])
        offsets += [trace.zeroed.get(name, 0.0) for trace in traces]
        unsure = SIGMAS * deviation / np.sqrt([len(reading) for reading in readings])
        if np.ptp(offsets) > 2.0 * float(unsure.max()) + 1e-6:
            errors[name] = Estimate(float(offsets.min()), float(offsets.mean()), float(offsets.max()))
        else:
            error = float(unsure.mean()) / np.sqrt(len(offsets))
            errors[name] = Estimate(*(float(offsets.mean()) + sign * error for sign in (-1, 0, 1)))
    return errors


def copies(traces: Sequence[Trace], signals: Sequence[Signal]) -> dict[str, str]:
    """Return the signals that always say what another one before them says, by name: they have one sensor."""
    same_as: dict[str, str] = {}
    for at, signal in enumerate(signals):
        for source in signals[:at]:
            if source.size != signal.size or source.name in same_as:
                continue
            moved = any(np.ptp(trace.values[signal.name], axis=0).any() for trace in traces)
            if moved and all(np.array_equal(t.values[signal.name], t.values[source.name]) for t in traces):
                same_as[signal.name] = source.name
                break
    return same_as
