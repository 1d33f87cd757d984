"""How late and how slowly a robot follows its commands, beside a reference that follows them as the simulator does.

What moves in a period is a sum over the last commands, weighed as the reference weighs them. A robot whose commands
arrive late, or whose actuators lag, moves as the reference does under the commands that its actuators make of them:
those of the `Actuator` that a profile simulates. The delay and the lag that explain its motions best are found on a
grid. Constant errors and gains are left free, and so is noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sami_train.studies.fit_gap.trace import FIRST, Trace

TAPS = 5
"""Periods after which a command has done what it does."""
LEAST_EXPLAINED = 0.5
"""Share of its motions that commands explain, in the reference, in an element that is worth looking at."""
DELAYS = np.arange(0, 9)
"""Tried [periods]."""
LAGS = np.array([0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 2.8, 3.3, 4.0, 5.0, 6.0, 8.0])
"""Tried [periods]."""
DROP = 3.84
"""Twice the log likelihood at the ends of a 95 % interval, doubled: neighbouring motions share a reading's noise."""

SURE, SEVERAL = 15.0, 0.25
"""By how much twice an episode's log likelihood must be higher for a delay or a lag of its own; the share of episodes
with a lag of their own above which it differs between them."""


class Motions(NamedTuple):
    """What moved between two readings that are a period apart, (m,), by what was written until then."""

    to: np.ndarray
    """At which tick each motion ended."""
    moved: np.ndarray
    """By how much."""


class Answer(NamedTuple):
    """How an element answers to commands."""

    name: str
    """SIGNAL.ELEMENT."""
    signal: str
    column: int
    weights: np.ndarray
    """Of the commands of the last periods, (TAPS, A)."""
    explained: float
    """Share of its motions in the reference."""


class ActuatorResponse(NamedTuple):
    """Delay and lag, in periods."""

    delay: tuple[int, int, int]
    """Low end, estimate and high end."""
    lag: tuple[float, float, float]
    gain: float
    """How far it moves, as a share of how far the reference does."""
    elements: tuple[str, ...]
    """By which this was told."""
    margin: float
    """By how much twice the log likelihood of every other delay is lower."""


def motions(trace: Trace, signal: str, column: int) -> Motions:
    """Return what an element did between messages that follow each other."""
    sent, values = trace.fresh(signal)
    both = (np.diff(sent) == 1) & (sent[:-1] >= FIRST)
    return Motions(sent[1:][both], np.diff(values[:, column])[both])


def commanded(executed: np.ndarray, delay: int, lag: float) -> np.ndarray:
    """Return what actuators make of commands (T, A) that arrive `delay` periods late and are followed with a lag."""
    late = _delayed(executed, delay)
    if lag == 0.0:
        return late
    left, reached, state = np.exp(-1.0 / lag), np.empty_like(late), np.zeros(executed.shape[1])
    for tick, command in enumerate(late):
        state = command + left * (state - command)
        reached[tick] = state
    return reached


def _delayed(written: np.ndarray, delay: int) -> np.ndarray:
    """Return commands (T, A) some periods later; nothing was asked before."""
    return np.concatenate([np.zeros((delay, written.shape[1])), written])[: len(written)]


