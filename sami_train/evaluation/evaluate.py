"""Evaluation on the paper's sets of tasks, with the same starts for every policy. No torch here."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from sami_runtime.adapters.base import require_compatible
from sami_runtime.session.session import Session
from sami_train.envs.catalog import EnvironmentSpec, environment
from sami_train.envs.gapped_env import GappedEnv
from sami_train.envs.tasks import Task, label
from sami_train.episodes.collectors import one_thread
from sami_train.episodes.numpy_policy import NumpyPolicy, Weights
from sami_train.episodes.rollout import Policy, Rollout
from sami_train.evaluation.by_set import measure_returns
from sami_train.evaluation.play import playing, side_by_side
from sami_train.evaluation.results import Evaluation, TaskResult

SEED = 1_000_003
"""Starts of evaluation episodes; no training run uses it unless asked to."""


class SessionPolicy:
    """A model file, stepped as rollouts step policies: evaluation runs what a robot would run.

    Args:
        path: the model.
        spec: the environment, whose layout names the signals.
        rows: episodes stepped together, at least 2 (a session of one takes and gives arrays without rows).

    Raises:
        AdapterError: the model reads or writes other signals than the environment has.
    """

    def __init__(self, path: Path, spec: EnvironmentSpec, rows: int) -> None:
        self._session = Session.load(path, batch=rows)
        self.observation, self.action = tuple(item.signal for item in spec.signals), spec.action
        require_compatible(self._session.contract, cast(Any, self))
        self._slices = {item.signal.name: item for item in spec.signals}
        self._names = [signal.name for signal in self._session.contract.observation]
        self.previous_action = np.zeros((rows, self._session.contract.action.size), np.float32)
        self._acted = False

    @property
    def state(self) -> tuple[np.ndarray, ...]:
        """The encoder's state, (n, ...) each."""
        return tuple(self._session.state.tensors.values())

    def reset(self) -> None:
        """Begin new episodes in all rows."""
        self._session.reset()
        self._acted = False

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Actions (n, A) and contexts (n, C) for flat observations (n, D); a model file samples no actions."""
        if noise is not None:
            raise ValueError("a model file acts deterministically; it takes no noise")
        if self._acted:
            self._session.executed(self.previous_action)
        named = {name: observation[:, self._slices[name].indices] for name in self._names}
        step = self._session.step(named)
        self._acted = True
        return step.action, step.context


Source = Path | Weights
"""What is evaluated: a model file, or weights as `ContextPolicy.numpy_weights` gives them."""
OnTask = Callable[[TaskResult], None]


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
    gap: str = "",
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
    gaps: Sequence[str],
    episodes: int = 100,
    workers: int = 1,
    on_task: OnTask | None = None,
) -> list[Evaluation]:
    """Run a policy behind each of some gaps to reality, in every task of some sets: the same starts for all.

    Args:
        source: the policy.
        env: name of the environment.
        task_sets: names of sets.
        gaps: profiles as `GapProfile.dumps` writes them; an empty one is none.
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
        worker = _Worker(source, env, episodes, gaps)
        try:
            return gather((job[0], worker.run(*job)) for job in jobs)
        finally:
            worker.close()
    with (
        one_thread(),
        mp.get_context("spawn").Pool(min(workers, len(jobs)), _set_arguments, arguments) as pool,
    ):
        return gather(pool.imap_unordered(_run_task, jobs))


def _evaluate_sets(
    source: Source,
    spec: EnvironmentSpec,
    task_sets: Sequence[str],
    episodes: int,
    threads: int,
    on_task: OnTask | None,
    gap: str,
) -> Evaluation:
    found = []
    with playing(spec, lambda rows: _policy(source, spec, rows), episodes, threads, gap) as (play, _):
        for task_set in task_sets:
            for result in measure_returns(play, task_set, spec.tasks.resolve(task_set), episodes, SEED):
                found.append(result)
                if on_task is not None:
                    on_task(result)
    return Evaluation(spec.name, tuple(found), gap)


def _policy(source: Source, spec: EnvironmentSpec, rows: int) -> Policy:
    return SessionPolicy(source, spec, rows) if isinstance(source, Path) else NumpyPolicy(source, rows)


class _Worker:
    """What a worker process keeps between tasks, until its end."""

    def __init__(self, source: Source, env: str, episodes: int, gaps: Sequence[str]) -> None:
        self.spec, self.episodes, self.gaps = environment(env), episodes, gaps
        rows = side_by_side(episodes)
        self.policy = _policy(source, self.spec, rows)
        self.envs = [self.spec.make() for _ in range(rows)]

    def close(self) -> None:
        """Give the simulators back."""
        for env in self.envs:
            env.close()

    def run(self, place: int, task_set: str, task: Task) -> TaskResult:
        gap = self.gaps[place]
        envs = [GappedEnv(env, gap) for env in self.envs] if gap else self.envs
        rollout = Rollout(envs, self.policy, SEED, tasks=(task,))
        done = []
        for first in range(0, self.episodes, len(self.envs)):
            done += rollout.round(range(first, first + len(self.envs)))
        done = done[: self.episodes]
        goal = self.spec.goal
        at_goal = [
            goal is not None and bool(goal.reached(e.observations[0, goal.achieved], e.observations[0, goal.desired]))
            for e in done
        ]
        return TaskResult(
            task_set=task_set,
            task=dict(task),
            episodes=len(done),
            success=float(np.mean([e.success for e in done])),
            solved_at_start=float(np.mean(at_goal)),
            lifted=float(np.mean(["pick_and_place" in e.skills for e in done])),
            steps=float(np.mean([len(e) for e in done])),
            ret=float(np.mean([e.ret for e in done])),
        )


_arguments: tuple[Source, str, int, tuple[str, ...]]
_worker: _Worker | None = None


def _set_arguments(source: Source, env: str, episodes: int, gaps: tuple[str, ...]) -> None:
    global _arguments, _worker
    _arguments, _worker = (source, env, episodes, gaps), None


def _run_task(job: tuple[int, str, Task]) -> tuple[int, TaskResult]:
    global _worker
    if _worker is None:
        # Not in the pool's initializer: an error there respawns workers for ever, here it reaches the caller.
        _worker = _Worker(*_arguments)
    return job[0], _worker.run(*job)
