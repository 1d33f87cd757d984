"""The methods: the same SAC and the same encoder, and what contrasts its embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sami_runtime.errors import UnknownName

from .buffer import EpisodeBuffer


@dataclass(frozen=True)
class Method:
    """One method of the paper."""

    name: str
    """Name on the command line."""
    title: str
    """Name in the paper."""
    contrastive: bool
    """Whether SaNCE trains the encoder beside the critic's loss."""


METHODS = {
    method.name: method
    for method in (
        Method("tesac", "TESAC", contrastive=False),
        Method("satesac", "SaTESAC", contrastive=True),
    )
}


def method(name: str) -> Method:
    """Look a method up by its name.

    Raises:
        UnknownName: there is none; lists those that there are.
    """
    if name not in METHODS:
        raise UnknownName("method", name, list(METHODS))
    return METHODS[name]


def ranked_halves(
    buffer: EpisodeBuffer, trajectories: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Positive and negative trajectories of one task (paper, section 4.3).

    Draws a task, then trajectories of it, ranks them by return, and takes the upper half as positives (queries and
    positive keys) and the lower half as negatives.

    Returns:
        Buffer positions of positives and negatives, best first; None while no task has four trajectories.
    """
    ready = [task for task in buffer.task_indices() if len(buffer.of_task(task)) >= 4]
    if not ready:
        return None
    ranked = buffer.ranked(int(rng.choice(ready)), trajectories, rng)
    half = len(ranked) // 2
    return ranked[:half], ranked[len(ranked) - half :]
