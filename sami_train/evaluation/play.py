"""Playing a policy on many tasks: one episode in each, side by side, on the fastest stage that an environment has."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, TypeVar

import gymnasium as gym
import numpy as np

from sami_runtime.gap.profile import GapProfile
from sami_train import seeds
from sami_train.cores import one_thread
from sami_train.envs.make import Batch, make, make_batch
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.episodes.exploration import BehindGap
from sami_train.episodes.rollout import Policy, Rollout, beginning
from sami_train.evaluation.model_policy import Source, policy_of, tell_ages


class Worker(Protocol):
    """What a process keeps between jobs, until its end."""

    def run(self, job: Any) -> Any:
        """Do a job."""

    def close(self) -> None:
        """Give back what it holds."""


Jobs = Callable[[Sequence[Any]], Iterator[tuple[Any, Any]]]
"""Does jobs, and yields each with its result."""


@contextmanager
def sharing(
    make_worker: Callable[..., Worker], arguments: tuple[Any, ...], processes: int, in_order: bool = False
) -> Iterator[Jobs]:
    """Start processes that share jobs, and end them afterwards.

    Args:
        make_worker: makes a process's worker when its first job comes; it and the jobs can be pickled.
        arguments: of `make_worker`.
        processes: how many; with 1 or less it is this one.
        in_order: yield results in the order of the jobs, and not as they arrive.
    """
    if processes <= 1:
        worker = make_worker(*arguments)
        try:
            yield lambda jobs: ((job, worker.run(job)) for job in jobs)
        finally:
            worker.close()
        return
    with one_thread(), mp.get_context("spawn").Pool(processes, _begin_process, (make_worker, arguments)) as pool:
        arriving: Any = pool.imap if in_order else pool.imap_unordered
        yield lambda jobs: arriving(_run, jobs)


_make_worker: Callable[..., Worker]
_arguments: tuple[Any, ...]
_worker: Worker | None = None
"""Of this process, where it is a pool's."""


def _begin_process(make_worker: Callable[..., Worker], arguments: tuple[Any, ...]) -> None:
    """Tell a process of a pool what it will work with."""
    global _make_worker, _arguments, _worker
    _make_worker, _arguments, _worker = make_worker, arguments, None


def _run(job: Any) -> tuple[Any, Any]:
    """Do a pool's job."""
    global _worker
    if _worker is None:
        # Not in the pool's initializer: an error there respawns workers for ever, here it reaches the caller.
        _worker = _make_worker(*_arguments)
    return job, _worker.run(job)


SEED = seeds.EVALUATION
Gaps = Sequence[GapProfile | None]
"""Gaps to reality that lie between a policy and its environment, one after the other; None where nothing does."""
ROWS = 10
"""Most episodes that are stepped side by side in single environments."""
BATCH_ROWS = 100
"""Most episodes that are stepped side by side by native threads."""

Play = Callable[[Sequence[Task], int], tuple[np.ndarray, np.ndarray]]
"""Run one episode in each of these tasks, the k-th begun as the k-th of a `Rollout` of this seed: the returns and the
lengths, (len(tasks),) each."""
OnRound = Callable[[int], None]
"""Called after each round with the number of episodes in it."""
P = TypeVar("P", bound=Policy)


def side_by_side(episodes: int, most: int = ROWS) -> int:
    """How many episodes to step together: at least 2, as a session of one takes and gives arrays without rows."""
    return max(2, min(most, episodes))


def plays_in_batch(spec: EnvironmentSpec, gap: GapProfile | None) -> bool:
    """Whether native threads step the episodes: the environment has a batch, and nothing ends one before the others."""
    return spec.batch_entry_point is not None and not spec.ends_early and gap is None


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
    """Set a stage, and take it down afterwards.

    Args:
        spec: the environment.
        make_policy: makes the policy for so many rows.
        episodes: about how many will be played at a time.
        threads: of the simulation, where it is stepped as a batch; 0 is one for each core.
        gap: to reality; it lies between a policy and one environment, so behind it there is no batch.
        on_round: told of the progress.
        clean_share: share of the episodes that have no gap all the same, as in `BehindGap`.
    """
    in_batch = plays_in_batch(spec, gap)
    rows = side_by_side(episodes, BATCH_ROWS if in_batch else ROWS)
    policy = make_policy(rows)
    if in_batch:
        yield _in_batch(make_batch(spec, rows, threads), policy, on_round), policy
        return
    with ExitStack() as closing:
        envs = [make(spec, gap, max_episode_steps=spec.episode_steps) for _ in range(rows)]
        for env in envs:
            closing.callback(env.close)
        tell_ages(policy, envs, gap)
        yield _in_envs(envs, policy, on_round, BehindGap(clean_share=clean_share)), policy


