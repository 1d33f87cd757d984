"""Which features of the flat observation the networks read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sami_train.envs.measure import Goal

GOAL_SCALE = 10.0
"""Goal features are multiplied by this: 10 cm become 1."""


@dataclass(frozen=True)
class FeatureLayout:
    """A linear map from the flat observation (D,) to features (F,); the encoder's columns come first."""

    projection: np.ndarray
    """(D, F) float32."""
    scale: np.ndarray
    """(F,) float32: initial factor of each column; replaced where the column is normalised."""
    normalized: list[int]
    """Columns that running statistics normalise."""
    encoder_columns: int
    """How many of the first columns the encoder reads."""


def feature_layout(
    size: int, goal: Goal | None, *, encoder_reads_goal: bool, relative_goal: bool, normalize: bool
) -> FeatureLayout:
    """Lay out the features of a flat observation of `size` numbers.

    Args:
        size: D.
        goal: where the goal lies; None where there is none.
        encoder_reads_goal: whether the encoder sees the goal too. The dynamics do not depend on it, and an
            encoder that does not see it gives one context for every goal that hindsight asks about.
        relative_goal: give actor and critics (goal - achieved) and the goal, both times 10, instead of
            the achieved and the desired goal as they come.
        normalize: normalise the other columns by running mean and deviation.
    """
    identity = np.eye(size, dtype=np.float32)
    if goal is None:
        plain, goals = identity, np.zeros((size, 0), np.float32)
    else:
        in_goal = np.zeros(size, bool)
        in_goal[goal.achieved] = in_goal[goal.desired] = True
        plain = identity[:, ~in_goal]
        achieved, desired = identity[:, goal.achieved], identity[:, goal.desired]
        goals = np.concatenate([desired - achieved, desired] if relative_goal else [achieved, desired], axis=1)
    projection = np.concatenate([plain, goals], axis=1)
    plain_columns, all_columns = plain.shape[1], projection.shape[1]
    scale = np.ones(all_columns, np.float32)
    if relative_goal:
        scale[plain_columns:] = GOAL_SCALE
    columns = range(plain_columns if relative_goal else all_columns)
    return FeatureLayout(
        projection=projection,
        scale=scale,
        normalized=list(columns) if normalize else [],
        encoder_columns=all_columns if encoder_reads_goal else plain_columns,
    )
