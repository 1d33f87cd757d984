"""What a forward model learns from: episodes as they were observed, executed and inferred, aligned in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sami_runtime.model.artifact import Artifact, artifact_of
from sami_train import seeds
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.play import OnRound, playing
from sami_train.export.known import known_tasks
from sami_train.export.make_seen import Watched

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


class Explored(Watched):
    """A model file that keeps its contexts, too."""

    def __init__(self, model: Path | Artifact, spec: EnvironmentSpec, rows: int) -> None:
        super().__init__(model, spec, rows)
        self.contexts: list[list[Array]] = []
        """(n, C) of every step of every round so far."""

    def reset(self, tasks: Sequence[Task] = ()) -> None:
        """Begin new episodes in all rows."""
        super().reset(tasks)
        self.contexts.append([])

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As `Watched.step`."""
        action, context = super().step(observation, noise)
        self.contexts[-1].append(context)
        return action, context


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
    each = [tasks[k % len(tasks)] for k in range(episodes)]
    with playing(spec, lambda rows: Explored(artifact, spec, rows), episodes, on_round=on_round) as (play, policy):
        _, lengths = play(each, seed)
    stretches: list[Stretch] = []
    for steps, contexts in zip(policy.rounds, policy.contexts, strict=True):
        seen, done = (np.stack(part, axis=1) for part in zip(*steps, strict=True))  # (n, T, D), (n, T, A)
        inferred = np.stack(contexts, axis=1)
        for row in range(len(seen)):
            if len(stretches) < episodes:
                length = int(lengths[len(stretches)])
                before = np.concatenate([np.zeros_like(done[row, :1]), done[row, : length - 1]])
                observed = seen[row, :length][:, spec.layout.order]
                stretches.append(Stretch(observed, before, inferred[row, :length]))
    return stretches
