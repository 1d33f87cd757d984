"""Recordings of `sami run --record` as episodes for off-policy training, with the executed actions.

A step is a tick with a fresh observation and an executed action: the policy acted, a person drove, or inference was too
late and the last action was held. Wherever the loop held for another reason, rejected an observation, fell back, paused
or missed ticks, the next observation does not follow from the last action: the episode is cut there, and the rest is a
new episode. The last action of each part is left out, because its successor was not recorded, unless the environment
terminated the episode there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.recording.reader import are_finite, read_recordings, require_interface
from sami_runtime.signals import Signal
from sami_train.config.schema import ConfigError, TrainConfig
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.episode import Episode

if TYPE_CHECKING:
    from sami_runtime.loop.tick import StepRecord


SHORTEST = 2
"""Least number of steps of an episode."""


def recordings_of(config: TrainConfig) -> list[Episode]:
    """Return the episodes of a configuration's recordings; ConfigError for a wrong reward, else `recorded_episodes`."""
    collection, spec = config.collection, environment(config.env)
    if collection.recordings and spec.goal is not None and collection.reward != "sparse":
        raise ConfigError(
            f"collection.reward is {collection.reward!r}, but recordings are rewarded by -1 until the goal is reached; "
            "set collection.reward=sparse, or leave collection.recordings out."
        )
    return recorded_episodes(
        collection.recordings,
        spec,
        config.training_tasks(),
        collection.episode_steps or spec.episode_steps,
        end_on_fall=collection.end_on_fall,
    )


def recorded_episodes(
    paths: Sequence[str | Path],
    spec: EnvironmentSpec,
    tasks: Sequence[Task],
    episode_steps: int,
    *,
    end_on_fall: bool = False,
) -> list[Episode]:
    """Return the episodes of recordings, without encoder states.

    A task that the adapter reported, but that is not in `tasks`, counts as an additional task; without a reported task,
    each file is one task. Episodes are cut to `episode_steps`. With `end_on_fall` an episode ends by failure once the
    achieved goal is below `Goal.lowest`.

    Raises:
        RecordingError: a recording cannot be read, or is named twice.
        SamiError: a recording has other signals, another rate, no reward, or too few steps.
    """
    listed: list[Any] = [dict(task) for task in tasks]
    episodes: list[Episode] = []
    for path, recording in zip(paths, read_recordings(paths), strict=True):
        require_interface(recording, (*spec.signals, spec.action), spec.rate_hz, f"environment {spec.name!r}")
        episodes_read = 0
        for number, stretch, is_whole in recording.stretches(are_finite):
            task = stretch[0].info.get("task", {})
            key = task or {"recording": str(path)}
            listed += [] if key in listed else [key]
            outcome = recording.episodes.get(number)
            for start in range(0, len(stretch), episode_steps):
                part = stretch[start : start + episode_steps]
                last = is_whole and start + len(part) == len(stretch)
                succeeded = last and outcome is not None and outcome.success
                episode = _episode(path, spec, part, task, listed.index(key), last, bool(succeeded), end_on_fall)
                if episode is not None:
                    episodes.append(episode)
                    episodes_read += 1
        if not episodes_read:
            raise SamiError(f"{path} has no {SHORTEST} consecutive steps to learn from; leave it out.")
    return episodes


def _episode(
    path: str | Path,
    spec: EnvironmentSpec,
    ticks: Sequence[StepRecord],
    task: Task,
    task_index: int,
    is_whole: bool,
    succeeded: bool,
    end_on_fall: bool,
) -> Episode | None:
    """Return the episode of consecutive ticks; None if it has fewer than `SHORTEST` steps.

    Its rewards are those that the adapter reported, else -1 or 0 by its goal. `is_whole` says that the ticks include
    the end of the recorded episode, `succeeded` that it was a success.
    """
    if len(ticks) < SHORTEST:
        return None
    goal, layout = spec.goal, spec.layout
    rewards = [tick.info.get("reward") for tick in ticks]
    all_rewarded = all(reward is not None for reward in rewards)
    if not all_rewarded and goal is None:
        raise SamiError(
            f"{path} has no rewards, and {spec.name!r} has no goal to compute them from. Let the adapter's "
            'write() return info={"reward": ...}.'
        )
    observations = np.empty((len(ticks), layout.size), np.float32)
    by_name = [tick.observation.values for tick in ticks if tick.observation is not None]
    observations[:, layout.order] = [
        np.concatenate([np.ravel(values[signal.name]) for signal in spec.signals]) for values in by_name
    ]
    success = succeeded or bool(is_whole and ticks[-1].info.get("is_success", False))
    at_goal = success and goal is not None
    terminated = bool(is_whole and (at_goal or ticks[-1].info.get("terminated", False)))
    steps = len(ticks) if terminated else len(ticks) - 1
    following = np.concatenate([observations[1:], observations[-1:]])
    if goal is not None:
        reached = goal.reached(following[:, goal.achieved], following[:, goal.desired])[: len(ticks) - 1]
        fallen = np.zeros_like(reached)
        if goal.lowest is not None:
            fallen = following[: len(reached), goal.achieved][:, 2] < goal.lowest
        if not all_rewarded:
            rewards = [*np.where(reached, 0.0, -1.0), 0.0 if success else -1.0]
        # End the episode where it would have ended in training.
        for ends, good in ((reached, True), (fallen & end_on_fall, False)):
            first = int(np.argmax(ends)) + 1
            if ends.any() and first <= steps - terminated:
                steps, terminated, success = first, True, good
    if steps < SHORTEST:
        return None
    return Episode(
        index=-1,
        task=task,
        task_index=task_index,
        observations=np.concatenate([observations[:1], following[:steps]]),
        actions=_normalised([tick.executed for tick in ticks[:steps]], spec.action),
        rewards=np.array(rewards[:steps], np.float32),
        terminated=terminated,
        success=success,
        skills=frozenset(),
    )


def _normalised(executed: Sequence[Any], action: Signal) -> np.ndarray:
    """Return executed actions (T, A) in training's units: the signal's bounds, if any, are scaled to -1 and 1."""
    actions = np.array(executed, np.float32)
    for column, (low, high) in enumerate(zip(action.low, action.high, strict=True)):
        if low is not None and high is not None and (low, high) != (-1.0, 1.0):
            actions[:, column] = 2.0 * (actions[:, column] - low) / (high - low) - 1.0
    return actions.clip(-1.0, 1.0)
