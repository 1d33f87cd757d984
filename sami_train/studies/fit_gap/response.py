"""Fits the delay and the lag with which a robot follows its commands, relative to a simulated reference.

The motion of an element in a period is a weighted sum of the last commands. The weights are fitted to the reference.
A robot with a command delay or an actuator lag moves as the reference would under delayed and low-pass filtered
commands: those of the `Actuator` that a profile simulates. A grid search finds the delay and the lag that explain the
robot's motions best. Offset, gain and noise of each element are free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sami_train.studies.fit_gap.trace import FIRST, Trace

TAPS = 5
"""Number of past commands, one a period, that affect a motion."""
LEAST_EXPLAINED = 0.5
"""Least fraction of an element's variance in the reference that commands must explain; other elements are not used."""
DELAYS = np.arange(0, 9)
"""Delays of the grid [periods]."""
LAGS = np.array([0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 2.8, 3.3, 4.0, 5.0, 6.0, 8.0])
"""Time constants of the grid [periods]."""
DROP = 3.84
"""Drop of twice the log likelihood at the ends of a 95 % interval. Fits double it: motions share readings' noise."""

SURE, SEVERAL = 15.0, 0.25
"""Least gain in twice an episode's log likelihood that gives the episode a delay or a lag of its own; fraction of such
episodes above which the lag counts as different between episodes."""


class Motions(NamedTuple):
    """The m motions of an element between two readings that are a period apart."""

    to: np.ndarray
    """Tick at which each motion ended, (m,)."""
    changes: np.ndarray
    """Change of the element in each motion, (m,)."""


class Answer(NamedTuple):
    """How an element of the observation responds to commands in the reference."""

    name: str
    """SIGNAL.ELEMENT."""
    signal: str
    column: int
    weights: np.ndarray
    """Weights of the last commands, the newest first, (TAPS, A)."""


class ActuatorResponse(NamedTuple):
    """Delay and lag of a robot's actuators [periods]."""

    delay: tuple[int, int, int]
    """Low end, estimate and high end."""
    lag: tuple[float, float, float]
    gain: float
    """Size of the robot's motions, as a fraction of the reference's."""
    elements: tuple[str, ...]
    """Elements that the fit used."""
    margin: float
    """Least difference in twice the log likelihood to another delay; infinite if the delay differs between episodes."""


def motions(trace: Trace, signal: str, column: int) -> Motions:
    """Return the motions of an element between messages that were measured a period apart."""
    ticks, values = trace.fresh(signal)
    consecutive = (np.diff(ticks) == 1) & (ticks[:-1] >= FIRST)
    return Motions(ticks[1:][consecutive], np.diff(values[:, column])[consecutive])


def commanded(executed: np.ndarray, delay: int, lag: float) -> np.ndarray:
    """Return commands (T, A) after a delay and a first-order low pass of time constant `lag`, both [periods]."""
    late = _delayed(executed, delay)
    if lag == 0.0:
        return late
    decay, reached, state = np.exp(-1.0 / lag), np.empty_like(late), np.zeros(executed.shape[1])
    for tick, command in enumerate(late):
        state = command + decay * (state - command)
        reached[tick] = state
    return reached


def _delayed(actions: np.ndarray, delay: int) -> np.ndarray:
    """Return commands (T, A) delayed by some periods, with zeros before the first."""
    return np.concatenate([np.zeros((delay, actions.shape[1])), actions])[: len(actions)]


