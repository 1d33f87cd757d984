"""Evaluation on the paper's task sets, with the same starts for every policy. It imports no torch.

The meaning of two arguments depends on how the environment's measure counts episodes (`Measure.per`):

          "task" (success)                                   "set" (return)
episodes  in each task; the k-th has one start in all tasks  in each set, which visits its tasks in turn
cores     processes, which share the tasks                   threads of a native batch; processes, which share the
                                                             episodes, with a profile or without a batch

The paper runs 100 episodes on each set, not on each task: a set has up to 240 tasks, and an episode up to 2000 steps.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, groupby
from pathlib import Path

import numpy as np

from sami_runtime.gap.profile import GapProfile
from sami_train import seeds
from sami_train.envs.catalog import environment
from sami_train.envs.make import GappedEnv, make
from sami_train.envs.measure import episode_skill
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.episode import Episode
from sami_train.episodes.exploration import WithProfile
from sami_train.episodes.rollout import Rollout
from sami_train.evaluation.model_policy import Source, connect_ages, policy_of
from sami_train.evaluation.play import (
    ROWS,
    Gaps,
    Play,
    playing,
    playing_in_processes,
    plays_in_batch,
    sharing,
    side_by_side,
)
from sami_train.evaluation.result_store import KeptResults, Piece
from sami_train.evaluation.results import Evaluation, OnTask, TaskResult


def evaluate(
    source: Source,
    env: str,
    task_sets: Sequence[str],
    episodes: int = 100,
    cores: int = 1,
    on_task: OnTask | None = None,
    gap: GapProfile | None = None,
    keep: Path | None = None,
    seed: int = seeds.EVALUATION,
) -> Evaluation:
    """Evaluate a policy on task sets, with one sim-to-real profile or none; arguments as `evaluate_gaps`."""
    return evaluate_gaps(source, env, task_sets, [gap], episodes, cores, on_task, keep, seed)[0]


def evaluate_gaps(
    source: Source,
    env: str,
    task_sets: Sequence[str],
    gaps: Gaps,
    episodes: int = 100,
    cores: int = 1,
    on_task: OnTask | None = None,
    keep: Path | None = None,
    seed: int = seeds.EVALUATION,
) -> list[Evaluation]:
    """Evaluate a policy on task sets with each sim-to-real profile, from the same starts; one Evaluation for each.

    Args:
        source: the policy.
        env: name of the environment.
        task_sets: names of task sets.
        gaps: the profiles; None stands for an evaluation without a profile.
        episodes: number of episodes in each task or in each set, see the module's docstring.
        cores: most processes or threads, see the module's docstring; the results do not depend on it.
        on_task: called with each task's result as it arrives, in any order.
        keep: the file to which the caller will write the results. Finished parts are stored beside it, so that the same
            call continues after an interruption; call it within `keeping(keep)`. None stores nothing.
        seed: seed of the starts; `seeds.FINAL` for results that are quoted.
    """
    spec = environment(env)
    store = KeptResults(keep, source, spec, episodes)
    measure_pieces(source, spec, pieces(spec, task_sets, gaps, seed), episodes, store, cores, on_task)
    evaluations = []
    for gap in gaps:
        results = [store.results_of(piece) or [] for piece in pieces(spec, task_sets, [gap], seed)]
        evaluations.append(Evaluation(env, tuple(chain.from_iterable(results)), gap, spec.engine, seed))
    return evaluations


def pieces(spec: EnvironmentSpec, task_sets: Sequence[str], gaps: Gaps, seed: int = seeds.EVALUATION) -> list[Piece]:
    """Return the pieces of an evaluation, for each profile: its tasks if episodes count by task, else its task sets."""
    by_task = spec.measure.per == "task"
    return [
        Piece(gap, task_set, task, seed)
        for gap in gaps
        for task_set in task_sets
        for task in (spec.tasks.resolve(task_set) if by_task else (None,))
    ]


def measure_pieces(
    source: Source,
    spec: EnvironmentSpec,
    pieces: Sequence[Piece],
    episodes: int,
    store: KeptResults,
    cores: int = 1,
    on_task: OnTask | None = None,
) -> None:
    """Measure the pieces that `store` lacks, and store their results; other arguments as `evaluate_gaps`."""

    def report(results: Iterable[TaskResult]) -> None:
        if on_task is not None:
            for result in results:
                on_task(result)

    for piece in pieces:
        report(store.results_of(piece) or ())
    remaining = [piece for piece in pieces if store.results_of(piece) is None]
    measure = _measure_tasks if spec.measure.per == "task" else _measure_sets
    for piece, results in measure(source, spec, remaining, episodes, cores):
        store.add(piece.key, results)
        report(results)


Measured = Iterator[tuple[Piece, list[TaskResult]]]


def _measure_tasks(source: Source, spec: EnvironmentSpec, rest: list[Piece], episodes: int, cores: int) -> Measured:
    if rest:
        with sharing(_Worker, (source, spec, episodes), min(cores, len(rest))) as run:
            yield from run(rest)


class _Worker:
    """Policy and environments of a process, which it uses for one task after another."""

    def __init__(self, source: Source, spec: EnvironmentSpec, episodes: int) -> None:
        self.spec, self.episodes = spec, episodes
        rows = side_by_side(episodes)
        self.policy = policy_of(source, spec, rows)
        self.envs = [make(spec) for _ in range(rows)]

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def run(self, piece: Piece) -> list[TaskResult]:
        """Play the episodes of one task with one profile."""
        assert piece.task is not None
        envs = self.envs
        if piece.gap is not None:
            envs = [GappedEnv(env, self.spec, piece.gap, _among(piece.task)) for env in envs]
        connect_ages(self.policy, envs, piece.gap)
        true_state = WithProfile(privileged_goals=True)
        rollout = Rollout(envs, self.policy, piece.seed, tasks=(piece.task,), with_profile=true_state)
        episodes: list[Episode] = []
        for first in range(0, self.episodes, len(envs)):
            episodes += rollout.round(range(first, first + len(envs)))
        return [_result(self.spec, piece.task_set, piece.task, episodes[: self.episodes])]


def _among(task: Task) -> int:
    """Return a number by which a profile's random draws differ between tasks, see `Gap.begin`."""
    return zlib.crc32(json.dumps(dict(task), sort_keys=True).encode())


