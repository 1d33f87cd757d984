"""Which trajectories a contrastive loss compares (paper, section 4.3 and figure 4).

Every strategy looks at one current task, drawn anew for each loss, and takes up to `count` trajectories: half as
queries and positive keys, half as negatives. Where the buffer holds fewer, it takes what there is, and K is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sami_train.episodes.buffer import EpisodeBuffer, Windows

RIDGE = 1e-3
"""Keeps the regression defined where drawn starts or goals are alike; in units of its normalised columns."""


def rank_by(kind: str, buffer: EpisodeBuffer, where: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the scores (n,) of a buffer's episodes at these positions (n,), all of one task; higher is better.

    Kinds: "return" is what an episode was paid (paper, section 4.3), "advantage" the return less what the start, the
    goal and the policy's age explain. Two controls know nothing of skills: "shuffled" is chance, "recency" the policy's
    age alone.
    """
    if kind == "shuffled":
        return rng.random(len(where))
    if kind == "recency":
        return buffer.numbers(where).astype(np.float64)
    returns = buffer.returns[where]
    return unexplained(returns, _circumstances(buffer, where)) if kind == "advantage" else returns


def unexplained(values: np.ndarray, causes: np.ndarray) -> np.ndarray:
    """Return the residuals (n,) of a ridge regression of values (n,) on causes (n, C); equal values stay equal.

    Values that are all alike have no better and no worse, and noise must not make any.
    """
    if np.ptp(values) == 0.0:
        return np.zeros_like(values)
    spread = causes.std(0)
    design = np.column_stack([np.ones(len(values)), (causes - causes.mean(0)) / np.where(spread > 0, spread, 1.0)])
    penalty = RIDGE * len(values) * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    return values - design @ np.linalg.solve(design.T @ design + penalty, design.T @ values)


def _circumstances(buffer: EpisodeBuffer, where: np.ndarray) -> np.ndarray:
    """Return what an episode owes to luck and to its policy's age, (n, C): age; start, goal, and how far apart."""
    causes = [buffer.numbers(where)[:, None].astype(np.float64)]
    if buffer.goal is not None:
        start = buffer.observations[where, 0]
        achieved, desired = start[:, buffer.goal.achieved], start[:, buffer.goal.desired]
        distance = np.linalg.norm(desired - achieved, axis=1, keepdims=True)
        causes += [distance, distance**2, achieved, desired]
    return np.concatenate(causes, 1)


class Trajectories(NamedTuple):
    """Buffer positions of what is compared; nothing stands on both sides."""

    positives: np.ndarray
    """At least two, of the current task: queries, and keys for one another."""
    negatives: np.ndarray
    """At least one."""


Score = Callable[[np.ndarray], np.ndarray]
"""Buffer positions (n,) to what ranks them (n,), higher is better."""


Strategy = Callable[[EpisodeBuffer, int, np.random.Generator, Score], Trajectories | None]
"""Draws up to so many trajectories, of both sides together, which the score ranks; None where there are none to compare
yet."""


def same_task(buffer: EpisodeBuffer, count: int, rng: np.random.Generator, score: Score) -> Trajectories | None:
    """Set high returns of the current task against low returns of the same task (SaNCE)."""
    return _split(buffer, _current(buffer, rng), count, rng, score)


def other_tasks(buffer: EpisodeBuffer, count: int, rng: np.random.Generator, score: Score) -> Trajectories | None:
    """Set the current task against the others, whatever the returns (InfoNCE)."""
    current = _current(buffer, rng)
    positives = _draw(buffer.of_task(current), count // 2, rng)
    negatives = _draw(np.flatnonzero(buffer.tasks[: len(buffer)] != current), count // 2, rng)
    return Trajectories(positives, negatives) if len(positives) > 1 and len(negatives) else None


def low_returns_of_all_tasks(
    buffer: EpisodeBuffer, count: int, rng: np.random.Generator, score: Score
) -> Trajectories | None:
    """Set high returns of the current task against low returns of every task, in equal shares (Sa+InfoNCE)."""
    current = _current(buffer, rng)
    current_split = _split(buffer, current, count, rng, score)
    if current_split is None:
        return None
    tasks = buffer.task_indices()
    share = math.ceil(count // 2 / len(tasks))
    splits = [_split(buffer, task, 2 * share, rng, score, least=1) for task in tasks if task != current]
    low = np.concatenate([current_split.negatives[-share:], *(split.negatives for split in splits if split)])
    return Trajectories(current_split.positives, _draw(low, count // 2, rng))


def of_one_age(
    drawn: Trajectories, buffer: EpisodeBuffer, rng: np.random.Generator
) -> tuple[Trajectories, Windows] | None:
    """Draw an age, and leave out the trajectories that ended before it; None where too few are left.

    Compared at one age, trajectories cannot be told apart by counting steps: neither their length nor the clock of a
    recurrent state says which is which. The window (B = 1), which suits every one of them, ends at the age. An age is
    counted from the start of an episode.
    """
    window = buffer.windows(rng.choice(drawn.positives, 1), rng)
    length = rng.integers(window.burn_in + 1, window.lengths + 1)
    compared = Trajectories(*(where[buffer.lengths[where] >= window.starts + length] for where in drawn))
    few = len(compared.positives) < 2 or not len(compared.negatives)
    return None if few else (compared, window._replace(lengths=length))


def _current(buffer: EpisodeBuffer, rng: np.random.Generator) -> int:
    return int(rng.choice(buffer.task_indices()))


def _draw(where: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(where, min(count, len(where)), replace=False)


def _split(
    buffer: EpisodeBuffer,
    task: int,
    count: int,
    rng: np.random.Generator,
    score: Score,
    least: int = 2,
) -> Trajectories | None:
    """Rank `count` trajectories of a task and part the better from the worse, at most half of `count` each.

    They part where the score changes, as near to the middle as it does: equal scores never stand on both sides. At
    least `least` are better; two of the current task, where a query's positive is another one. None where that cannot
    be: all scores are equal, or too few are above the others to tell what good trajectories have in common.
    """
    drawn = _draw(buffer.of_task(task), count, rng)
    values = score(drawn)
    order = np.argsort(-values, kind="stable")
    ranked, values = drawn[order], values[order]
    changes = np.flatnonzero(values[:-1] > values[1:]) + 1
    changes = changes[changes >= least]
    if not len(changes):
        return None
    parting = changes[np.abs(changes - len(ranked) / 2).argmin()]
    half = max(count // 2, 1)
    return Trajectories(ranked[:parting][:half], ranked[parting:][-half:])
