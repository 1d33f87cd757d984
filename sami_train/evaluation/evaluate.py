"""Evaluation on the paper's sets of tasks, with the same starts for every policy. No torch here.

An environment's measure says where episodes are counted (`Measure.per`), and that settles what two arguments mean:

          "task" (success)                                   "set" (return)
episodes  in each task; the k-th begins alike in every task  in each set; its tasks come in turn
cores     so many processes, which share the tasks           so many threads of a simulation that has a batch; else,
                                                             and behind a gap, processes, which share the episodes
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.envs.make import GappedEnv, make
from sami_train.envs.measure import episode_skill
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.episode import Episode
from sami_train.episodes.rollout import Rollout
from sami_train.evaluation.kept import KeptResults
from sami_train.evaluation.model_policy import Source, policy_of, tell_ages
from sami_train.evaluation.play import (
    ROWS,
    SEED,
    Gaps,
    Play,
    playing,
    playing_in_processes,
    plays_in_batch,
    sharing,
    side_by_side,
)
from sami_train.evaluation.results import Evaluation, OnTask, TaskResult

Job = tuple[int, int]
"""Numbers of a gap and of a task."""
Tasks = Sequence[tuple[str, Task]]
"""Tasks with the name of the set that each is in."""


def evaluate_tasks(
    source: Source,
    spec: EnvironmentSpec,
    task_sets: Sequence[str],
    gaps: Gaps,
    episodes: int,
    processes: int,
    on_task: OnTask | None,
    store: KeptResults,
) -> list[tuple[TaskResult, ...]]:
    """Run so many episodes in every task of some sets, behind each gap: the results of each gap, in order of the tasks.

    Args:
        source: the policy.
        spec: the environment.
        task_sets: names of sets.
        gaps: see `evaluate_gaps`.
        episodes: in each task, the k-th of which begins alike in every task.
        processes: that share the tasks; with 1 it is this one.
        on_task: called with each task's result as it arrives, in any order.
        store: what is measured already, and takes what is measured now.
    """
    tasks = [(task_set, task) for task_set in task_sets for task in spec.tasks.resolve(task_set)]
    jobs = [(gap, task) for gap in range(len(gaps)) for task in range(len(tasks))]
    results = {job: done[0] for job in jobs if (done := store.results_of(gaps[job[0]], *tasks[job[1]])) is not None}
    jobs = [job for job in jobs if job not in results]
    if on_task is not None:
        for result in results.values():
            on_task(result)
    if jobs:
        arguments = (source, spec, tasks, gaps, episodes)
        with sharing(_Worker, arguments, min(processes, len(jobs))) as run:
            for job, result in run(jobs):
                results[job] = result
                store.add([result], gaps[job[0]], *tasks[job[1]])
                if on_task is not None:
                    on_task(result)
    return [tuple(results[gap, task] for task in range(len(tasks))) for gap in range(len(gaps))]


def measure_tasks(
    source: Source, spec: EnvironmentSpec, wanted: Sequence[tuple[GapProfile | None, str, Task]], episodes: int
) -> Iterator[TaskResult]:
    """Yield what comes of some tasks, each of a set and behind a gap of its own: as in `evaluate_tasks`, to the bit."""
    gaps, tasks = [gap for gap, *_ in wanted], [(task_set, task) for _, task_set, task in wanted]
    with sharing(_Worker, (source, spec, tasks, gaps, episodes), 1) as run:
        for _, result in run([(number, number) for number in range(len(wanted))]):
            yield result


class _Worker:
    """What a process keeps between jobs, until its end."""

    def __init__(self, source: Source, spec: EnvironmentSpec, tasks: Tasks, gaps: Gaps, episodes: int) -> None:
        self.spec, self.tasks, self.gaps, self.episodes = spec, tasks, gaps, episodes
        rows = side_by_side(episodes)
        self.policy = policy_of(source, spec, rows)
        self.envs = [make(spec) for _ in range(rows)]

    def close(self) -> None:
        """Give the simulators back."""
        for env in self.envs:
            env.close()

    def run(self, job: Job) -> TaskResult:
        """Play the episodes of one task behind one gap."""
        gap, (task_set, task) = self.gaps[job[0]], self.tasks[job[1]]
        envs = self.envs if gap is None else [GappedEnv(env, self.spec, gap, _among(task)) for env in self.envs]
        tell_ages(self.policy, envs, gap)
        rollout = Rollout(envs, self.policy, SEED, tasks=(task,))
        played: list[Episode] = []
        for first in range(0, self.episodes, len(envs)):
            played += rollout.round(range(first, first + len(envs)))
        return _result(self.spec, task_set, task, played[: self.episodes])


def _among(task: Task) -> int:
    """Return what sets a task's draws of a gap apart from those of other tasks, whatever is measured beside it."""
    return zlib.crc32(json.dumps(dict(task), sort_keys=True).encode())


