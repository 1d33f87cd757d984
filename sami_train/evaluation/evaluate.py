"""Evaluation on the paper's sets of tasks, with the same starts for every policy. No torch here."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Iterable, Sequence

from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import label
from sami_train.evaluation.by_set import measure_returns
from sami_train.evaluation.by_task import SEED, Gaps, OnTask, Source, TaskWorker, policy_of, run_task, set_arguments
from sami_train.evaluation.play import playing
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.machine.cores import one_thread


def count_results(spec: EnvironmentSpec, task_sets: Sequence[str], episodes: int) -> int:
    """How many tasks an evaluation tells of."""
    each = [len(spec.tasks.resolve(name)) for name in task_sets]
    return sum(each if spec.measure.per == "task" else (min(count, episodes) for count in each))


def evaluate(
    source: Source,
    env: str,
    task_sets: Sequence[str],
    episodes: int = 100,
    workers: int = 1,
    on_task: OnTask | None = None,
    gap: GapProfile | None = None,
) -> Evaluation:
    """Run a policy on some sets of tasks.

    Args:
        source: the policy.
        env: name of the environment.
        task_sets: names of sets.
        episodes: in each task, the k-th of which begins alike in every task; where the return counts, in each set,
            whose tasks come in turn (see `returns`).
        workers: processes; where the return counts, threads of the simulation, or this process alone behind a gap.
        on_task: called with each task's result as it arrives, in any order.
        gap: to reality, see `evaluate_gaps`.
    """
    return evaluate_gaps(source, env, task_sets, [gap], episodes, workers, on_task)[0]


def evaluate_gaps(
    source: Source,
    env: str,
    task_sets: Sequence[str],
    gaps: Gaps,
    episodes: int = 100,
    workers: int = 1,
    on_task: OnTask | None = None,
) -> list[Evaluation]:
    """Run a policy behind each of some gaps to reality, in every task of some sets: the same starts for all.

    Args:
        source: the policy.
        env: name of the environment.
        task_sets: names of sets.
        gaps: what lies between; None where nothing does.
        episodes: see `evaluate`.
        workers: see `evaluate`.
        on_task: see `evaluate`.
    """
    spec = environment(env)
    if spec.measure.per == "set":
        return [_evaluate_sets(source, spec, task_sets, episodes, workers, on_task, gap) for gap in gaps]
    tasks = [(task_set, task) for task_set in task_sets for task in spec.tasks.resolve(task_set)]
    jobs = [(place, *task) for place in range(len(gaps)) for task in tasks]
    arguments = (source, env, episodes, tuple(gaps))
    found: dict[tuple[int, str, str], TaskResult] = {}

    def gather(arriving: Iterable[tuple[int, TaskResult]]) -> list[Evaluation]:
        for place, result in arriving:
            found[place, result.task_set, label(result.task)] = result
            if on_task is not None:
                on_task(result)
        return [
            Evaluation(env, tuple(found[place, task_set, label(task)] for task_set, task in tasks), gap)
            for place, gap in enumerate(gaps)
        ]

    if workers <= 1:
        worker = TaskWorker(source, env, episodes, gaps)
        try:
            return gather((job[0], worker.run(*job)) for job in jobs)
        finally:
            worker.close()
    with (
        one_thread(),
        mp.get_context("spawn").Pool(min(workers, len(jobs)), set_arguments, arguments) as pool,
    ):
        return gather(pool.imap_unordered(run_task, jobs))


def _evaluate_sets(
    source: Source,
    spec: EnvironmentSpec,
    task_sets: Sequence[str],
    episodes: int,
    threads: int,
    on_task: OnTask | None,
    gap: GapProfile | None,
) -> Evaluation:
    found = []
    with playing(spec, lambda rows: policy_of(source, spec, rows), episodes, threads, gap) as (play, _):
        for task_set in task_sets:
            for result in measure_returns(play, task_set, spec.tasks.resolve(task_set), episodes, SEED):
                found.append(result)
                if on_task is not None:
                    on_task(result)
    return Evaluation(spec.name, tuple(found), gap)
