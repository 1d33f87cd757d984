"""Success and return by task: the paper's task sets, the same starts for every task and every policy. No torch here."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from sami_runtime.adapters.base import require_compatible
from sami_runtime.errors import SamiError
from sami_runtime.session import Session

from .collectors import one_thread
from .envs.catalog import EnvironmentSpec, environment
from .envs.gapped import GappedEnv
from .numpy_policy import NumpyPolicy, Weights
from .rollout import Policy, Rollout
from .tasks import Task, label

SEED = 1_000_003
"""Starts of evaluation episodes; no training run uses it unless asked to."""
ROWS = 10
"""Episodes that are stepped side by side."""


@dataclass(frozen=True)
class TaskResult:
    """What a policy did in one task."""

    task_set: str
    task: Task
    episodes: int
    success: float
    """Share of episodes that reached the goal."""
    solved_at_start: float
    """Share of episodes that began at the goal: what doing nothing would score."""
    lifted: float
    """Share of episodes with Pick&Place at any step."""
    steps: float
    """Mean length of an episode."""
    ret: float | None = None
    """Mean return; None in files of before it was kept."""

    @property
    def above_floor(self) -> float:
        """Success among the episodes that were not solved at their start."""
        return (self.success - self.solved_at_start) / (1.0 - self.solved_at_start)


@dataclass(frozen=True)
class Evaluation:
    """Results of one policy over tasks."""

    env: str
    results: tuple[TaskResult, ...]
    gap: str = ""
    """The gap to reality that lay between, as `GapProfile.dumps` writes it; empty where none did."""

    def of(self, task_set: str) -> list[TaskResult]:
        """Results of one set."""
        return [result for result in self.results if result.task_set == task_set]

    @property
    def sets(self) -> list[str]:
        """Sets that were evaluated, in order."""
        return list(dict.fromkeys(result.task_set for result in self.results))

    def success(self, task_set: str) -> float:
        """Mean success over a set's tasks."""
        return float(np.mean([result.success for result in self.of(task_set)]))

    def above_floor(self, task_set: str) -> float:
        """Mean success over a set's tasks, among episodes that were not solved at their start."""
        return float(np.mean([result.above_floor for result in self.of(task_set)]))

    def ret(self, task_set: str) -> float:
        """Mean return over a set's tasks; NaN where it was not kept."""
        return float(np.mean([np.nan if result.ret is None else result.ret for result in self.of(task_set)]))

    def summary(self, task_set: str) -> dict[str, float]:
        """What counts in a set: the return, and success where the environment has a goal."""
        found = {} if np.isnan(self.ret(task_set)) else {"ret": self.ret(task_set)}
        if environment(self.env).goal is None:
            return found
        return {"success": self.success(task_set), "above_floor": self.above_floor(task_set), **found}

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "env": self.env,
            **({"gap": self.gap} if self.gap else {}),
            "sets": {name: self.summary(name) for name in self.sets},
            "tasks": [asdict(result) | {"above_floor": result.above_floor} for result in self.results],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Evaluation:
        """Back from `to_dict`.

        Raises:
            SamiError: something is missing.
        """
        names = [name for name in TaskResult.__dataclass_fields__ if name != "ret"]
        try:
            results = tuple(
                TaskResult(**{name: row[name] for name in names}, ret=row.get("ret")) for row in values["tasks"]
            )
            return cls(values["env"], results, values.get("gap", ""))
        except (KeyError, TypeError) as error:
            raise SamiError(f"the evaluation lacks {error}; measure again with: sami eval --run RUN.") from error


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


def evaluate(
    source: Source,
    env: str,
    task_sets: Sequence[str],
    episodes: int = 100,
    workers: int = 1,
    on_task: OnTask | None = None,
    gap: str = "",
) -> Evaluation:
    """Run a policy in every task of some sets.

    Args:
        source: the policy.
        env: name of the environment.
        task_sets: names of sets.
        episodes: per task; the k-th begins alike in every task.
        workers: processes.
        on_task: called with each result as it arrives, in any order.
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
        episodes: per task.
        workers: processes.
        on_task: see `evaluate`.
    """
    spec = environment(env)
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
        _set_arguments(*arguments)
        return gather(map(_run_task, jobs))
    with (
        one_thread(),
        mp.get_context("spawn").Pool(min(workers, len(jobs)), _set_arguments, arguments) as pool,
    ):
        return gather(pool.imap_unordered(_run_task, jobs))


class _Worker:
    """What a worker process keeps between tasks."""

    def __init__(self, source: Source, env: str, episodes: int, gaps: Sequence[str]) -> None:
        self.spec, self.episodes, self.gaps = environment(env), episodes, gaps
        rows = max(2, min(ROWS, episodes))
        self.policy: Policy = (
            SessionPolicy(source, self.spec, rows) if isinstance(source, Path) else NumpyPolicy(source, rows)
        )
        self.envs = [self.spec.make() for _ in range(rows)]

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
