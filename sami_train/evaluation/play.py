"""Plays a policy on many tasks, one episode in each: in single environments, a native batch, or several processes."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from sami_runtime.gap.profile import GapProfile
from sami_train.envs.make import Batch, make, make_batch
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.exploration import WithProfile
from sami_train.episodes.rollout import Policy, Rollout, beginning
from sami_train.evaluation.model_policy import Source, connect_ages, policy_of
from sami_train.machine import one_thread

Gaps = Sequence[GapProfile | None]
"""Sim-to-real profiles to evaluate with, one after the other; None stands for no profile."""
ROWS = 10
"""Most episodes that are stepped together in single environments."""
BATCH_ROWS = 100
"""Most episodes that are stepped together by native threads."""

Metrics = Mapping[str, float]
"""An environment's metrics of an episode, by name."""
Play = Callable[[Sequence[Task], int], tuple[np.ndarray, np.ndarray, list[Metrics]]]
"""Runs one episode in each task, the k-th with the start of a `Rollout`'s k-th for this seed; returns the episodes'
returns and lengths, (len(tasks),) each, and their metrics."""
OnRound = Callable[[int], None]
"""Called after each round with the number of episodes in it."""
P = TypeVar("P", bound=Policy)


class Worker(Protocol):
    """The state of a process, which it uses for one job after another."""

    def run(self, job: Any) -> Any:
        """Do a job, and return its result."""

    def close(self) -> None:
        """Release its resources."""


Jobs = Callable[[Sequence[Any]], Iterator[tuple[Any, Any]]]
"""Does jobs, and yields each job with its result."""


@contextmanager
def sharing(
    make_worker: Callable[..., Worker], arguments: tuple[Any, ...], processes: int, in_order: bool = False
) -> Iterator[Jobs]:
    """Start processes that share jobs during a `with` block.

    Args:
        make_worker: creates a process's worker for its first job; it must be picklable, as must the jobs.
        arguments: arguments of `make_worker`.
        processes: number of processes; with 1 or less, this process does the jobs.
        in_order: whether to yield results in the order of the jobs, instead of as they arrive.
    """
    if processes <= 1:
        with closing(make_worker(*arguments)) as worker:
            yield _single(worker)
        return
    with one_thread():
        pool = mp.get_context("spawn").Pool(processes, _begin_process, (make_worker, arguments))
    with pool:
        arriving: Any = pool.imap if in_order else pool.imap_unordered
        yield lambda jobs: arriving(_run, jobs)


def _single(worker: Worker) -> Jobs:
    """Return a function that does jobs in this process."""
    return lambda jobs: ((job, worker.run(job)) for job in jobs)


_make_worker: Callable[[], Worker]
_worker: Worker | None = None
"""The worker of this process, if it belongs to a pool and has had a job."""


def _begin_process(make_worker: Callable[..., Worker], arguments: tuple[Any, ...]) -> None:
    global _make_worker, _worker
    _make_worker, _worker = partial(make_worker, *arguments), None


def _run(job: Any) -> tuple[Any, Any]:
    global _worker
    if _worker is None:
        # Not in the pool's initializer: an error there respawns workers for ever, here it reaches the caller.
        _worker = _make_worker()
    return job, _worker.run(job)


def side_by_side(episodes: int, most: int = ROWS) -> int:
    """Return how many episodes to step together: at least 2, because a session with batch 1 has arrays without rows."""
    return max(2, min(most, episodes))


def plays_in_batch(spec: EnvironmentSpec, gap: GapProfile | None) -> bool:
    """Return whether a native batch steps the episodes: the environment has one, and there is no profile."""
    return spec.batch_entry_point is not None and gap is None


@contextmanager
def playing(
    spec: EnvironmentSpec,
    make_policy: Callable[[int], P],
    episodes: int,
    threads: int = 0,
    gap: GapProfile | None = None,
    on_round: OnRound | None = None,
    clean_share: float = 0.0,
) -> Iterator[tuple[Play, P]]:
    """Create environments and a policy during a `with` block; yield a `Play` and the policy.

    Args:
        spec: the environment.
        make_policy: creates the policy for a number of rows.
        episodes: about how many episodes one call of `Play` will have.
        threads: simulation threads of a native batch; 0 is one for each core.
        gap: the sim-to-real profile, or None; with a profile no native batch is used.
        on_round: called with the progress.
        clean_share: share of the episodes without the profile, as in `WithProfile`.
    """
    in_batch = plays_in_batch(spec, gap)
    rows = side_by_side(episodes, BATCH_ROWS if in_batch else ROWS)
    policy = make_policy(rows)
    stage: Worker
    if in_batch:
        stage = _BatchStage(make_batch(spec, rows, threads), policy)
    else:
        stage = _EnvStage(spec, policy, rows, gap, clean_share)
    with closing(stage):
        yield _play_by(_single(stage), rows, on_round), policy


