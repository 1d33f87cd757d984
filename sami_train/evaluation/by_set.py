"""Returns over sets of tasks, where environments have no goals.

The paper runs 100 episodes on each set, not on each task: a set has up to 240 tasks, and an episode up to 2000 steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sami_train.envs.tasks import Task
from sami_train.evaluation.play import Play
from sami_train.evaluation.results import TaskResult


def in_turn(count: int, episodes: int, seed: int) -> np.ndarray:
    """Which of `count` tasks each episode is in, (episodes,): every task once, in random order, before any comes again.

    Where a set has more tasks than there are episodes, these are a random sample of it.
    """
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(count) for _ in range(-(-episodes // count))])[:episodes]


def measure_returns(play: Play, task_set: str, tasks: Sequence[Task], episodes: int, seed: int) -> Iterator[TaskResult]:
    """Run episodes over a set of tasks, and tell of each task that came up, in the order of the set.

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
        own = turns == index
        if own.any():
            yield TaskResult(
                task_set=task_set,
                task=dict(task),
                episodes=int(own.sum()),
                steps=float(steps[own].mean()),
                ret=float(returns[own].mean()),
                returns=tuple(returns[own].tolist()),
            )