def history(written: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return the last commands before each tick `to` (m,), (m, TAPS, A)."""
    padded = np.concatenate([np.zeros((TAPS, written.shape[1])), written])
    return padded[to[:, None] + TAPS - 1 - np.arange(TAPS)]


def answers(reference: Sequence[Trace], names: Sequence[tuple[str, str, int]]) -> list[Answer]:
    """Return the elements of a reference whose motions commands explain, and how.

    Args:
        reference: Episodes in which commands were followed without a gap.
        names: Elements to look at: `SIGNAL.ELEMENT`, the signal and the column.
    """
    fitted = []
    for name, signal, column in names:
        rows, moved = _stacked(reference, signal, column)
        if len(moved) < 2 * TAPS or not np.ptp(moved) > 0.0:
            continue
        flat = rows.reshape(len(rows), -1)
        # A ridge keeps commands that were never given from weighing anything.
        scale = 1e-6 * max(1e-12, float((flat**2).sum(axis=0).max()))
        centred, target = flat - flat.mean(axis=0), moved - moved.mean()
        weights = np.linalg.solve(centred.T @ centred + scale * np.eye(flat.shape[1]), centred.T @ target)
        left = target - centred @ weights
        explained = 1.0 - float(left @ left) / float(target @ target)
        if explained >= LEAST_EXPLAINED:
            fitted.append(Answer(name, signal, column, weights.reshape(rows.shape[1:]), explained))
    return fitted


def misfits_of(traces: Sequence[Trace], by_element: Sequence[Answer]) -> np.ndarray:
    """Return the misfit of each episode under each delay and lag, (episodes, delays, lags)."""
    table = np.empty((len(traces), len(DELAYS), len(LAGS)))
    for row, trace in zip(table, traces, strict=True):
        observed = [motions(trace, answer.signal, answer.column) for answer in by_element]
        for column, lag in enumerate(LAGS):
            followed = commanded(trace.executed, 0, lag)
            for delay in DELAYS:
                row[delay, column] = _misfit(observed, by_element, _delayed(followed, int(delay)))
    return table


def fit_response(traces: Sequence[Trace], by_element: Sequence[Answer], misfits: np.ndarray) -> ActuatorResponse:
    """Return the delay and the lag under which the motions of some episodes are what the reference would do.

    Where episodes tell other ones than all of them together, the ends are theirs.

    Args:
        traces: The episodes.
        by_element: Elements that answer to commands.
        misfits: `misfits_of` these episodes, (episodes, delays, lags).
    """
    pooled = misfits.sum(axis=0).min(axis=1)
    delay = int(pooled.argmin())
    # By episode, how likely each delay is, and by how much its own is likelier than that of all.
    alone = misfits.min(axis=2)
    delays = np.where(alone[:, delay] - alone.min(axis=1) > SURE, alone.argmin(axis=1), delay)
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
    apart = curves[:, at] - curves.min(axis=1) > SURE
    if apart.mean() > SEVERAL:
        lags = LAGS[curves.argmin(axis=1)]
        return float(lags.min()), float(np.median(lags)), float(lags.max())
    fine = np.linspace(LAGS[max(0, at - 2)], LAGS[min(len(LAGS) - 1, at + 2)], 33)
    curve = np.zeros(len(fine))
    for trace, delay in zip(traces, delays, strict=True):
        observed = [motions(trace, answer.signal, answer.column) for answer in by_element]
        curve += [_misfit(observed, by_element, commanded(trace.executed, int(delay), lag)) for lag in fine]
    likely = fine[curve <= np.min(curve) + 2 * DROP]
    return float(likely.min()), float(fine[np.argmin(curve)]), float(likely.max())


def _misfit(observed: Sequence[Motions], by_element: Sequence[Answer], written: np.ndarray) -> float:
    """Return -2 log likelihood of an episode's motions, up to a constant: noise and gain of each element are free.

    Args:
        observed: Motions of each element.
        by_element: The elements.
        written: What actuators made of the commands, (T, A).
    """
    total = 0.0
    for (to, moved), answer in zip(observed, by_element, strict=True):
        predicted = np.einsum("mta,ta->m", history(written, to), answer.weights)
        predicted, moved = predicted - predicted.mean(), moved - moved.mean()
        gain = max(0.0, float(predicted @ moved) / max(1e-30, float(predicted @ predicted)))
        left = moved - gain * predicted
        total += len(moved) * np.log(max(1e-24, float(left @ left) / max(1, len(moved))))
    return total


def explained(traces: Sequence[Trace], by_element: Sequence[Answer], delay: int, lag: float) -> float:
    """Return the share of the motions that a delay and a lag explain with the reference's gain, mean over elements."""
    written = [commanded(trace.executed, delay, lag) for trace in traces]
    shares = []
    for answer in by_element:
        predicted, moved = _predicted(traces, answer, written)
        left = moved - predicted
        shares.append(1.0 - float(left @ left) / max(1e-30, float(moved @ moved)))
    return float(np.mean(shares))


def _predicted(traces: Sequence[Trace], answer: Answer, written: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted and observed motions of an element, each less its mean."""
    expected, observed = [], []
    for trace, commands in zip(traces, written, strict=True):
        to, moved = motions(trace, answer.signal, answer.column)
        expected.append(np.einsum("mta,ta->m", history(commands, to), answer.weights))
        observed.append(moved)
    predicted, moved = np.concatenate(expected), np.concatenate(observed)
    return predicted - predicted.mean(), moved - moved.mean()


def _gain(traces: Sequence[Trace], by_element: Sequence[Answer], delay: int, lag: float) -> float:
    written = [commanded(trace.executed, delay, lag) for trace in traces]
    gains = []
    for answer in by_element:
        predicted, moved = _predicted(traces, answer, written)
        gains.append(float(predicted @ moved) / max(1e-30, float(predicted @ predicted)))
    return float(np.median(gains))


def _stacked(traces: Sequence[Trace], signal: str, column: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the commands before each motion of an element, (m, TAPS, A), and the motions (m,)."""
    rows, moved = [], []
    for trace in traces:
        read = motions(trace, signal, column)
        rows.append(history(trace.executed, read.to))
        moved.append(read.moved)
    return np.concatenate(rows), np.concatenate(moved)
