"""Which trajectories a contrastive loss compares (paper, section 4.3 and figure 4).

Every strategy draws one current task for each loss, and up to `count` trajectories: half are queries and positive
keys, half are negatives. With fewer in the buffer, K is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sami_train.episodes.buffer import EpisodeBuffer, Windows

RIDGE = 1e-3
"""Penalty that keeps the regression defined if all drawn starts or goals are equal; for normalised columns."""


def rank_by(kind: str, buffer: EpisodeBuffer, where: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the scores (n,) of a buffer's episodes at these positions (n,), all of one task; higher is better.

    Kinds: "return" (paper, section 4.3); "advantage" is the part of the return that start, goal and the policy's age do
    not explain. Two controls ignore skills: "shuffled" is random, "recency" is the policy's age alone.
    """
    if kind == "shuffled":
        return rng.random(len(where))
    if kind == "recency":
        return buffer.numbers(where).astype(np.float64)
    returns = buffer.returns[where]
    return unexplained(returns, _circumstances(buffer, where)) if kind == "advantage" else returns


def unexplained(values: np.ndarray, causes: np.ndarray) -> np.ndarray:
    """Return the residuals (n,) of a ridge regression of values (n,) on causes (n, C); equal values can differ in it.

    If all values are equal, all residuals are 0, without rounding noise that would rank them.
    """
    if np.ptp(values) == 0.0:
        return np.zeros_like(values)
    spread = causes.std(0)
    design = np.column_stack([np.ones(len(values)), (causes - causes.mean(0)) / np.where(spread > 0, spread, 1.0)])
    penalty = RIDGE * len(values) * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    return values - design @ np.linalg.solve(design.T @ design + penalty, design.T @ values)


def _circumstances(buffer: EpisodeBuffer, where: np.ndarray) -> np.ndarray:
    """Return causes of a return other than skill, (n, C): the policy's age, and the start, the goal, their distance."""
    causes = [buffer.numbers(where)[:, None].astype(np.float64)]
    if buffer.goal is not None:
        start = buffer.observations[where, 0]
        achieved, desired = start[:, buffer.goal.achieved], start[:, buffer.goal.desired]
        distance = np.linalg.norm(desired - achieved, axis=1, keepdims=True)
        causes += [distance, distance**2, achieved, desired]
    return np.concatenate(causes, 1)


class Trajectories(NamedTuple):
    """Buffer positions of the trajectories to compare; no position is on both sides."""

    positives: np.ndarray
    """(N,), N >= 2, of the current task: queries, and positive keys of one another."""
    negatives: np.ndarray
    """(K - 1,), at least one."""


Score = Callable[[np.ndarray], np.ndarray]
"""Maps buffer positions (n,) to the scores that rank them (n,); higher is better."""


Strategy = Callable[[EpisodeBuffer, int, np.random.Generator, Score], Trajectories | None]
"""Draws up to a number of trajectories, for both sides together, and ranks them by the score; None if the buffer does
not have two sides yet."""


def same_task(buffer: EpisodeBuffer, count: int, rng: np.random.Generator, score: Score) -> Trajectories | None:
    """Compare high scores of the current task with low scores of the same task (SaNCE)."""
    return _split(buffer, _current(buffer, rng), count, rng, score)


def other_tasks(buffer: EpisodeBuffer, count: int, rng: np.random.Generator, score: Score) -> Trajectories | None:
    """Compare the current task with the other tasks, whatever the scores (InfoNCE)."""
    current = _current(buffer, rng)
    positives = _draw(buffer.of_task(current), count // 2, rng)
    negatives = _draw(np.flatnonzero(buffer.tasks[: len(buffer)] != current), count // 2, rng)
    return Trajectories(positives, negatives) if len(positives) > 1 and len(negatives) else None


def low_returns_of_all_tasks(
    buffer: EpisodeBuffer, count: int, rng: np.random.Generator, score: Score
) -> Trajectories | None:
    """Compare high scores of the current task with low scores of every task, in equal shares (Sa+InfoNCE)."""
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
    trajectories: Trajectories, buffer: EpisodeBuffer, rng: np.random.Generator
) -> tuple[Trajectories, Windows] | None:
    """Draw an age, in steps of an episode, and drop the trajectories that ended before it; None if too few remain.

    At one age, neither the length nor the step count in a recurrent state separates the two sides. The returned window
    (B = 1) ends at that age, and applies to every trajectory.
    """
    window = buffer.windows(rng.choice(trajectories.positives, 1), rng)
    length = rng.integers(window.burn_in + 1, window.lengths + 1)
    compared = Trajectories(*(where[buffer.lengths[where] >= window.starts + length] for where in trajectories))
    few = len(compared.positives) < 2 or not len(compared.negatives)
    return None if few else (compared, window._replace(lengths=length))


def _current(buffer: EpisodeBuffer, rng: np.random.Generator) -> int:
    return int(rng.choice(buffer.task_indices()))


def _draw(where: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(where, min(count, len(where)), replace=False)


def _split(
    buffer: EpisodeBuffer, task: int, count: int, rng: np.random.Generator, score: Score, least: int = 2
) -> Trajectories | None:
    """Rank `count` trajectories of a task, and split the better from the worse, at most half of `count` each.

    The split is at the change of score nearest to the middle: equal scores are never on both sides. The better side has
    at least `least` trajectories; the current task needs two, because a query's positive is another trajectory. None
    if all scores are equal, or too few are above the others.
    """
    episodes = _draw(buffer.of_task(task), count, rng)
    values = score(episodes)
    order = np.argsort(-values, kind="stable")
    ranked, values = episodes[order], values[order]
    changes = np.flatnonzero(values[:-1] > values[1:]) + 1
    changes = changes[changes >= least]
    if not len(changes):
        return None
    parting = changes[np.abs(changes - len(ranked) / 2).argmin()]
    half = max(count // 2, 1)
    return Trajectories(ranked[:parting][:half], ranked[parting:][-half:])
