"""Episodes counted set by set, where the return is what counts.

The paper runs 100 episodes on each set, not on each task: a set has up to 240 tasks, and an episode up to 2000 steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from sami_runtime.gap.profile import GapProfile
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.kept import KeptResults
from sami_train.evaluation.model_policy import Source, policy_of
from sami_train.evaluation.play import (
    ROWS,
    SEED,
    Gaps,
    Play,
    playing,
    playing_in_processes,
    plays_in_batch,
)
from sami_train.evaluation.results import OnTask, TaskResult


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
