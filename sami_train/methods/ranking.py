"""What tells good skills from bad: the scores by which better trajectories are told from worse.

return: what an episode was paid (paper, section 4.3). advantage: the return less what the start, the goal and the
policy's age explain. Two controls that know nothing of skills: shuffled is chance, recency the policy's age alone.
"""

from __future__ import annotations

import numpy as np

from sami_train.episodes.buffer import EpisodeBuffer

RIDGE = 1e-3
"""Keeps the regression defined where drawn starts or goals are alike; in units of its normalised columns."""


def rank_by(kind: str, buffer: EpisodeBuffer, where: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the scores (n,) of the episodes at these positions (n,); higher is better.

    Args:
        kind: see above.
        buffer: that holds them.
        where: positions; of one task, for "advantage" explains by what differs between them.
        rng: source of chance, for "shuffled".
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
