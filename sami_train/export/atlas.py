"""The in-distribution reference (atlas) of a model file: the distribution of contexts in its training tasks. No torch.

The model file acts in the training tasks, deterministically. The first half of each task's episodes fits a Gaussian;
the other half calibrates the alarm: its threshold is a tolerance limit (Wilks 1941), the k-th smallest of the n
held-out episodes' largest distances. With a confidence of 90 %, a new episode in the same tasks then raises an alarm
with a probability of at most the rate, for any distribution of the contexts. For a policy that was trained with a
sim-to-real profile, contexts are measured with that profile.
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
from sami_train.export.training_ranges import Contexts, collect_contexts, known_gap, known_tasks

Array = NDArray[np.float64]
RATE = 0.05
"""Largest rate of false alarms, as a share of episodes."""
CONFIDENCE = 0.9
"""Confidence with which a threshold keeps that rate."""
WINDOW_SHARE = 1 / 16
"""Length of a window as a share of the median episode: it averages out the strides of a gait, but not changes."""
SHORTEST_WINDOW = 3
"""Least length of a window, in steps, unless episodes are shorter than two windows."""
RIDGE = 1e-6
"""Share of the mean variance that is added to all variances, because numbers of a context may be constant."""


def least_episodes(tasks: int, rate: float = RATE) -> int:
    """Return the least number of episodes of each task from which a threshold for the rate can be computed."""
    return 2 * math.ceil(fewest(rate, CONFIDENCE) / tasks)


def require_enough(episodes: int, tasks: int) -> None:
    """Raise SamiError, with the least number, if there are fewer episodes of each task than a threshold needs."""
    if episodes < (least := least_episodes(tasks)):
        raise SamiError(
            f"{episodes} episodes of each of {tasks} tasks are too few for a false-alarm rate of {RATE:.0%}; "
            f"at least {least} are needed."
        )


def fit(
    training: Sequence[Contexts],
    held_out: Sequence[Contexts],
    tasks: Sequence[Task],
    window: int | None = None,
    rate: float = RATE,
) -> Atlas:
    """Return an atlas of contexts.

    Each task has its own covariance, because contexts spread unequally (widely if a robot fails), shrunk towards the
    tasks' mean covariance by C / (C + n), with n the task's number of episodes: steps of one episode are similar.

    Args:
        training: lists of episodes (T, C) for each of K tasks, from which means and covariances are computed.
        held_out: lists of other episodes for each task, from which the thresholds are computed.
        tasks: the K tasks.
        window: W, how many contexts in a row are averaged; `usual_window` if None. In an episode's first W steps the
            policy identifies the task, so that the first window that counts ends at step 2 W - 1.
        rate: largest share of episodes that may raise a false alarm.

    Raises:
        SamiError: there are too few held-out episodes, or no episode is long enough.
    """
    every = [episode for task in training for episode in task]
    window = usual_window(every) if window is None else window
    contexts = [[late for episode in task if len(late := windowed(episode, window)[window:])] for task in training]
    # A task whose episodes all end before a window counts is left out.
    indices = [k for k, episodes in enumerate(contexts) if sum(map(len, episodes)) > 1]
    if not indices:
        raise SamiError(
            f"no task has two windows of {window} contexts that count, which takes episodes of at least {2 * window} "
            f"steps; the median episode has {_median_length(every)}. Set a shorter window, or run more episodes."
        )
    means = [np.concatenate(contexts[k]).mean(axis=0) for k in indices]
    own_covariances = [
        np.cov(np.concatenate(contexts[k]), rowvar=False, ddof=1).reshape(len(means[0]), -1) for k in indices
    ]
    pooled = np.mean(own_covariances, axis=0)
    pooled += np.eye(len(pooled)) * max(RIDGE * float(np.trace(pooled)) / len(pooled), 1e-12)
    weights = [len(pooled) / (len(pooled) + len(contexts[k])) for k in indices]
    covariances = [w * pooled + (1.0 - w) * cov for w, cov in zip(weights, own_covariances, strict=True)]
    slow = float(np.median(np.concatenate([_drifts(episode, window) for episode in every])))
    atlas = Atlas(
        tasks=tuple(dict(tasks[k]) for k in indices),
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
    """Return the default window, in steps, for episodes (T, C)."""
    median = _median_length(episodes)
    return max(1, min(median // 2, max(SHORTEST_WINDOW, int(median * WINDOW_SHARE))))


def tolerance_limit(largest: Sequence[float], rate: float) -> float:
    """Return a limit that a new value of the same distribution exceeds with a probability of at most `rate`.

    That holds with a confidence of `CONFIDENCE`; SamiError if there are too few values. A conformal quantile has the
    right rate on average only, so that about every second sample exceeds it.
    """
    k = tolerance_rank(len(largest), rate, CONFIDENCE)
    if k == 0:
        raise SamiError(f"{len(largest)} held-out episodes are too few for a false-alarm rate of {rate:.0%}.")
    return float(sorted(largest)[k - 1])


def farthest(atlas: Atlas, contexts: np.ndarray) -> float:
    """Return the largest distance to the atlas in an episode (T, C); 0 if it ends before a window counts."""
    locate = Locator(atlas)
    return max((locate(mean).distance for mean in window_means(atlas, contexts)), default=0.0)


def _median_length(episodes: Sequence[np.ndarray]) -> int:
    """Return the length of the median episode, in steps."""
    return int(np.median([len(episode) for episode in episodes]))


def window_means(atlas: Atlas, contexts: np.ndarray) -> Array:
    """Return the means (n, C) of the windows that count in an episode (T, C)."""
    return windowed(contexts, atlas.window)[atlas.step - atlas.window + 1 :]


def _drifts(contexts: np.ndarray, window: int) -> Array:
    """Return |m_t - m_(t-1)| of an episode's window means that count, (n,)."""
    return np.asarray(np.linalg.norm(np.diff(windowed(contexts, window)[window - 1 :], axis=0), axis=1))


def _fastest(atlas: Atlas, contexts: np.ndarray) -> float:
    """Return an episode's largest drift after its first slow one; 0 if none is slow."""
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
    """Return the atlas of a model file, which may exist in memory only; arguments as `collect_contexts` and `fit`.

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
    """Write an atlas into a model file; this removes the time to adapt, which was measured with the former atlas."""
    return write(recompose(read_artifact(model), {"atlas": atlas, "recovery": None}))


def windowed(contexts: NDArray[Any], window: int) -> NDArray[np.float64]:
    """Return the means (T - W + 1, C) of every W consecutive contexts (T, C): row i ends at step i + W - 1.

    >>> windowed(np.array([[0.0], [2.0], [4.0]]), 2)
    array([[1.],
           [3.]])
    """
    if len(contexts) < window:
        return np.zeros((0, contexts.shape[1]))
    return sliding_window_view(contexts.astype(float), window, axis=0).mean(axis=-1)
