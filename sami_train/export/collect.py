"""The contexts that a model file infers, episode by episode. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sami_runtime.model.artifact import Artifact
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.model_policy import RecordedPolicy, SessionPolicy
from sami_train.evaluation.play import OnRound, playing
from sami_train.export.known import Behind

Contexts = Sequence[np.ndarray]
"""One task's episodes, each (T, C)."""


def collect_contexts(
    model: Path | Artifact,
    spec: EnvironmentSpec,
    tasks: Sequence[Task],
    episodes: int,
    seed: int,
    on_round: OnRound | None = None,
    behind: Behind | None = None,
) -> list[Contexts]:
    """Contexts of a model file in some tasks, (K,) lists of episodes.

    Args:
        model: the file, or one in memory that is not written yet.
        spec: the environment.
        tasks: (K,).
        episodes: of each task. All of them begin differently, also in different tasks: episodes of one start resemble
            each other, and held-out ones must count as so many independent ones.
        seed: of their starts.
        on_round: called now and then with how many episodes are done since it was called last.
        behind: what lies between the file and its environment; nothing if left out.
    """
    task_of_episode = [task for task in tasks for _ in range(episodes)]
    gap, clean_share = behind or Behind()
    stage = playing(
        spec,
        lambda rows: RecordedPolicy(SessionPolicy(model, spec, rows)),
        len(task_of_episode),
        gap=gap,
        on_round=on_round,
        clean_share=clean_share,
    )
    with stage as (play, policy):
        _, lengths = play(task_of_episode, seed)
    whole = [contexts[:length] for (*_, contexts), length in zip(policy.episodes(), lengths, strict=False)]
    return [whole[first : first + episodes] for first in range(0, len(task_of_episode), episodes)]