def _result(spec: EnvironmentSpec, task_set: str, task: Task, episodes: Sequence[Episode]) -> TaskResult:
    def share(outcomes: Iterable[bool]) -> float:
        return float(np.mean(list(outcomes)))

    goal, starts = spec.goal, [np.asarray(episode.true_observations)[0] for episode in episodes]  # undisturbed
    at_goal = (goal is not None and bool(goal.reached(start[goal.achieved], start[goal.desired])) for start in starts)
    shares = {column: share(skill in episode.skills for episode in episodes) for column, skill in spec.outcomes.items()}
    skills = [episode_skill(episode.skills, spec.skills) for episode in episodes]
    return TaskResult(
        task_set=task_set,
        task=dict(task),
        episodes=len(episodes),
        steps=float(np.mean([len(episode) for episode in episodes])),
        success=share(episode.success for episode in episodes),
        solved_at_start=share(at_goal),
        shares=shares,
        skills={skill.name: share(name == skill.name for name in skills) for skill in spec.skills},
        ret=float(np.mean([episode.ret for episode in episodes])),
        successes=tuple(episode.success for episode in episodes),
        metrics=_by_name([episode.metrics for episode in episodes]),
    )


def _by_name(metrics: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, ...]]:
    """Return the metrics of episodes by name, one number for each episode."""
    return {name: tuple(of_episode[name] for of_episode in metrics) for name in metrics[0]}


def _measure_sets(source: Source, spec: EnvironmentSpec, rest: list[Piece], episodes: int, cores: int) -> Measured:
    for gap, of_gap in groupby(rest, key=lambda piece: piece.gap):
        with ExitStack() as closing:
            if cores > 1 and episodes > ROWS and not plays_in_batch(spec, gap):
                play = closing.enter_context(playing_in_processes(source, spec, episodes, cores, gap))
            else:
                play, _ = closing.enter_context(playing(spec, partial(policy_of, source, spec), episodes, cores, gap))
            for piece in of_gap:
                tasks = spec.tasks.resolve(piece.task_set)
                yield piece, list(_measure_returns(play, piece, tasks, episodes))


def in_turn(count: int, episodes: int, seed: int) -> np.ndarray:
    """Return the task number of each episode, (episodes,): all `count` tasks in random order, then all again.

    With fewer episodes than tasks, the tasks are a random sample of the set.
    """
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(count) for _ in range(-(-episodes // count))])[:episodes]


def _measure_returns(play: Play, piece: Piece, tasks: Sequence[Task], episodes: int) -> Iterator[TaskResult]:
    """Run episodes over a set of tasks, and yield the result of each task that had an episode, in the set's order."""
    turns = in_turn(len(tasks), episodes, piece.seed)
    returns, steps, metrics = play([tasks[turn] for turn in turns], piece.seed)
    for index, task in enumerate(tasks):
        in_task = turns == index
        if in_task.any():
            yield TaskResult(
                task_set=piece.task_set,
                task=dict(task),
                episodes=int(in_task.sum()),
                steps=float(steps[in_task].mean()),
                ret=float(returns[in_task].mean()),
                returns=tuple(returns[in_task].tolist()),
                metrics=_by_name([metrics[k] for k in np.flatnonzero(in_task)]),
            )