def _result(spec: EnvironmentSpec, task_set: str, task: Task, episodes: Sequence[Episode]) -> TaskResult:
    def share(happened: Iterable[bool]) -> float:
        return float(np.mean(list(happened)))

    goal, starts = spec.goal, [episode.observations[0] for episode in episodes]
    return TaskResult(
        task_set=task_set,
        task=dict(task),
        episodes=len(episodes),
        steps=float(np.mean([len(episode) for episode in episodes])),
        success=share(episode.success for episode in episodes),
        solved_at_start=share(
            goal is not None and bool(goal.reached(start[goal.achieved], start[goal.desired])) for start in starts
        ),
        shares={
            column: share(skill in episode.skills for episode in episodes) for column, skill in spec.outcomes.items()
        },
        skills={
            skill.name: share(episode_skill(episode.skills, spec.skills) == skill.name for episode in episodes)
            for skill in spec.skills
        },
        ret=float(np.mean([episode.ret for episode in episodes])),
        successes=tuple(episode.success for episode in episodes),
    )


def in_turn(count: int, episodes: int, seed: int) -> np.ndarray:
    """Which of `count` tasks each episode is in, (episodes,): every task once, in random order, before any comes again.

    Where a set has more tasks than there are episodes, these are a random sample of it.
    """
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(count) for _ in range(-(-episodes // count))])[:episodes]


def evaluate_sets(
    source: Source,
    spec: EnvironmentSpec,
    task_sets: Sequence[str],
    gaps: Gaps,
    episodes: int,
    cores: int,
    on_task: OnTask | None,
    store: KeptResults,
) -> list[tuple[TaskResult, ...]]:
    """Run so many episodes over each of some sets, behind each gap: the results of each gap.

    Args:
        source: the policy.
        spec: the environment.
        task_sets: names of sets.
        gaps: see `evaluate_gaps`.
        episodes: in each set, whose tasks come in turn.
        cores: threads of the simulation where it has a batch, else processes.
        on_task: called with each task's result as it arrives.
        store: what is measured already, and takes what is measured now, by set.
    """
    evaluated = []
    for gap in gaps:
        missing = [task_set for task_set in task_sets if store.results_of(gap, task_set) is None]
        with ExitStack() as closing:
            play = closing.enter_context(_stage(source, spec, episodes, cores, gap)) if missing else None
            results: list[TaskResult] = []
            for task_set in task_sets:
                done = store.results_of(gap, task_set)
                if done is None:
                    assert play is not None
                    done = list(measure_returns(play, task_set, spec.tasks.resolve(task_set), episodes, SEED))
                    store.add(done, gap, task_set)
                results += done
                if on_task is not None:
                    for result in done:
                        on_task(result)
        evaluated.append(tuple(results))
    return evaluated


@contextmanager
def _stage(source: Source, spec: EnvironmentSpec, episodes: int, cores: int, gap: GapProfile | None) -> Iterator[Play]:
    """Set the fastest stage that the environment has."""
    if cores > 1 and episodes > ROWS and not plays_in_batch(spec, gap):
        with playing_in_processes(source, spec, episodes, cores, gap) as play:
            yield play
        return
    with playing(spec, lambda rows: policy_of(source, spec, rows), episodes, cores, gap) as (play, _):
        yield play


def measure_returns(play: Play, task_set: str, tasks: Sequence[Task], episodes: int, seed: int) -> Iterator[TaskResult]:
    """Run episodes over a set of tasks, and yield what came of each task that came up, in the order of the set.

    Args:
        play: where and by whom, see `playing`.
        task_set: name of the set.
        tasks: its tasks.
        episodes: over the whole set.
        seed: of tasks and starts.
    """
    turns = in_turn(len(tasks), episodes, seed)
    returns, steps = play([tasks[turn] for turn in turns], seed)
    for index, task in enumerate(tasks):
        in_task = turns == index
        if in_task.any():
            yield TaskResult(
                task_set=task_set,
                task=dict(task),
                episodes=int(in_task.sum()),
                steps=float(steps[in_task].mean()),
                ret=float(returns[in_task].mean()),
                returns=tuple(returns[in_task].tolist()),
            )


def count_results(spec: EnvironmentSpec, task_sets: Sequence[str], episodes: int) -> int:
    """Return how many tasks an evaluation tells of."""
    counts = [len(spec.tasks.resolve(name)) for name in task_sets]
    return sum(counts if spec.measure.per == "task" else (min(count, episodes) for count in counts))


@dataclass(frozen=True)
class Piece:
    """What is measured as a whole, and kept so."""

    gap: GapProfile | None
    task_set: str
    task: Task | None
    """None for all tasks of the set, where episodes are counted by set."""


def pieces(spec: EnvironmentSpec, task_sets: Sequence[str], gaps: Gaps) -> list[Piece]:
    """Return what an evaluation behind some gaps consists of."""
    by_task = spec.measure.per == "task"
    return [
        Piece(gap, task_set, task)
        for gap in gaps
        for task_set in task_sets
        for task in (spec.tasks.resolve(task_set) if by_task else (None,))
    ]


def measure_pieces(
    source: Source, spec: EnvironmentSpec, wanted: Sequence[Piece], episodes: int, store: KeptResults
) -> None:
    """Measure those of some pieces that are not kept yet, one after the other on one core, and keep them."""
    left = [piece for piece in wanted if store.results_of(piece.gap, piece.task_set, piece.task) is None]
    places = [(piece.gap, piece.task_set, piece.task) for piece in left if piece.task is not None]
    for where, result in zip(places, measure_tasks(source, spec, places, episodes) if places else (), strict=True):
        store.add([result], *where)
    for piece in left:
        if piece.task is None:
            evaluate_sets(source, spec, [piece.task_set], [piece.gap], episodes, 1, None, store)


def evaluate(
    source: Source,
    env: str,
    task_sets: Sequence[str],
    episodes: int = 100,
    cores: int = 1,
    on_task: OnTask | None = None,
    gap: GapProfile | None = None,
    keep: Path | None = None,
) -> Evaluation:
    """Run a policy on some sets of tasks.

    Args:
        source: the policy.
        env: name of the environment.
        task_sets: names of sets.
        episodes: in each task or in each set, see above.
        cores: most that are used, see above; the results do not depend on it.
        on_task: called with each task's result as it arrives, in any order.
        gap: to reality, that lies between; None for none.
        keep: see `evaluate_gaps`.
    """
    return evaluate_gaps(source, env, task_sets, [gap], episodes, cores, on_task, keep)[0]


def evaluate_gaps(
    source: Source,
    env: str,
    task_sets: Sequence[str],
    gaps: Gaps,
    episodes: int = 100,
    cores: int = 1,
    on_task: OnTask | None = None,
    keep: Path | None = None,
) -> list[Evaluation]:
    """Run a policy behind each of some gaps to reality, in the tasks of some sets: the same starts for all.

    Args:
        source: the policy.
        env: name of the environment.
        task_sets: names of sets.
        gaps: what lies between; None where nothing does.
        episodes: see `evaluate`.
        cores: see `evaluate`.
        on_task: see `evaluate`.
        keep: the file that the caller will write the results to. What is finished is kept beside it meanwhile, so that
            the same call goes on after a cut; call it within `keeping(keep)`. None keeps nothing.
    """
    spec = environment(env)
    store = KeptResults(keep, source, spec, episodes)
    evaluate_each = evaluate_tasks if spec.measure.per == "task" else evaluate_sets
    by_gap = evaluate_each(source, spec, task_sets, gaps, episodes, cores, on_task, store)
    return [Evaluation(env, results, gap) for results, gap in zip(by_gap, gaps, strict=True)]
