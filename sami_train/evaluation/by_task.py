"""Episodes counted task by task, where success is what counts; processes share the tasks."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sami_runtime.gap.profile import GapProfile
from sami_train.envs.gapped_env import GappedEnv
from sami_train.envs.make import make
from sami_train.envs.skills import episode_skill
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.episode import Episode
from sami_train.episodes.rollout import Rollout
from sami_train.evaluation.kept import KeptResults
from sami_train.evaluation.model_policy import Source, policy_of, tell_ages
from sami_train.evaluation.play import SEED, Gaps, side_by_side
from sami_train.evaluation.processes import sharing
from sami_train.evaluation.results import OnTask, TaskResult

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
