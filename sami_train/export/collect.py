"""The contexts that a model file infers, episode by episode. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sami_runtime.model.artifact import Artifact
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.model_policy import SessionPolicy
from sami_train.evaluation.play import OnRound, playing
from sami_train.export.known import Behind

Contexts = Sequence[np.ndarray]
"""One task's episodes, each (T, C)."""


class KeptContexts(SessionPolicy):
    """A model file that keeps its contexts, by round."""

    def __init__(self, model: Path | Artifact, spec: EnvironmentSpec, rows: int) -> None:
        super().__init__(model, spec, rows)
        self.rounds: list[list[np.ndarray]] = []
        """The contexts (n, C) of every step of every round so far."""

    def reset(self, tasks: Sequence[Task] = ()) -> None:
        """Begin new episodes in all rows."""
        super().reset(tasks)
        self.rounds.append([])

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As `SessionPolicy.step`."""
        action, context = super().step(observation, noise)
        self.rounds[-1].append(context)
        return action, context


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
    episode_tasks = [task for task in tasks for _ in range(episodes)]
    gap, spared = behind or Behind()
    stage = playing(
        spec,
        lambda rows: KeptContexts(model, spec, rows),
        len(episode_tasks),
        gap=gap,
        on_round=on_round,
        spared=spared,
    )
    with stage as (play, policy):
        _, lengths = play(episode_tasks, seed)
    rows = [row for contexts in policy.rounds for row in np.stack(contexts, axis=1)]
    whole = [row[:length] for row, length in zip(rows, lengths, strict=False)]
    return [whole[first : first + episodes] for first in range(0, len(episode_tasks), episodes)]