def history(actions: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return the last commands before each tick `to` (m,), the newest first, (m, TAPS, A)."""
    padded = np.concatenate([np.zeros((TAPS, actions.shape[1])), actions])
    return padded[to[:, None] + TAPS - 1 - np.arange(TAPS)]


def answers(reference: Sequence[Trace], names: Sequence[tuple[str, str, int]]) -> list[Answer]:
    """Return the responses of those elements whose motions commands explain in the reference.

    Args:
        reference: Episodes with ideal actuators and sensors.
        names: Candidate elements: `SIGNAL.ELEMENT`, the signal's name, and the element's column in the signal.
    """
    results = []
    for name, signal, column in names:
        rows, changes = _stacked(reference, [trace.executed for trace in reference], signal, column)
        if len(changes) < 2 * TAPS or not np.ptp(changes) > 0.0:
            continue
        flat = rows.reshape(len(rows), -1)
        # The ridge gives commands that never changed a weight of zero.
        scale = 1e-6 * max(1e-12, float((flat**2).sum(axis=0).max()))
        centred, target = flat - flat.mean(axis=0), changes - changes.mean()
        weights = np.linalg.solve(centred.T @ centred + scale * np.eye(flat.shape[1]), centred.T @ target)
        residual = target - centred @ weights
        if 1.0 - float(residual @ residual) / float(target @ target) >= LEAST_EXPLAINED:
            results.append(Answer(name, signal, column, weights.reshape(rows.shape[1:])))
    return results


def misfits_of(traces: Sequence[Trace], by_element: Sequence[Answer]) -> np.ndarray:
    """Return the misfit of each episode under each delay and lag, (episodes, delays, lags); see `_misfit`."""
    table = np.empty((len(traces), len(DELAYS), len(LAGS)))
    for row, trace in zip(table, traces, strict=True):
        observed = [motions(trace, answer.signal, answer.column) for answer in by_element]
        for column, lag in enumerate(LAGS):
            followed = commanded(trace.executed, 0, lag)
            for delay in DELAYS:
                row[delay, column] = _misfit(observed, by_element, _delayed(followed, int(delay)))
    return table


def fit_response(traces: Sequence[Trace], by_element: Sequence[Answer], misfits: np.ndarray) -> ActuatorResponse:
    """Return the delay and the lag under which the reference would move as the robot did in some episodes.

    If single episodes clearly have values of their own, the intervals span the values of all episodes. `misfits` are
    `misfits_of` these episodes, (episodes, delays, lags).
    """
    pooled = misfits.sum(axis=0).min(axis=1)
    delay = int(pooled.argmin())
    # An episode has a delay of its own if that is clearly more likely than the delay of all episodes.
    best = misfits.min(axis=2)
    delays = np.where(best[:, delay] - best.min(axis=1) > SURE, best.argmin(axis=1), delay)
    likely = DELAYS[pooled <= pooled.min() + 2 * DROP]
    if (delays != delay).any():
        likely, delay = delays, int(np.median(delays))
    lag = _lag(traces, by_element, misfits, delays)
    return ActuatorResponse(
        (int(likely.min()), delay, int(likely.max())),
        lag,
        _gain(traces, by_element, delay, lag[1]),
        tuple(answer.name for answer in by_element),
        float(np.delete(pooled, delay).min() - pooled[delay]) if (delays == delay).all() else np.inf,
    )


def _lag(
    traces: Sequence[Trace], by_element: Sequence[Answer], misfits: np.ndarray, delays: np.ndarray
) -> tuple[float, float, float]:
    """Return the lag with its ends, given the delay of each episode and its misfits, (episodes, delays, lags)."""
    curves = misfits[np.arange(len(traces)), delays]  # (episodes, lags)
    at = int(curves.sum(axis=0).argmin())
    distinct = curves[:, at] - curves.min(axis=1) > SURE
    if distinct.mean() > SEVERAL:
        lags = LAGS[curves.argmin(axis=1)]
        return float(lags.min()), float(np.median(lags)), float(lags.max())
    fine = np.linspace(LAGS[max(0, at - 2)], LAGS[min(len(LAGS) - 1, at + 2)], 33)
    curve = np.zeros(len(fine))
    for trace, delay in zip(traces, delays, strict=True):
        observed = [motions(trace, answer.signal, answer.column) for answer in by_element]
        curve += [_misfit(observed, by_element, commanded(trace.executed, int(delay), lag)) for lag in fine]
    likely = fine[curve <= np.min(curve) + 2 * DROP]
    return float(likely.min()), float(fine[np.argmin(curve)]), float(likely.max())


def _misfit(observed: Sequence[Motions], by_element: Sequence[Answer], actions: np.ndarray) -> float:
    """Return -2 log likelihood of an episode's motions, up to a constant; noise and gain of each element are free.

    `actions` are the commands after delay and lag, (T, A).
    """
    total = 0.0
    for (to, changes), answer in zip(observed, by_element, strict=True):
        predicted = np.einsum("mta,ta->m", history(actions, to), answer.weights)
        predicted, changes = predicted - predicted.mean(), changes - changes.mean()
        gain = max(0.0, float(predicted @ changes) / max(1e-30, float(predicted @ predicted)))
        residual = changes - gain * predicted
        total += len(changes) * np.log(max(1e-24, float(residual @ residual) / max(1, len(changes))))
    return total


def explained(traces: Sequence[Trace], by_element: Sequence[Answer], delay: int, lag: float) -> float:
    """Return the fraction of variance that a delay and a lag explain at the reference's gain, mean over elements."""
    shares = []
    for predicted, changes in _predicted(traces, by_element, delay, lag):
        residual = changes - predicted
        shares.append(1.0 - float(residual @ residual) / max(1e-30, float(changes @ changes)))
    return float(np.mean(shares))


def _gain(traces: Sequence[Trace], by_element: Sequence[Answer], delay: int, lag: float) -> float:
    motions_of_elements = _predicted(traces, by_element, delay, lag)
    gains = [float(p @ changes) / max(1e-30, float(p @ p)) for p, changes in motions_of_elements]
    return float(np.median(gains))


def _predicted(
    traces: Sequence[Trace], by_element: Sequence[Answer], delay: int, lag: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield predicted and observed motions of each element, (m,) each, minus their means."""
    actions = [commanded(trace.executed, delay, lag) for trace in traces]
    for answer in by_element:
        rows, changes = _stacked(traces, actions, answer.signal, answer.column)
        predicted = np.einsum("mta,ta->m", rows, answer.weights)
        yield predicted - predicted.mean(), changes - changes.mean()


def _stacked(
    traces: Sequence[Trace], actions: Sequence[np.ndarray], signal: str, column: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the commands before each motion of an element, (m, TAPS, A), and the motions (m,)."""
    rows, changes = [], []
    for trace, commands in zip(traces, actions, strict=True):
        motion = motions(trace, signal, column)
        rows.append(history(commands, motion.to))
        changes.append(motion.changes)
    return np.concatenate(rows), np.concatenate(changes)