def _rounds(count: int, rows: int, on_round: OnRound | None) -> Iterator[range]:
    """Numbers of episodes; what the last round runs beyond the count is left out by the caller."""
    for first in range(0, count, rows):
        yield range(first, first + rows)
        if on_round is not None:
            on_round(min(rows, count - first))


def _in_batch(batch: Batch, policy: Policy, on_round: OnRound | None) -> Play:
    def play(tasks: Sequence[Task], seed: int) -> tuple[np.ndarray, np.ndarray]:
        played = [
            _round(batch, policy, [tasks[k % len(tasks)] for k in numbers], [beginning(seed, k)[0] for k in numbers])
            for numbers in _rounds(len(tasks), batch.rows, on_round)
        ]
        return np.concatenate(played)[: len(tasks)], np.full(len(tasks), batch.episode_steps)

    return play


def _in_envs(envs: Sequence[gym.Env], policy: Policy, on_round: OnRound | None, behind: BehindGap) -> Play:
    def play(tasks: Sequence[Task], seed: int) -> tuple[np.ndarray, np.ndarray]:
        rollout = Rollout(envs, policy, seed, tasks=tasks, behind=behind)
        rounds = _rounds(len(tasks), len(envs), on_round)
        played = [episode for numbers in rounds for episode in rollout.round(numbers)][: len(tasks)]
        return np.array([episode.ret for episode in played]), np.array([len(episode) for episode in played])

    return play


@contextmanager
def playing_in_processes(
    source: Source, spec: EnvironmentSpec, episodes: int, processes: int, gap: GapProfile | None = None
) -> Iterator[Play]:
    """Set a stage of several processes, which share the rounds: what is played is what `playing` plays, to the bit.

    Args:
        source: the policy.
        spec: the environment, which has no batch.
        episodes: about how many will be played at a time.
        processes: how many.
        gap: to reality.
    """
    rows = side_by_side(episodes)
    with sharing(_RoundWorker, (source, spec, gap, rows), min(processes, -(-episodes // rows)), in_order=True) as run:

        def play(tasks: Sequence[Task], seed: int) -> tuple[np.ndarray, np.ndarray]:
            jobs = [(list(tasks), seed, first) for first in range(0, len(tasks), rows)]
            played = [episode for _, several in run(jobs) for episode in several][: len(tasks)]
            return np.array([ret for ret, _ in played]), np.array([length for _, length in played])

        yield play


class _RoundWorker:
    """A process's environments and its policy."""

    def __init__(self, source: Source, spec: EnvironmentSpec, gap: GapProfile | None, rows: int) -> None:
        self.envs = [make(spec, gap, max_episode_steps=spec.episode_steps) for _ in range(rows)]
        self.policy = policy_of(source, spec, rows)
        tell_ages(self.policy, self.envs, gap)

    def close(self) -> None:
        """Give the simulators back."""
        for env in self.envs:
            env.close()

    def run(self, job: tuple[Sequence[Task], int, int]) -> list[tuple[float, int]]:
        """Play one round, and return the return and the length of each episode."""
        tasks, seed, first = job
        played = Rollout(self.envs, self.policy, seed, tasks=tasks).round(range(first, first + len(self.envs)))
        return [(episode.ret, len(episode)) for episode in played]


def _round(batch: Batch, policy: Policy, tasks: Sequence[Task], seeds: Sequence[int]) -> np.ndarray:
    """Return the returns (n,) of one episode in each row; all end together, by time."""
    observations = batch.reset(seeds, tasks)
    policy.reset(tasks)
    rewards = np.empty((batch.rows, batch.episode_steps), np.float32)
    for step in range(batch.episode_steps):
        actions, _ = policy.step(observations)
        policy.previous_action = actions
        observations, rewards[:, step] = batch.step(actions)
    return np.array([row.sum() for row in rewards], np.float64)
