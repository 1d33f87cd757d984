"""What a policy learned from, as its contract tells, and the contexts that its file infers there. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.artifact import Artifact
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.model_policy import RecordedPolicy, SessionPolicy
from sami_train.evaluation.play import OnRound, playing

Contexts = Sequence[np.ndarray]
"""One task's episodes, each (T, C)."""


class Behind(NamedTuple):
    """The gap that episodes are measured behind."""

    gap: GapProfile | None = None
    """None where nothing lies between."""
    clean_share: float = 0.0
    """Share of the episodes that have none all the same."""


def known_tasks(training: Mapping[str, Any], spec: EnvironmentSpec) -> Sequence[Task]:
    """Return the tasks that a policy learned from: what its contract tells of training, else the environment's own."""
    return spec.tasks.resolve(training.get("tasks") or "training")


def known_gap(training: Mapping[str, Any]) -> Behind:
    """Return what a policy learned behind, by its contract; without a gap where that tells of none.

    Raises:
        SamiError: what it tells is no gap, or no share of the episodes.
    """
    config = training.get("config")  # a stranger's file may hold anything there
    if not isinstance(config, Mapping) or not config.get("gap"):
        return Behind()
    behind_gap = config.get("behind_gap")
    keys = behind_gap if isinstance(behind_gap, Mapping) else {}
    name = "spared" if "spared" in keys else "clean_share"  # as files of before have it, and as those of today
    share = keys.get(name, 0.0)
    if not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise SamiError(
            f"its contract's training.config.behind_gap.{name} is {share!r}; it must be the share of the episodes "
            "that had no gap, from 0 to 1. It was changed after its export: export it from its run again."
        )
    return Behind(GapProfile.loads(str(config["gap"])), float(share))


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
