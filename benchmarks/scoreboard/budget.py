"""Gives every library equal minutes: the training environment measures the time, and evaluates on a fixed grid.

The time is the processor time of the process (`time.process_time`, all threads, here one), so that a busy machine
hardly distorts it; evaluation does not count. No library needs a callback: it trains in the environment `Metered`,
which ends the run by an exception.

A machine of another speed takes other numbers of steps in the same minutes. A run on it can be given a number of steps
instead, which stands for the minutes: then each step counts as an equal part of the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from benchmarks.scoreboard.tasks import HiddenPhysics, Physics, Task

GRID = 10
"""Largest number of evaluations of a run, at equal intervals of at least `LEAST_INTERVAL`, the last at its end."""
LEAST_INTERVAL = 60.0
"""Shortest training time between two evaluations [s]."""
UNBOUNDED = 100_000_000
"""More environment steps than any budget here allows."""
STARTS = 33_000
"""Seed of the first evaluation start; starts are the same for every method, training seed and point of a curve."""


class Actor(Protocol):
    """A trained policy that acts in n episodes at once, without noise."""

    def reset(self, count: int) -> None:
        """Begin n episodes."""

    def act(self, observations: np.ndarray) -> np.ndarray:
        """Return actions (n, A) for observations (n, D)."""


class TimeIsUpError(Exception):
    """Raised when a run has used its time."""


def play(task: Task, actor: Actor, contexts: Sequence[Physics], reads_task: bool) -> list[float]:
    """Play one episode in each of the contexts, side by side from fixed starts; return their returns."""
    envs = [HiddenPhysics(task, reads_task) for _ in contexts]
    resets = [env.reset(seed=STARTS + k, options={"physics": contexts[k]})[0] for k, env in enumerate(envs)]
    observations, returns = np.stack(resets), np.zeros(len(envs))
    actor.reset(len(envs))
    running = set(range(len(envs)))
    while running:
        actions = actor.act(observations.copy())
        for k in sorted(running):
            observations[k], reward, terminated, truncated, _ = envs[k].step(actions[k])
            returns[k] += reward
            if terminated or truncated:
                running.remove(k)
    for env in envs:
        env.close()
    return [round(float(value), 3) for value in returns]


class Clock:
    """Measures the processor time of training, evaluates when due, and stores the learning curve.

    Args:
        task: the task to learn.
        minutes: budget of processor time [min].
        reads_task: whether the method observes the physics.
        seconds: returns the present time [s]; tests replace it.
        steps: number of environment steps that stands for the whole budget; None where time counts.
    """

    def __init__(
        self,
        task: Task,
        minutes: float,
        reads_task: bool,
        seconds: Callable[[], float] = time.process_time,
        steps: int | None = None,
    ) -> None:
        self.task, self.reads_task, self._seconds, self._budget_steps = task, reads_task, seconds, steps
        self.budget = 60.0 * minutes
        self.actor: Actor | None = None
        self.steps = 0
        self.curve: list[dict[str, Any]] = []
        self._points, self._next = max(1, min(GRID, int(self.budget / LEAST_INTERVAL))), 1
        self._from, self._paused, self._wall = seconds(), 0.0, time.perf_counter()

    def start(self, actor: Actor) -> None:
        """Start the clock: imports and set-up before this call do not count."""
        self.actor, self.curve, self.steps, self._next = actor, [], 0, 1
        self._from, self._paused, self._wall = self._seconds(), 0.0, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Used part of the budget so far [s], without evaluations."""
        if self._budget_steps is not None:
            return self.steps * self.budget / self._budget_steps
        return self._seconds() - self._from - self._paused

    @property
    def share(self) -> float:
        """Used fraction of the budget."""
        return min(1.0, self.seconds / self.budget)

    def tick(self) -> None:
        """Count an environment step, and evaluate if due; raise `TimeIsUpError` after the last evaluation."""
        self.steps += 1
        seconds = self.seconds
        if seconds < self.budget * self._next / self._points:
            return
        # A library that updates in bursts may pass several points of the grid at once.
        self._next = int(seconds * self._points / self.budget) + 1
        last = seconds >= self.budget
        self._evaluate(tuple(self.task.sets) if last else (self.task.curve,))
        if last:
            raise TimeIsUpError

    def _evaluate(self, names: Sequence[str]) -> None:
        assert self.actor is not None
        seconds, start = self.seconds, self._seconds()
        wall = time.perf_counter() - self._wall
        returns = {name: play(self.task, self.actor, self.task.sets[name], self.reads_task) for name in names}
        point = {"seconds": round(seconds, 2), "wall": round(wall, 1), "steps": self.steps, "returns": returns}
        self.curve.append(point)
        self._paused += self._seconds() - start


class Metered(HiddenPhysics):
    """The training environment of a method; each step ticks the clock, if there is one."""

    def __init__(self, task: Task, clock: Clock | None) -> None:
        super().__init__(task, clock is not None and clock.reads_task)
        self.clock = clock

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Tick the clock, and step the robot."""
        if self.clock is not None:
            self.clock.tick()
        return super().step(action)


def train(learn: Callable[[], object]) -> None:
    """Call `learn` until the time is up; raise RuntimeError if it ends earlier."""
    try:
        learn()
    except TimeIsUpError:
        return
    raise RuntimeError("training ended before its time was up; give the library more steps than it can take.")
