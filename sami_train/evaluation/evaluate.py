"""Evaluation on the paper's sets of tasks, with the same starts for every policy. No torch here.

An environment's measure says where episodes are counted (`Measure.per`), and that settles what two arguments mean:

          "task" (success)                                   "set" (return)
episodes  in each task; the k-th begins alike in every task  in each set; its tasks come in turn
cores     so many processes, which share the tasks           so many threads of a simulation that has a batch; else,
                                                             and behind a gap, processes, which share the episodes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.by_set import evaluate_sets
from sami_train.evaluation.by_task import evaluate_tasks, measure_tasks
from sami_train.evaluation.kept import KeptResults
from sami_train.evaluation.model_policy import Source
from sami_train.evaluation.play import Gaps
from sami_train.evaluation.results import Evaluation, OnTask


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
    return [Evaluation(env, results, gap, spec.engine) for results, gap in zip(by_gap, gaps, strict=True)]
