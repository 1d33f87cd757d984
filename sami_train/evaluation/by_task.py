"""Episodes counted task by task, in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.envs.gapped_env import GappedEnv
from sami_train.envs.make import make
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.numpy_policy import NumpyPolicy, Weights
from sami_train.episodes.rollout import Policy, Rollout
from sami_train.evaluation.model_policy import SessionPolicy
from sami_train.evaluation.play import side_by_side
from sami_train.evaluation.results import TaskResult

SEED = 1_000_003
"""Starts of evaluation episodes; no training run uses it unless asked to."""
Source = Path | Weights
"""What is evaluated: a model file, or weights as `ContextPolicy.numpy_weights` gives them."""
Gaps = Sequence[GapProfile | None]
"""Gaps to reality that lie between a policy and its environment, one after the other; None where nothing does."""
OnTask = Callable[[TaskResult], None]


def policy_of(source: Source, spec: EnvironmentSpec, rows: int) -> Policy:
    """The policy that plays `rows` episodes side by side."""
    return SessionPolicy(source, spec, rows) if isinstance(source, Path) else NumpyPolicy(source, rows)


class TaskWorker:
    """What a worker process keeps between tasks, until its end."""

    def __init__(self, source: Source, env: str, episodes: int, gaps: Gaps) -> None:
        self.spec, self.episodes, self.gaps = environment(env), episodes, gaps
        rows = side_by_side(episodes)
        self.policy = policy_of(source, self.spec, rows)
        self.envs = [make(self.spec) for _ in range(rows)]

    def close(self) -> None:
        """Give the simulators back."""
        for env in self.envs:
            env.close()

    def run(self, place: int, task_set: str, task: Task) -> TaskResult:
        """Play the episodes of one task behind the gap at `place`."""
        gap = self.gaps[place]
        envs = [GappedEnv(env, self.spec, gap) for env in self.envs] if gap is not None else self.envs
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
            steps=float(np.mean([len(e) for e in done])),
            success=float(np.mean([e.success for e in done])),
            solved_at_start=float(np.mean(at_goal)),
            shares={
                column: float(np.mean([skill in e.skills for e in done]))
                for column, skill in self.spec.outcomes.items()
            },
            ret=float(np.mean([e.ret for e in done])),
        )


_arguments: tuple[Source, str, int, Gaps]
_worker: TaskWorker | None = None
"""Of this process, where it is a pool's."""


def set_arguments(source: Source, env: str, episodes: int, gaps: Gaps) -> None:
    """Tell a process of a pool what it will work on."""
    global _arguments, _worker
    _arguments, _worker = (source, env, episodes, gaps), None


def run_task(job: tuple[int, str, Task]) -> tuple[int, TaskResult]:
    """A pool's job: the place of a gap, the name of a set, a task of it."""
    global _worker
    if _worker is None:
        # Not in the pool's initializer: an error there respawns workers for ever, here it reaches the caller.
        _worker = TaskWorker(*_arguments)
    return job[0], _worker.run(*job)
