"""What a forward model learns from: episodes as they were observed, executed and inferred, aligned in time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sami_runtime.model.artifact import Artifact, artifact_of
from sami_train import seeds
from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.play import OnRound, playing
from sami_train.export.seen import exploring, known_tasks

Array = NDArray[np.float32]

SEED = seeds.LOOKAHEAD
EPISODES = 600
"""That are rolled out, in all training tasks together."""


@dataclass(frozen=True)
class Stretch:
    """T + 1 observations, a period between each two, with nothing missing."""

    observations: Array
    """(T + 1, D), the signals end to end in the contract's order."""
    actions: Array
    """(T + 1, A): row t + 1 acted between observations t and t + 1, and row 0 before the first."""
    contexts: Array
    """(T + 1, C): inferred when each was observed."""

    def __len__(self) -> int:
        return len(self.observations) - 1


def roll_out(
    model: Path | Artifact,
    spec: EnvironmentSpec,
    episodes: int = EPISODES,
    seed: int = SEED,
    on_round: OnRound | None = None,
) -> list[Stretch]:
    """Return episodes that a model file drove in its training tasks, every second one with actions half at random.

    Args:
        model: the file, or one in memory that is not written yet.
        spec: the environment that it was trained in.
        episodes: in all training tasks together, which are visited in turn.
        seed: of their starts.
        on_round: called now and then with how many episodes are done since it was called last.
    """
    artifact = artifact_of(model)
    tasks = known_tasks(artifact.contract.training, spec)
    task_of_episode = [tasks[k % len(tasks)] for k in range(episodes)]
    with playing(spec, lambda rows: exploring(artifact, spec, rows), episodes, on_round=on_round) as (play, policy):
        _, lengths = play(task_of_episode, seed)
    stretches: list[Stretch] = []
    for (observed, acted, inferred), length in zip(policy.episodes()[:episodes], lengths, strict=True):
        before = np.concatenate([np.zeros_like(acted[:1]), acted[: length - 1]])
        stretches.append(Stretch(observed[:length][:, spec.layout.order], before, inferred[:length]))
    return stretches