@contextmanager
def playing_in_processes(
    source: Source, spec: EnvironmentSpec, episodes: int, processes: int, gap: GapProfile | None = None
) -> Iterator[Play]:
    """Yield a `Play` whose rounds are shared by several processes; its results are bit-equal to those of `playing`.

    Args:
        source: the policy.
        spec: the environment, which is stepped without a native batch.
        episodes: about how many episodes one call of `Play` will have.
        processes: most processes to start.
        gap: the sim-to-real profile, or None.
    """
    rows = side_by_side(episodes)
    with sharing(_stage_of, (source, spec, rows, gap), min(processes, -(-episodes // rows)), in_order=True) as run:
        yield _play_by(run, rows, None)


Round = tuple[Sequence[Task], int, int]
"""A round as a job: the tasks of all episodes, the seed, and the number of the round's first episode."""


def _play_by(run: Jobs, rows: int, on_round: OnRound | None) -> Play:
    def play(tasks: Sequence[Task], seed: int) -> tuple[np.ndarray, np.ndarray, list[Metrics]]:
        results: list[tuple[float, int, Metrics]] = []
        for (_, _, first), of_round in run([(list(tasks), seed, first) for first in range(0, len(tasks), rows)]):
            results += of_round
            if on_round is not None:
                on_round(min(rows, len(tasks) - first))
        # The last round may have more episodes than there are tasks left.
        returns, lengths, metrics = zip(*results[: len(tasks)], strict=True)
        return np.array(returns), np.array(lengths), list(metrics)

    return play


class _EnvStage:
    """Single environments, stepped together: a round is an episode in each, with its return, length and metrics."""

    def __init__(
        self, spec: EnvironmentSpec, policy: Policy, rows: int, gap: GapProfile | None, clean_share: float = 0.0
    ) -> None:
        self.envs = [make(spec, gap, max_episode_steps=spec.episode_steps) for _ in range(rows)]
        self.policy, self.with_profile = policy, WithProfile(clean_share=clean_share)
        connect_ages(policy, self.envs, gap)

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def run(self, job: Round) -> list[tuple[float, int, Metrics]]:
        tasks, seed, first = job
        rollout = Rollout(self.envs, self.policy, seed, tasks=tasks, with_profile=self.with_profile)
        episodes = rollout.round(range(first, first + len(self.envs)))
        return [(episode.ret, len(episode), episode.metrics) for episode in episodes]


def _stage_of(source: Source, spec: EnvironmentSpec, rows: int, gap: GapProfile | None) -> _EnvStage:
    return _EnvStage(spec, policy_of(source, spec, rows), rows, gap)


class _BatchStage:
    """Environments that native threads step together."""

    def __init__(self, batch: Batch, policy: Policy) -> None:
        self.batch, self.policy = batch, policy

    def close(self) -> None:
        pass

    def run(self, job: Round) -> list[tuple[float, int, Metrics]]:
        tasks, seed, first = job
        batch, numbers = self.batch, range(first, first + self.batch.rows)
        of_rows = [tasks[k % len(tasks)] for k in numbers]
        observations = batch.reset([beginning(seed, k)[0] for k in numbers], of_rows)
        self.policy.reset(of_rows)
        rewards = np.zeros((batch.rows, batch.episode_steps), np.float32)
        lengths = np.zeros(batch.rows, np.int64)
        metrics: list[Metrics] = [{}] * batch.rows
        running = np.ones(batch.rows, bool)
        for step in range(batch.episode_steps):
            actions, _ = self.policy.step(observations)
            self.policy.previous_action = actions
            observations, of_step = batch.step(actions)
            rewards[running, step] = of_step[running]
            lengths += running
            over = running & batch.terminated if step + 1 < batch.episode_steps else running
            if over.any():
                measured = batch.metrics
                for row in np.flatnonzero(over):
                    metrics[row] = {name: float(values[row]) for name, values in measured.items()}
                running &= ~over
                if not running.any():
                    break
        episodes = zip(rewards, lengths.tolist(), metrics, strict=True)
        return [(float(row[:length].sum()), length, of_episode) for row, length, of_episode in episodes]
