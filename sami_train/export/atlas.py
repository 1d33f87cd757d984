"""The in-distribution reference (atlas) of a model file: where the contexts of the training tasks lie. No torch here.

The file itself drives the training tasks, deterministically. Of each task's episodes the first half fits a Gaussian,
the other half calibrates what is far from it: the threshold is a tolerance limit (Wilks 1941), the k-th smallest of the
n held-out episodes' largest distances. With a confidence of 90 %, a fresh episode in the same tasks then gives an alarm
with a probability of at most the rate, whatever the contexts' true distribution. A policy that learned behind a
gap to reality knows the world so: its contexts are measured behind that gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import Artifact, artifact_of, read_artifact
from sami_runtime.model.atlas import Atlas, Locator
from sami_runtime.model.contract import Contract
from sami_train import seeds
from sami_train.binomial import fewest, tolerance_rank
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.play import OnRound
from sami_train.export.model_file import recompose, write
from sami_train.export.seen import Contexts, collect_contexts, known_gap, known_tasks

Array = NDArray[np.float64]
RATE = 0.05
"""Rate of false alarms, by episode, that thresholds keep to."""
CONFIDENCE = 0.9
"""With which they do."""
WINDOW_SHARE = 1 / 16
"""Of the median training episode, that a window takes: strides of a gait are averaged out, and changes still show."""
SHORTEST_WINDOW = 3
"""Steps that a window takes where episodes are short."""
RIDGE = 1e-6
"""Added to the diagonal of covariances, times its mean: a context may have numbers that never change."""


def least_episodes(tasks: int, rate: float = RATE) -> int:
    """Fewest episodes of each task from which a threshold for the rate can be told."""
    return 2 * math.ceil(fewest(rate, CONFIDENCE) / tasks)


def require_enough(episodes: int, tasks: int, rate: float = RATE) -> None:
    """Refuse fewer episodes of each task than a threshold needs, with the fewest that are enough."""
    if episodes < (least := least_episodes(tasks, rate)):
        raise SamiError(
            f"{episodes} episodes of each of {tasks} tasks are too few for a false-alarm rate of {rate:.0%}; "
            f"at least {least} are needed."
        )


def fit(
    fitted: Sequence[Contexts],
    held_out: Sequence[Contexts],
    tasks: Sequence[Task],
    window: int | None = None,
    rate: float = RATE,
) -> Atlas:
    """Make an atlas of contexts.

    Each task has a covariance of its own, because contexts spread unequally (a robot that fails wanders), drawn towards
    the tasks' mean covariance by C / (C + n): n is the task's number of episodes, not of steps, as the steps of one
    episode resemble each other.

    Args:
        fitted: (K,) lists of episodes (T, C) that means and covariances come from.
        held_out: (K,) lists of other episodes, that the thresholds come from.
        tasks: (K,).
        window: W, how many contexts are averaged and placed; `usual_window` if None. An episode's first W contexts are
            left to exploring, so that the first window that counts is that of step 2 W - 1.
        rate: largest share of episodes that may give a false alarm.

    Raises:
        SamiError: too few episodes, or none that is long enough.
    """
    every = [episode for task in fitted for episode in task]
    window = usual_window(every) if window is None else window
    counted = [[late for episode in task if len(late := windowed(episode, window)[window:])] for task in fitted]
    # A task whose episodes are all over before has no place of its own.
    known = [k for k, episodes in enumerate(counted) if sum(map(len, episodes)) > 1]
    if not known:
        raise SamiError(
            f"no task has two windows of {window} contexts that count, which takes episodes of at least {2 * window} "
            f"steps; the median one has {_median_length(every)}. Take a shorter window, or run more episodes."
        )
    means = [np.concatenate(counted[k]).mean(axis=0) for k in known]
    own_covariances = [
        np.cov(np.concatenate(counted[k]), rowvar=False, ddof=1).reshape(len(means[0]), -1) for k in known
    ]
    pooled = np.mean(own_covariances, axis=0)
    pooled += np.eye(len(pooled)) * max(RIDGE * float(np.trace(pooled)) / len(pooled), 1e-12)
    weights = [len(pooled) / (len(pooled) + len(counted[k])) for k in known]
    covariances = [w * pooled + (1.0 - w) * cov for w, cov in zip(weights, own_covariances, strict=True)]
    slow = float(np.median(np.concatenate([_drifts(episode, window) for episode in every])))
    atlas = Atlas(
        tasks=tuple(dict(tasks[k]) for k in known),
        mean=tuple(tuple(map(float, mean)) for mean in means),
        covariance=tuple(tuple(tuple(map(float, row)) for row in (cov + cov.T) / 2.0) for cov in covariances),
        window=window,
        step=2 * window - 1,
        threshold=1.0,
        slow=slow,
        fast=slow,
        false_alarm_rate=rate,
        episodes=len(every),
        held_out=sum(map(len, held_out)),
    )
    fresh = [episode for task in held_out for episode in task]
    threshold = tolerance_limit([farthest(atlas, episode) for episode in fresh], rate)
    fast = tolerance_limit([_fastest(atlas, episode) for episode in fresh], rate)
    return atlas.model_copy(update={"threshold": max(threshold, 1e-9), "fast": max(fast, slow)})


def usual_window(episodes: Sequence[np.ndarray]) -> int:
    """How many contexts are averaged, for episodes (T, C) of such lengths."""
    median = _median_length(episodes)
    return max(1, min(median // 2, max(SHORTEST_WINDOW, int(median * WINDOW_SHARE))))


def tolerance_limit(largest: Sequence[float], rate: float) -> float:
    """Return the value that a fresh one, one of their kind, exceeds with a probability of at most `rate`.

    That holds with a confidence of `CONFIDENCE`. A conformal quantile's rate is right on average over samples, so that
    about every second sample gives more.
    """
    k = tolerance_rank(len(largest), rate, CONFIDENCE)
    if k == 0:
        raise SamiError(f"{len(largest)} held-out episodes are too few for a false-alarm rate of {rate:.0%}.")
    return float(sorted(largest)[k - 1])


def farthest(atlas: Atlas, contexts: np.ndarray) -> float:
    """Return the largest distance to the atlas in an episode (T, C); 0 where it is over before a window counts."""
    locate = Locator(atlas)
    return max((locate(mean).distance for mean in _counted(atlas, contexts)), default=0.0)


def _median_length(episodes: Sequence[np.ndarray]) -> int:
    """Step of the median episode."""
    return int(np.median([len(episode) for episode in episodes]))


def _counted(atlas: Atlas, contexts: np.ndarray) -> Array:
    """Return the means (n, C) of the windows that count in an episode (T, C)."""
    return windowed(contexts, atlas.window)[atlas.step - atlas.window + 1 :]


def _drifts(contexts: np.ndarray, window: int) -> Array:
    """|m_t - m_(t-1)| of an episode's windows that count, (n,)."""
    return np.asarray(np.linalg.norm(np.diff(windowed(contexts, window)[window - 1 :], axis=0), axis=1))


