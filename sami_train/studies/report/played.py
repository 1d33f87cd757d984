"""Episodes that a report is drawn from: what came of them, and the context at each step."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sami_train import seeds
from sami_train.envs.make import make
from sami_train.envs.measure import SUCCESS, episode_skill
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.rollout import Rollout
from sami_train.evaluation.evaluate import in_turn
from sami_train.evaluation.model_policy import RecordedPolicy, Source, policy_of
from sami_train.evaluation.play import ROWS, OnRound, playing, plays_in_batch, sharing, side_by_side

SEED = seeds.REPORT


@dataclass(frozen=True)
class Played:
    """One episode of T steps."""

    task_set: str
    task: Task
    skill: str
    """What it is named after, see `episode_skill`; empty where the environment tells none apart."""
    success: bool
    ret: float
    contexts: np.ndarray
    """What the encoder inferred before each step, (T, C)."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **{"task_set": self.task_set, "task": dict(self.task), "skill": self.skill, "success": self.success},
            **{"ret": self.ret, "steps": len(self.contexts)},
            "contexts": base64.b64encode(self.contexts.astype("<f4").tobytes()).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Played:
        """Back from `to_dict`."""
        others = {name: value for name, value in values.items() if name not in ("steps", "contexts")}
        numbers = np.frombuffer(base64.b64decode(values["contexts"]), "<f4")
        return cls(**others, contexts=numbers.reshape(values["steps"], len(numbers) // values["steps"]))


def schedule(spec: EnvironmentSpec, episodes: int, seed: int) -> list[tuple[str, Task]]:
    """Return the set and the task of each episode.

    Args:
        spec: the environment.
        episodes: in each task, where success counts; else in each set, whose tasks come in turn, as in evaluations.
        seed: of the turns.
    """
    tasks = [(name, spec.tasks.resolve(name)) for name in spec.tasks.sets]
    if spec.measure is SUCCESS:
        return [(name, task) for name, of_set in tasks for task in of_set for _ in range(episodes)]
    return [(name, of_set[turn]) for name, of_set in tasks for turn in sorted(in_turn(len(of_set), episodes, seed))]


def play_episodes(
    source: Source,
    spec: EnvironmentSpec,
    scheduled: Sequence[tuple[str, Task]],
    seed: int = SEED,
    processes: int = 1,
    on_round: OnRound | None = None,
) -> list[Played]:
    """Play an episode of each scheduled task, all of them begun differently.

    Args:
        source: the policy.
        spec: the environment.
        scheduled: set and task of each episode.
        seed: of the starts; the k-th episode depends on it and on k alone, not on how many processes there are.
        processes: that share the episodes; a simulation with native threads takes so many threads.
        on_round: called now and then with how many episodes are done since it was called last.
    """
    if plays_in_batch(spec, None):
        return _in_batch(source, spec, scheduled, seed, processes, on_round)
    rows = side_by_side(len(scheduled), ROWS)
    firsts = range(0, len(scheduled), rows)
    played: list[Played] = []
    stage = (source, spec, scheduled, seed, rows)
    with sharing(_EpisodeWorker, stage, min(processes, len(firsts)), in_order=True) as run:
        for _, several in run(firsts):
            played += several
            if on_round is not None:
                on_round(len(several))
    return played


def _in_batch(
    source: Source,
    spec: EnvironmentSpec,
    scheduled: Sequence[tuple[str, Task]],
    seed: int,
    threads: int,
    on_round: OnRound | None,
) -> list[Played]:
    def policy(rows: int) -> RecordedPolicy:
        return RecordedPolicy(policy_of(source, spec, rows))

    with playing(spec, policy, len(scheduled), threads, on_round=on_round) as (play, recorded):
        returns, _ = play([task for _, task in scheduled], seed)
    episodes = zip(scheduled, returns, recorded.episodes(), strict=False)  # a last round may have more rows
    return [Played(name, dict(task), "", False, float(ret), contexts) for (name, task), ret, (*_, contexts) in episodes]


class _EpisodeWorker:
    """Environments and the policy that plays in them, of one process."""

    def __init__(
        self, source: Source, spec: EnvironmentSpec, scheduled: Sequence[tuple[str, Task]], seed: int, rows: int
    ) -> None:
        self.spec, self.scheduled, self.rows = spec, scheduled, rows
        self.envs = [make(spec, max_episode_steps=spec.episode_steps) for _ in range(rows)]
        self.policy = RecordedPolicy(policy_of(source, spec, rows))
        self.rollout = Rollout(self.envs, self.policy, seed, tasks=[task for _, task in scheduled])

    def close(self) -> None:
        """Give the simulators back."""
        for env in self.envs:
            env.close()

    def run(self, first: int) -> list[Played]:
        """Play the episodes from `first` on, one a row; those beyond the schedule are left out."""
        self.policy.rounds.clear()
        episodes = self.rollout.round(range(first, first + self.rows))
        return [
            Played(
                task_set=self.scheduled[episode.index][0],
                task=dict(episode.task),
                skill=episode_skill(episode.skills, self.spec.skills) or "",
                success=episode.success,
                ret=episode.ret,
                contexts=contexts[: len(episode)],
            )
            for episode, (*_, contexts) in zip(episodes, self.policy.episodes(), strict=True)
            if episode.index < len(self.scheduled)
        ]
