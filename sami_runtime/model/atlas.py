"""The in-distribution reference ("atlas"): the distribution of contexts in the training tasks, and distances to it.

It uses the mean of the last few contexts (a window), because a single context also changes with the gait and the phase
of a motion. Each training task is a Gaussian over such means, from a step on at which the encoder has seen enough. The
distance of a mean to the reference is the Mahalanobis distance to the nearest task. The threshold for "too far" is
calibrated on episodes to which no Gaussian was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from sami_runtime.signals import Count, Entry, NotNegative, Number, Positive


class Atlas(Entry):
    """The reference in a model's contract: K tasks as Gaussians over mean contexts of C numbers."""

    tasks: tuple[dict[str, Any], ...] = Field(min_length=1)
    """(K,): the training tasks."""
    mean: tuple[tuple[Number, ...], ...]
    """(K, C): the mean context of each task."""
    covariance: tuple[tuple[tuple[Number, ...], ...], ...]
    """(K, C, C): the covariance of a window's mean within each task."""
    window: int = Field(default=1, ge=1)
    """W: number of the last contexts that are averaged."""
    step: Count
    """First step of an episode, from 0, that is judged; before it the encoder has not seen enough."""
    threshold: Positive
    """Largest distance without an alarm."""
    slow: NotNegative
    """Largest drift |m_t - m_(t-1)| of a settled mean: the median over training episodes."""
    fast: NotNegative
    """Drift above which a settled mean counts as adapting again."""
    false_alarm_rate: float = Field(gt=0, lt=1)
    """Share of held-out training episodes beyond `threshold`, and beyond `fast`; it may be higher in new episodes."""
    episodes: Count
    """Number of episodes from which mean, covariance, step and slow were computed."""
    held_out: Count
    """Number of other episodes, from which threshold and fast were computed."""

    @model_validator(mode="after")
    def _shapes(self) -> Atlas:
        k, c = len(self.tasks), len(self.mean[0]) if self.mean else 0
        if len(self.mean) != k or len(self.covariance) != k or c < 1:
            raise ValueError(f"{len(self.mean)} means and {len(self.covariance)} covariances for {k} tasks")
        rows = [row for task in self.covariance for row in (task, *task)]
        if {len(row) for row in (*self.mean, *rows)} != {c}:
            raise ValueError(f"means and covariances are not all of size {c}")
        for number, matrix in enumerate(np.array(self.covariance)):
            if not np.array_equal(matrix, matrix.T) or np.linalg.eigvalsh(matrix)[0] <= 0.0:
                raise ValueError(f"covariance {number} is not symmetric and positive definite")
        if self.step < self.window:
            raise ValueError(f"step {self.step} is before {self.window}, by which a window and the one before are full")
        if self.fast < self.slow:
            raise ValueError(f"fast {self.fast} is below slow {self.slow}")
        return self

    @property
    def size(self) -> int:
        """C, the size of a context."""
        return len(self.mean[0])

    @property
    def whitening(self) -> NDArray[np.float64]:
        """(K, C, C): inv(L) of each covariance L L'; |inv(L) (c - mean)| is the Mahalanobis distance."""
        return np.linalg.inv(np.linalg.cholesky(np.array(self.covariance)))


def text_of(value: Any) -> str:
    """Return a short text for the value of a task's feature: a number, or the items of a list, e.g. ``0+3``."""
    if isinstance(value, (list, tuple)):
        return "+".join(str(part) for part in value) or "none"
    return f"{value:g}"


def label(task: Mapping[str, Any], empty: str = "the one task") -> str:
    """Return a short text for a task, e.g. ``mass 10, friction 0.1``; `empty` for one without features."""
    return ", ".join(f"{name} {text_of(value)}" for name, value in task.items()) or empty


class Place(NamedTuple):
    """The position of a mean context relative to the reference."""

    nearest: int
    """Index of the nearest task."""
    distance: float
    """Mahalanobis distance to the nearest task, in standard deviations."""
    score: float
    """Out-of-distribution score: `distance` divided by the reference's threshold; above 1 is an alarm."""


class Locator:
    """Computes the nearest task, distance and score of mean contexts, without large allocations after its creation.

    >>> unit = ((1.0, 0.0), (0.0, 1.0))
    >>> atlas = Atlas(
    ...     tasks=({"mass": 1.0}, {"mass": 10.0}), mean=((0.0, 0.0), (4.0, 0.0)), covariance=(unit, unit), step=5,
    ...     threshold=2.0, slow=0.1, fast=0.5, false_alarm_rate=0.05, episodes=50, held_out=50,
    ... )
    >>> Locator(atlas)(np.array([4.0, 1.0]))
    Place(nearest=1, distance=1.0, score=0.5)
    """

    def __init__(self, atlas: Atlas) -> None:
        self.atlas = atlas
        self._mean = np.array(atlas.mean)[:, :, None]  # (K, C, 1)
        self._whiten = atlas.whitening
        self._offset, self._white = np.empty_like(self._mean), np.empty_like(self._mean)

    def __call__(self, context: NDArray[Any]) -> Place:
        """Return the place of a mean context (C,)."""
        np.subtract(context[:, None], self._mean, out=self._offset)
        np.matmul(self._whiten, self._offset, out=self._white)
        np.multiply(self._white, self._white, out=self._offset)
        squared = self._offset.sum(axis=(1, 2))
        nearest = int(squared.argmin())
        distance = float(squared[nearest]) ** 0.5
        return Place(nearest, distance, distance / self.atlas.threshold)
