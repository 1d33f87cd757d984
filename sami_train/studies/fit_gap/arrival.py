"""Latency, jitter and dropout of observations, from the stamps of what was read.

A message that is read for the first time tells its delay; one that never is was lost, or came after a newer one. Both
are what the profile's own line makes likely: delay = floor(latency + jitter u + 1/2) periods, u uniform, lost with a
probability. Latency is taken by episode, jitter and dropout are those of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sami_train.studies.fit_gap.trace import FIRST, Trace

MOST = 40
"""Longest delay that is told apart, in periods."""
STEP = 0.25
"""Of the latencies and jitters that are tried, in periods."""
DROP = 1.92
"""By how much the log likelihood is lower at the ends of a 95 % interval."""
SLOWEST = 12
"""Longest time between the messages of a slow sensor that is told from lost ones, in periods."""
REGULAR = 0.95
"""Share of them that are a whole number of such times apart."""
LOSSES = np.concatenate([[0.0], np.geomspace(0.002, 0.95, 80)])


class Arrivals(NamedTuple):
    """What came of the messages of an episode: how many by delay [periods], (MOST,) each."""

    read: np.ndarray
    """Those that were read, by their delay."""
    missing: np.ndarray
    """Those that never were, by the least delay that would explain it."""


class Arrival(NamedTuple):
    """How observations arrive, in periods."""

    latency: tuple[float, float]
    """Lowest and highest of the episodes."""
    jitter: tuple[float, float, float]
    """Low end, estimate and high end."""
    dropout: tuple[float, float, float]
    """The same."""
    messages: int


def spacing(traces: Sequence[Trace], name: str) -> float:
    """Return how many periods lie between two messages of a sensor; 1 for one that measures at every tick."""
    apart = np.concatenate([np.diff(trace.fresh(name)[0]) for trace in traces])
    if not len(apart):
        return np.inf
    return float(max(every for every in range(1, SLOWEST + 1) if (apart % every == 0).mean() >= REGULAR))


def arrivals(trace: Trace, name: str) -> Arrivals:
    """Return what came of a signal's messages."""
    read, missing = np.zeros(MOST), np.zeros(MOST)
    newest = FIRST - 1
    for tick, sent in zip(trace.ticks, trace.sent[name], strict=True):
        if sent <= newest:
            continue
        for lost in range(newest + 1, sent):
            missing[min(MOST - 1, tick - lost)] += 1
        read[min(MOST - 1, tick - sent)] += 1
        newest = sent
    return Arrivals(read, missing)


def fit_arrival(episodes: list[Arrivals]) -> Arrival:
    """Return the likeliest latency of each episode with the likeliest jitter and dropout of all."""
    observed = [one for one in episodes if one.read.sum()]
    spread = max(float(np.flatnonzero(one.read).max() - np.flatnonzero(one.read).min()) for one in observed)
    jitters = np.arange(0.0, spread + 2.0, STEP)
    likelihood = np.zeros((len(jitters), len(LOSSES)))
    latencies = np.zeros((len(observed), len(jitters), len(LOSSES)))
    for number, one in enumerate(observed):
        least = float(np.flatnonzero(one.read).min())
        tried = np.arange(max(0.0, least - spread - 1.0), least + 0.5, STEP)
        table = np.stack([_likelihood(one, latency, jitters) for latency in tried])  # (latencies, jitters, losses)
        best = table.max(axis=0)
        # Several latencies explain whole periods alike; the middle one of them stands for all.
        equal = table >= best - 1e-9
        latencies[number] = (equal * tried[:, None, None]).sum(axis=0) / equal.sum(axis=0)
        likelihood += best
    # The least jitter that is likely: below a period it can hardly be told from a latency.
    least = int(np.argmax(likelihood.max(axis=1) >= likelihood.max() - DROP))
    at = least, int(likelihood[least].argmax())
    likely = likelihood >= likelihood.max() - DROP
    jitter, loss = jitters[likely.any(axis=1)], LOSSES[likely.any(axis=0)]
    chosen = latencies[:, at[0], at[1]]
    if jitters[least] == 0.0:  # only whole periods can be told
        chosen = np.floor(chosen + 0.5)
    return Arrival(
        (float(chosen.min()), float(chosen.max())),
        (float(jitter.min()), float(jitters[at[0]]), float(jitter.max())),
        (float(loss.min()), float(LOSSES[at[1]]), float(loss.max())),
        int(sum(one.read.sum() + one.missing.sum() for one in observed)),
    )


def _likelihood(one: Arrivals, latency: float, jitters: np.ndarray) -> np.ndarray:
    """Return the log likelihood of an episode, (jitters, losses)."""
    edges = np.arange(MOST + 1) - 0.5
    # The share of [latency, latency + jitter) that each whole delay is the nearest of.
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.clip((edges[None] - latency) / jitters[:, None], 0.0, 1.0)
    below[jitters == 0.0] = edges > latency
    chance = np.diff(below, axis=1)
    later = 1.0 - below[:, :-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        read = np.where(one.read > 0, one.read * np.log(chance), 0.0).sum(axis=1)[:, None]
        received = one.read.sum() * np.log1p(-LOSSES)[None]
        gone = LOSSES[None, :, None] + (1.0 - LOSSES)[None, :, None] * later[:, None, :]
        missing = np.where(one.missing > 0, one.missing * np.log(gone), 0.0).sum(axis=2)
    return np.nan_to_num(read + received + missing, nan=-np.inf, neginf=-np.inf)
