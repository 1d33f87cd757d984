"""Rollouts collect whole episodes in rounds: one episode in each of n environments, stepped together.

Episode k of a run (its task, start and exploration) is a function of the seed, k, the weights and the steps done.
No state passes from one episode to the next, so that a run resumed between two rounds continues exactly.

This module imports no torch, because rollout workers import it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.layout import PRIVILEGED, flatten
from sami_train.envs.make import GAP_SIZE, TRUE_OBSERVATION
from sami_train.envs.spec import Reach
from sami_train.envs.tasks import Task
from sami_train.episodes.episode import DRAWN_TASK, Episode
from sami_train.episodes.exploration import Exploration, WithProfile, _Explorer


class Policy(Protocol):
    """A policy that steps n episodes at once."""

    previous_action: np.ndarray
    """(n, A): the previous executed action; the rollout sets it, since it may execute another one than proposed."""

    @property
    def state(self) -> tuple[np.ndarray, ...]:
        """The encoder's state, (n, ...) each; only rollouts that store states read it."""

    def reset(self, tasks: Sequence[Task] = ()) -> None:
        """Start a new episode in each row; only the oracle may read its task."""

    def step(self, observation: np.ndarray, noise: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return actions (n, A) and contexts (n, C) for flat observations (n, D); see `NumpyPolicy.step`."""


def tasks_of(env: gym.Env) -> Sequence[Task]:
    """Return the tasks of an environment; one empty task if it has none, or draws a new one for each episode."""
    return getattr(env.unwrapped, "tasks", None) or ({},)


def beginning(seed: int, index: int) -> tuple[int, np.random.SeedSequence]:
    """Return an episode's random seeds: the environment's seed, and the seed sequence of its exploration."""
    start, explore = np.random.SeedSequence((seed, index)).spawn(2)
    return int(start.generate_state(1)[0]), explore


class Rollout:
    """Collects episodes from environments of one kind with a policy in numpy.

    Args:
        envs: the environments; a round is one episode in each.
        policy: it steps all environments at once, so that it needs one row for each.
        seed: the run's seed.
        exploration: None acts deterministically (evaluation).
        reach: scripted exploration of the environment, see `EnvironmentSpec.reach`.
        tasks: the tasks to visit in turn; the environment's own if None.
        state_every: steps between two encoder states that an episode stores; 0 stores none.
        with_profile: whether episodes store the true state, and how large their sim-to-real profile is.
    """

    def __init__(
        self,
        envs: Sequence[gym.Env],
        policy: Policy,
        seed: int,
        exploration: Exploration | None = None,
        reach: Reach | None = None,
        tasks: Sequence[Task] | None = None,
        state_every: int = 0,
        with_profile: WithProfile | None = None,
    ) -> None:
        self.state_every, self.with_profile = state_every, with_profile or WithProfile()
        self.envs, self.policy, self.seed = list(envs), policy, seed
        self.exploration, self._reach = exploration, reach
        self.tasks = tasks or tasks_of(self.envs[0])
        space = self.envs[0].action_space
        assert isinstance(space, gym.spaces.Box)
        self._low, self._high = space.low, space.high

    def round(self, indices: Sequence[int], steps_done: int = 0) -> list[Episode]:
        """Run one episode in each environment.

        Args:
            indices: numbers of the episodes in the run, one for each environment. Episode k has task k modulo the
                number of tasks, since the paper's Algorithm 1 visits the tasks in turn.
            steps_done: environment steps of the run so far, on which exploration depends.

        Returns:
            The episodes, in the order of the environments.
        """
        recorders = [self._begin(env, k, steps_done) for env, k in zip(self.envs, indices, strict=True)]
        self.policy.reset([recorder.full_task for recorder in recorders])
        running = list(range(len(self.envs)))
        observation = np.stack([recorder.observations[-1] for recorder in recorders])
        noise = None
        while running:
            if self.exploration is not None:
                noise = np.stack([recorder.explorer.noise() for recorder in recorders])
            for row in running:
                recorders[row].keep_state(self.policy, row, self.state_every)
            actions, _ = self.policy.step(observation, noise)
            if not np.isfinite(actions).all():
                raise SamiError("the policy's actions are not finite: the training diverged. Lower its learning rates.")
            for row in list(running):
                recorder = recorders[row]
                if self.exploration is not None:
                    actions[row] = recorder.explorer.act(len(recorder.actions), observation[row], actions[row])
                over = recorder.step(self.envs[row], actions[row])
                observation[row] = recorder.observations[-1]
                if over:
                    running.remove(row)
            self.policy.previous_action = actions
        return [recorder.episode() for recorder in recorders]

    def _begin(self, env: gym.Env, index: int, steps_done: int) -> _Recorder:
        start, explore = beginning(self.seed, index)
        task_index = index % len(self.tasks)
        task = self.tasks[task_index]
        options: dict[str, Any] = {"task": dict(task)} if task else {}
        if (size := self.with_profile.size(steps_done, self.seed, index)) < 1.0:
            options[GAP_SIZE] = size
        observation, info = env.reset(seed=start, options=options or None)
        if not task and info.get("task"):  # the environment drew a new task
            task, task_index = info["task"], DRAWN_TASK
        full_task, rng = info.get("task", task), np.random.default_rng(explore)
        plan = self.exploration or Exploration()
        explorer = _Explorer(plan, rng, steps_done, self._low, self._high, self._reach, full_task)
        recorder = _Recorder(index, task, task_index, full_task, explorer, [_finite_row(observation)])
        if self.with_profile.keeps_true_state:
            recorder.true_observations = [recorder.true(info)]
        return recorder


def _finite_row(observation: Any, reward: float = 0.0) -> np.ndarray:
    """Return an observation as one row (D,); raise SamiError if a number of it, or the reward, is not finite."""
    row = flatten(observation)
    faults = [f"observed number {at} is {row[at]}" for at in np.flatnonzero(~np.isfinite(row))]
    if faults := faults + [f"reward is {reward}"] * (not math.isfinite(reward)):
        raise SamiError(f"the environment's {' and '.join(faults)}; no network learns from that. Correct it.")
    return row


@dataclass
class _Recorder:
    """The record of one running episode."""

    index: int
    task: Task
    task_index: int
    full_task: Task
    """The task as the environment reports it, with every feature."""
    explorer: _Explorer
    observations: list[np.ndarray]
    true_observations: list[np.ndarray] | None = None
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    skills: set[str] = field(default_factory=set)
    states: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    terminated: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    def true(self, info: dict[str, Any]) -> np.ndarray:
        """Return the last true state (D + P,): the observation without the profile's errors, and privileged numbers."""
        observation = np.asarray(info.get(TRUE_OBSERVATION, self.observations[-1]))
        return np.concatenate([observation, info[PRIVILEGED]]) if PRIVILEGED in info else observation

    def keep_state(self, policy: Policy, row: int, every: int) -> None:
        """Store the encoder's state before this step, if the step is a multiple of `every`."""
        if every and len(self.actions) % every == 0:
            self.states.append(tuple(part[row].copy() for part in policy.state))

    def step(self, env: gym.Env, action: np.ndarray) -> bool:
        """Step the environment, and return whether the episode is over."""
        observation, reward, self.terminated, truncated, self.info = env.step(action)
        self.observations.append(_finite_row(observation, float(reward)))
        if self.true_observations is not None:
            self.true_observations.append(self.true(self.info))
        self.actions.append(action.copy())
        self.rewards.append(float(reward))
        if "skill" in self.info:
            self.skills.add(self.info["skill"])
        return bool(self.terminated or truncated)

    def episode(self) -> Episode:
        return Episode(
            index=self.index,
            task=self.task,
            task_index=self.task_index,
            observations=np.stack(self.observations),
            actions=np.stack(self.actions),
            rewards=np.array(self.rewards, np.float32),
            terminated=self.terminated,
            success=bool(self.info.get("is_success", False)),
            skills=frozenset(self.skills),
            states=tuple(np.stack(part) for part in zip(*self.states, strict=True)),
            true_observations=None if self.true_observations is None else np.stack(self.true_observations),
            metrics=self.info.get("metrics", {}),
        )


def with_states(episode: Episode, policy: Policy, every: int) -> Episode:
    """Return the episode with the encoder states that a `Rollout` of this policy would have stored.

    Args:
        episode: its observations and executed actions are replayed.
        policy: a policy with one row, which is reset here.
        every: steps between two states.
    """
    policy.reset([episode.task])
    states: list[tuple[np.ndarray, ...]] = []
    for step, action in enumerate(episode.actions):
        if step % every == 0:
            states.append(tuple(part[0].copy() for part in policy.state))
        policy.step(episode.observations[step : step + 1])
        policy.previous_action = action[None]
    return replace(episode, states=tuple(np.stack(part) for part in zip(*states, strict=True)))
