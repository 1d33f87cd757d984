"""The atlas: where the contexts of known dynamics lie, and how far from them a context is.

What is placed is the mean of the last few contexts, the window: a single context swings with a gait and with what the
robot is about to do, its mean is where the dynamics show. Each training task is a Gaussian over the means that it leads
to, from a step on at which the encoder has seen enough. The distance to the atlas is the Mahalanobis distance to the
nearest of them. What counts as far is calibrated on episodes that no Gaussian was fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from sami_runtime.signals import Count, Entry, NotNegative, Number, Positive


class Atlas(Entry):
    """K known dynamics as Gaussians over mean contexts of C numbers, as they stand in a model's contract."""

    tasks: tuple[dict[str, Any], ...] = Field(min_length=1)
    """(K,): the training tasks."""
    mean: tuple[tuple[Number, ...], ...]
    """(K, C): the mean context of each task."""
    covariance: tuple[tuple[tuple[Number, ...], ...], ...]
    """(K, C, C): the covariance of a window's mean within each task."""
    window: int = Field(default=1, ge=1)
    """W: how many contexts, the last ones, are averaged and placed; 1 places each by itself."""
    step: Count
    """First step of an episode, from 0, whose window counts; before it the encoder has not seen enough."""
    threshold: Positive
    """Largest distance that is no alarm."""
    slow: NotNegative
    """Drift |m_t - m_(t-1)| of a window's mean up to which it is at rest: the median over training episodes."""
    fast: NotNegative
    """Drift above which a mean that was at rest is on its way to another place."""
    false_alarm_rate: float = Field(gt=0, lt=1)
    """Share of held-out training episodes beyond `threshold`, and `fast`; of fresh ones it may be more."""
    episodes: Count
    """Episodes that mean, covariance, step and slow come from."""
    held_out: Count
    """Other episodes, that threshold and fast come from."""

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
        """C."""
        return len(self.mean[0])

    @property
    def whitening(self) -> NDArray[np.float64]:
        """(K, C, C): inv(L) of each covariance L L', so that |inv(L) (c - mean)| is the distance."""
        return np.linalg.inv(np.linalg.cholesky(np.array(self.covariance)))


def shown(value: Any) -> str:
    """Return a short text for a feature's value: a number, or the parts of a list, e.g. ``0+3``."""
    if isinstance(value, (list, tuple)):
        return "+".join(str(part) for part in value) or "none"
    return f"{value:g}"


def label(task: Mapping[str, Any], empty: str = "the one task") -> str:
    """Return a short text for a task, e.g. ``mass 10, friction 0.1``; `empty` for one without features."""
    return ", ".join(f"{name} {shown(value)}" for name, value in task.items()) or empty


class Place(NamedTuple):
    """Where a mean context lies."""

    nearest: int
    """Index of the nearest task."""
    distance: float
    """Mahalanobis distance to it, in standard deviations."""
    score: float
    """Out-of-distribution score: the distance over the atlas's threshold; above 1 is an alarm."""


class Locator:
    """Places mean contexts in an atlas. It allocates nothing large after it was made.

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
        """Return the place of a context, or of the mean of some (C,)."""
        np.subtract(context[:, None], self._mean, out=self._offset)
        np.matmul(self._whiten, self._offset, out=self._white)
        np.multiply(self._white, self._white, out=self._offset)
        squared = self._offset.sum(axis=(1, 2))
        nearest = int(squared.argmin())
        distance = float(squared[nearest]) ** 0.5
        return Place(nearest, distance, distance / self.atlas.threshold)