def _fastest(atlas: Atlas, contexts: np.ndarray) -> float:
    """Return the highest drift of an episode once it had come to rest; 0 if it never had."""
    drifts = _drifts(contexts, atlas.window)
    rested = np.flatnonzero(drifts <= atlas.slow)
    return float(drifts[rested[0] :].max()) if len(rested) else 0.0


def measure(
    model: Path | Artifact,
    spec: EnvironmentSpec,
    episodes: int,
    window: int | None = None,
    seed: int = seeds.ATLAS,
    on_round: OnRound | None = None,
) -> Atlas:
    """Return the atlas of a model file, perhaps not written yet; arguments as of `collect_contexts` and `fit`.

    Raises:
        SamiError: the model infers no context, there are too few episodes, or none is long enough for the window.
    """
    artifact = artifact_of(model)
    contract = artifact.contract
    if not contract.context_size:
        raise SamiError(
            f"{artifact.path} infers no context, so there is nothing to make an atlas of. Policies of the methods sac "
            "and sac-history never have one."
        )
    tasks = known_tasks(contract.training, spec)
    require_enough(episodes, len(tasks))
    contexts = collect_contexts(artifact, spec, tasks, episodes, seed, on_round, known_gap(contract.training))
    half = (episodes + 1) // 2
    return fit([task[:half] for task in contexts], [task[half:] for task in contexts], tasks, window)


def attach(model: Path, atlas: Atlas | None) -> Contract:
    """Put an atlas into a model file; a time to adapt goes, which changes were detected by the one before."""
    return write(recompose(read_artifact(model), {"atlas": atlas, "recovery": None}))


def windowed(contexts: NDArray[Any], window: int) -> NDArray[np.float64]:
    """Return the means of every W contexts in a row, (T, C) to (T - W + 1, C): number i is that of step i + W - 1.

    >>> windowed(np.array([[0.0], [2.0], [4.0]]), 2)
    array([[1.],
           [3.]])
    """
    if len(contexts) < window:
        return np.zeros((0, contexts.shape[1]))
    return sliding_window_view(contexts.astype(float), window, axis=0).mean(axis=-1)
