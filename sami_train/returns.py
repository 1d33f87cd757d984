"""Returns over sets of tasks, where environments have no goals: many episodes side by side, by native threads.

The paper runs 100 episodes on each set, not on each task: a set has up to 240 tasks, and an episode up to 2000 steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np

from .evaluation import TaskResult
from .rollout import Policy, Rollout, beginning
from .tasks import Task

if TYPE_CHECKING:
    from .envs.mujoco.batch import MujocoBatch

ROWS = 100
"""Most episodes that are stepped side by side."""


def in_turn(count: int, episodes: int, seed: int) -> np.ndarray:
    """Which of `count` tasks each episode is in, (episodes,): every task once, in random order, before any comes again.

    Where a set has more tasks than there are episodes, these are a random sample of it.
    """
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(count) for _ in range(-(-episodes // count))])[:episodes]


Play = Callable[[Sequence[Task], int], tuple[np.ndarray, np.ndarray]]
"""Run one episode in each of these tasks, the k-th begun as the k-th of a `Rollout` of this seed: the returns and the
lengths, (len(tasks),) each."""


def measure_returns(play: Play, task_set: str, tasks: Sequence[Task], episodes: int, seed: int) -> Iterator[TaskResult]:
    """Run episodes over a set of tasks, and tell of each task that came up, in the order of the set.

    Args:
        play: where and by whom, see `in_batch` and `in_envs`.
        task_set: name of the set.
        tasks: its tasks.
        episodes: over the whole set.
        seed: of tasks and starts.
    """
    turns = in_turn(len(tasks), episodes, seed)
    returns, steps = play([tasks[turn] for turn in turns], seed)
    for index, task in enumerate(tasks):
        own = turns == index
        if own.any():
            yield TaskResult(
                task_set=task_set,
                task=dict(task),
                episodes=int(own.sum()),
                success=0.0,
                solved_at_start=0.0,
                lifted=0.0,
                steps=float(steps[own].mean()),
                ret=float(returns[own].mean()),
                returns=tuple(returns[own].tolist()),
            )


def in_batch(batch: MujocoBatch, policy: Policy) -> Play:
    """Play on a batch; the policy has as many rows."""

    def play(tasks: Sequence[Task], seed: int) -> tuple[np.ndarray, np.ndarray]:
        rounds = [range(first, first + batch.rows) for first in range(0, len(tasks), batch.rows)]
        # What the last round runs beyond the number of episodes is left out.
        played = [
            _round(batch, policy, [tasks[k % len(tasks)] for k in numbers], [beginning(seed, k)[0] for k in numbers])
            for numbers in rounds
        ]
        returns = np.concatenate(played)[: len(tasks)]
        return returns, np.full(len(tasks), batch.episode_steps)

    return play


def in_envs(envs: Sequence[gym.Env], policy: Policy) -> Play:
    """Play in single environments, as many as the policy has rows."""

    def play(tasks: Sequence[Task], seed: int) -> tuple[np.ndarray, np.ndarray]:
        rollout = Rollout(envs, policy, seed, tasks=tasks)
        rounds = [range(first, first + len(envs)) for first in range(0, len(tasks), len(envs))]
        played = [episode for numbers in rounds for episode in rollout.round(numbers)][: len(tasks)]
        return np.array([episode.ret for episode in played]), np.array([len(episode) for episode in played])

    return play


def _round(batch: MujocoBatch, policy: Policy, tasks: Sequence[Task], seeds: Sequence[int]) -> np.ndarray:
    """The returns (n,) of one episode in each row; all end together, by time."""
    observations = batch.reset(seeds, tasks)
    policy.reset()
    rewards = np.empty((batch.rows, batch.episode_steps), np.float32)
    for step in range(batch.episode_steps):
        actions, _ = policy.step(observations)
        policy.previous_action = actions
        observations, rewards[:, step] = batch.step(actions)
    return np.array([row.sum() for row in rewards], np.float64)
