"""Returns over sets of tasks, where environments have no goals: many episodes side by side, by native threads.

The paper runs 100 episodes on each set, not on each task: a set has up to 240 tasks, and an episode up to 2000 steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .evaluation import TaskResult
from .rollout import Policy
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


def measure_returns(
    batch: MujocoBatch, policy: Policy, task_set: str, tasks: Sequence[Task], episodes: int, seed: int
) -> Iterator[TaskResult]:
    """Run episodes over a set of tasks, and tell of each task that came up, in the order of the set.

    Args:
        batch: where.
        policy: acts without noise in as many rows as the batch has.
        task_set: name of the set.
        tasks: its tasks.
        episodes: over the whole set; the k-th begins alike for every policy, as the k-th of a `Rollout` of this seed.
        seed: of tasks and starts.
    """
    turns = in_turn(len(tasks), episodes, seed)
    rounds = [range(first, first + batch.rows) for first in range(0, episodes, batch.rows)]
    # What the last round runs beyond the number of episodes is left out.
    played = [
        _round(batch, policy, [tasks[turns[k % episodes]] for k in numbers], [_start(seed, k) for k in numbers])
        for numbers in rounds
    ]
    returns = np.concatenate(played)[:episodes]
    for index, task in enumerate(tasks):
        own = returns[turns == index]
        if len(own):
            yield TaskResult(
                task_set=task_set,
                task=dict(task),
                episodes=len(own),
                success=0.0,
                solved_at_start=0.0,
                lifted=0.0,
                steps=float(batch.episode_steps),
                ret=float(own.mean()),
                returns=tuple(own.tolist()),
            )


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


def _start(seed: int, index: int) -> int:
    """The environment's seed of an episode, as `Rollout` has it."""
    return int(np.random.SeedSequence((seed, index)).spawn(2)[0].generate_state(1)[0])
