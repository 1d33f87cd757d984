"""Episode buffer: whole episodes by task, sampled as windows of sequences and as transitions with hindsight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.measure import Goal
from sami_train.episodes.episode import Episode
from sami_train.episodes.exploration import BehindGap


class Windows(NamedTuple):
    """B stretches of stored episodes: whole episodes, or parts of them."""

    episodes: np.ndarray
    """(B,) positions in the buffer."""
    starts: np.ndarray
    """(B,) first step."""
    lengths: np.ndarray
    """(B,) steps."""
    burn_in: np.ndarray
    """(B,) how many of the first steps are not learned from."""


class SequenceBatch(NamedTuple):
    """What an encoder runs over: B windows, padded at the end to the longest of them, L steps."""

    observations: np.ndarray
    """(B, L + 1, D): one more than actions, since the last state is the last step's successor."""
    actions: np.ndarray
    """(B, L, A)"""
    previous_action: np.ndarray
    """(B, A) executed before the first observation; zero at the start of an episode."""
    state: tuple[np.ndarray, ...]
    """The encoder's state before the first observation, (B, ...) each; empty where all are starts of episodes."""
    lengths: np.ndarray
    """(B,) steps of each window; what lies beyond is padding."""
    true_observations: np.ndarray
    """(B, L + 1, D + P) without a gap, see `Episode`; those that were observed, where the buffer keeps no others."""
    recent_actions: np.ndarray
    """(B, L + 1, K A): the K actions before each observation, the newest last; zeros before the episode began."""


def whole(episodes: np.ndarray, lengths: np.ndarray) -> Windows:
    """Take episodes from their first step to their last; arguments as `WindowPlan.draw`."""
    zeros = np.zeros_like(lengths)
    return Windows(episodes, zeros, lengths, zeros)


@dataclass(frozen=True)
class WindowPlan:
    """Long episodes are learned from in windows, whose encoder state was stored while they were collected."""

    steps: int
    """Longest window."""
    burn_in: int
    """First steps of a window that are not learned from: they bring the stored state up to today's weights
    (Kapturowski et al. 2019). The first window of an episode needs none."""
    state: Mapping[str, tuple[int, ...]]
    """Shapes of the encoder's state, see `encoders`."""

    @property
    def stride(self) -> int:
        """Steps between two beginnings of windows, at most those that a window is learned from: none is left out."""
        return min(self.burn_in or self.steps, self.steps - self.burn_in)

    def draw(self, episodes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> Windows:
        """Draw one window of each episode, (B,) positions and (B,) lengths, every possible beginning as likely."""
        # The last beginning leaves at least one step to learn from after its burn-in.
        beginnings = np.maximum(1, -(-(lengths - self.burn_in) // self.stride))
        starts = (rng.random(len(episodes)) * beginnings).astype(np.int64) * self.stride
        burn_in = np.where(starts > 0, self.burn_in, 0)
        return Windows(episodes, starts, np.minimum(lengths - starts, self.steps), burn_in)


class ReplayError(SamiError):
    """A buffer that cannot give what was asked for, or a buffer file that does not fit."""


class TransitionBatch(NamedTuple):
    """N transitions of a `SequenceBatch`, each perhaps with a hindsight goal."""

    rows: np.ndarray
    """(N,) window in the sequence batch."""
    steps: np.ndarray
    """(N,) step t of the window."""
    spans: np.ndarray
    """(N,) steps k to the successor: n, or fewer where the window ends or a hindsight goal is reached before."""
    observations: np.ndarray
    """(N, D), as `next_observations`, `true_observations` and `next_true_observations`; see `SequenceBatch`."""
    next_observations: np.ndarray
    actions: np.ndarray
    """(N, A)"""
    rewards: np.ndarray
    """(N,): r_t + gamma r_t+1 + ... of the k steps."""
    terminated: np.ndarray
    """(N,) bool: no value after the successor. Never true for a time-out."""
    failure: np.ndarray
    """(N,) bool: terminated by a failure from which the goal can never be reached."""
    true_observations: np.ndarray
    next_true_observations: np.ndarray
    recent_actions: np.ndarray
    """(N, K A), as `next_recent_actions`; see `SequenceBatch`."""
    next_recent_actions: np.ndarray


class EpisodeBuffer:
    """A ring of whole episodes.

    Args:
        capacity: episodes kept; the oldest is overwritten.
        horizon: longest episode, in steps.
        observation_size, action_size: D and A.
        goal: see `Goal`; needed for hindsight.
        plan: how long episodes are cut into windows; None learns from whole ones.
        behind: what it keeps of the true state, and how many actions critics read.
        true_size: D + P of the true state, see `EnvironmentSpec.true_size`; D if None.
    """

    def __init__(
        self,
        capacity: int,
        horizon: int,
        observation_size: int,
        action_size: int,
        goal: Goal | None = None,
        plan: WindowPlan | None = None,
        behind: BehindGap | None = None,
        true_size: int | None = None,
    ) -> None:
        if capacity < 1 or horizon < 1:
            raise ReplayError(
                f"a buffer of {capacity} episodes of {horizon} steps holds nothing; both must be at least 1."
            )
        self.capacity, self.horizon, self.goal, self.plan = capacity, horizon, goal, plan
        self.observations = np.zeros((capacity, horizon + 1, observation_size), np.float32)
        self.behind = behind or BehindGap()
        self.true_observations = self.observations
        if self.behind.keeps_truth:
            self.true_observations = np.zeros((capacity, horizon + 1, true_size or observation_size), np.float32)
        self.actions = np.zeros((capacity, horizon, action_size), np.float32)
        self.rewards = np.zeros((capacity, horizon), np.float32)
        self.lengths = np.zeros(capacity, np.int64)
        self.terminated = np.zeros(capacity, bool)
        self.success = np.zeros(capacity, bool)
        self.tasks = np.zeros(capacity, np.int64)
        self.returns = np.zeros(capacity, np.float64)
        slots = -(-horizon // plan.stride) if plan else 0
        shapes = plan.state.values() if plan else ()
        self.states = tuple(np.zeros((capacity, slots, *shape), np.float32) for shape in shapes)
        self.added = 0
        """Episodes ever added."""

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, episode: Episode) -> None:
        """Store an episode over the oldest.

        Raises:
            ReplayError: it is longer than the horizon, or lacks the encoder's states.
        """
        n = len(episode)
        if n > self.horizon:
            raise ReplayError(f"an episode has {n} steps; this buffer takes at most {self.horizon}.")
        if len(episode.states) != len(self.states):
            raise ReplayError(
                f"an episode brings {len(episode.states)} encoder states; this buffer needs {len(self.states)}. "
                "Collect with the buffer's plan."
            )
        slot = self.added % self.capacity
        if self.behind.keeps_truth:
            if episode.true_observations is None:
                raise ReplayError("an episode tells no true state, which this buffer keeps; collect by its `behind`.")
            self.true_observations[slot, : n + 1] = episode.true_observations
            self.true_observations[slot, n + 1 :] = 0.0
        self.observations[slot, : n + 1], self.observations[slot, n + 1 :] = episode.observations, 0.0
        self.actions[slot, :n], self.actions[slot, n:] = episode.actions, 0.0
        self.rewards[slot, :n], self.rewards[slot, n:] = episode.rewards, 0.0
        self.lengths[slot], self.terminated[slot] = n, episode.terminated
        self.success[slot], self.tasks[slot] = episode.success, episode.task_index
        # A lost episode counts as if its last reward had gone on until the time limit: ending early by
        # failing must not rank above trying until the end.
        failure = self.goal is not None and episode.terminated and not episode.success
        self.returns[slot] = episode.ret + (float(episode.rewards[-1]) * (self.horizon - n) if failure else 0.0)
        if not episode.terminated:  # one that was cut off, as recordings are, counts as if it had gone on as it went
            self.returns[slot] *= self.horizon / n
        for stored, states in zip(self.states, episode.states, strict=True):
            stored[slot, : len(states)] = states
        self.added += 1

    def of_task(self, task: int) -> np.ndarray:
        """Return the positions of the episodes of a task."""
        return np.flatnonzero(self.tasks[: len(self)] == task)

    def of(self, where: np.ndarray) -> EpisodeBuffer:
        """Return a buffer of copies of the episodes at these positions, as if they had been added in this order."""
        _, _, observation_size = self.observations.shape
        action_size = self.actions.shape[2]
        sizes = (self.horizon, observation_size, action_size)
        true_size = self.true_observations.shape[2]
        part = EpisodeBuffer(len(where), *sizes, self.goal, self.plan, self.behind, true_size)
        arrays = self._arrays()
        for name, copied in part._arrays().items():
            copied[:] = arrays[name][where]
        part.added = len(where)
        return part

    def numbers(self, where: np.ndarray) -> np.ndarray:
        """Return how many episodes had been added before each of those at these positions, (n,): their policy's age."""
        return self.added - 1 - (self.added - 1 - where) % self.capacity

    def task_indices(self) -> np.ndarray:
        """Return the tasks that have at least one episode, ascending."""
        return np.unique(self.tasks[: len(self)])

    def windows(self, where: np.ndarray, rng: np.random.Generator) -> Windows:
        """Draw one window of each episode at these positions; all of it without a plan."""
        lengths = self.lengths[where]
        return self.plan.draw(where, lengths, rng) if self.plan else whole(where, lengths)

    def sequences(self, windows: Windows) -> SequenceBatch:
        """Return what these windows hold, cut to the longest of them."""
        episodes, starts, lengths, _ = windows
        rows = episodes[:, None]
        steps = starts[:, None] + np.arange(int(lengths.max()) + 1)
        actions = self.actions[rows, np.minimum(steps[:, :-1], self.horizon - 1)]
        first = self.actions[episodes, np.maximum(starts - 1, 0)] * (starts > 0)[:, None]
        state = tuple(stored[episodes, starts // self.plan.stride] for stored in self.states) if self.plan else ()
        within = np.minimum(steps, self.horizon)
        observations = self.observations[rows, within]
        true = self.true_observations[rows, within] if self.behind.keeps_truth else observations
        recent = self._recent_actions(rows, within)
        return SequenceBatch(observations, actions, first.astype(np.float32), state, lengths, true, recent)

    def _recent_actions(self, slots: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the K actions before each of these steps, end to end: (..., K A)."""
        before = steps[..., None] - np.arange(self.behind.critic_actions, 0, -1)  # (..., K)
        recent = self.actions[slots[..., None], np.maximum(before, 0)] * (before >= 0)[..., None].astype(np.float32)
        return recent.reshape(*steps.shape, self.behind.critic_actions * self.actions.shape[2])

    def sample(self, episodes: int, rng: np.random.Generator) -> np.ndarray:
        """Draw positions of episodes uniformly, with replacement."""
        if not len(self):
            raise ReplayError("the buffer is empty; collect at least one episode before sampling.")
        return rng.integers(len(self), size=episodes)

    def transitions(
        self,
        windows: Windows,
        count: int | None,
        hindsight: float,
        rng: np.random.Generator,
        return_steps: int = 1,
        discount: float = 1.0,
    ) -> TransitionBatch:
        """Draw transitions of these windows, past their burn-in, some with a hindsight goal.

        Args:
            windows: `rows` of the result index into them.
            count: N; None takes every step of every window once.
            hindsight: probability that a transition's goal becomes a place where its own episode took the cube
                later. Reward and termination follow the new goal.
            rng: source of randomness.
            return_steps: n, the most steps from a state to its successor.
            discount: of each reward on the way against the one before it.

        Returns:
            At most N transitions: those that begin where their new goal is already reached teach nothing and
            are left out, after drawing half as many again to make up for them. Where none would be left, all keep
            their own goals.
        """
        lengths = windows.lengths - windows.burn_in
        ends = np.cumsum(lengths)
        if count is None:
            flat = np.arange(ends[-1])
        else:
            flat = rng.integers(ends[-1], size=count + count // 2 if hindsight > 0 else count)
        rows = np.searchsorted(ends, flat, side="right")
        within = flat - (ends[rows] - lengths[rows]) + windows.burn_in[rows]
        slots, steps = windows.episodes[rows], windows.starts[rows] + within

        ahead = np.arange(return_steps)
        spans = np.minimum(return_steps, windows.starts[rows] + windows.lengths[rows] - steps)
        path = np.minimum(steps[:, None] + ahead, self.horizon - 1)  # (N, n) steps that a return counts
        rewards = self.rewards[slots[:, None], path]
        relabel, reached, already = np.zeros((3, len(flat)), bool)

        if hindsight > 0:
            goal = self.goal
            if goal is None:
                raise ReplayError("hindsight needs an environment with goals; set learning.hindsight to 0.")
            later = steps + 1 + (rng.random(len(flat)) * (self.lengths[slots] - steps)).astype(np.int64)
            # What a goal is judged by: the world, or what was seen of it.
            places = (self.true_observations if self.behind.true_goals else self.observations)[..., goal.achieved]
            new_goal = places[slots, later]
            relabel = rng.random(len(flat)) < hindsight
            if goal.lowest is not None:
                relabel &= new_goal[:, 2] > goal.lowest
            if goal.height is not None:
                new_goal[:, 2] = goal.height
            already = relabel & goal.reached(places[slots, steps], new_goal)
            if already.all():
                return self.transitions(windows, count, 0.0, rng, return_steps, discount)
            there = goal.reached(places[slots[:, None], path + 1], new_goal[:, None])  # (N, n)
            rewards = np.where(relabel[:, None], np.where(there, 0.0, -1.0), rewards)
            there &= ahead < spans[:, None]
            reached = relabel & there.any(1)
            spans = np.where(reached, there.argmax(1) + 1, spans)  # a return ends where its new goal is reached

        following_steps = steps + spans
        observations, following = self.observations[slots, steps], self.observations[slots, following_steps]
        true, true_following = self.true_observations[slots, steps], self.true_observations[slots, following_steps]
        if self.goal is not None and hindsight > 0:
            for stream in (observations, following, true, true_following):
                stream[relabel, self.goal.desired] = new_goal[relabel]
        terminated = (following_steps == self.lengths[slots]) & self.terminated[slots]
        failure = terminated & ~self.success[slots] if self.goal is not None else np.zeros_like(terminated)
        terminated = np.where(relabel, reached | failure, terminated)
        returns = (rewards * (ahead < spans[:, None]) * discount**ahead).sum(1).astype(np.float32)
        recent, next_recent = self._recent_actions(slots, steps), self._recent_actions(slots, following_steps)
        actions = self.actions[slots, steps]
        columns = (rows, within, spans, observations, following, actions, returns, terminated, failure)
        chosen = np.flatnonzero(~already)[:count]
        return TransitionBatch(*(part[chosen] for part in (*columns, true, true_following, recent, next_recent)))

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return what is stored of each episode, by its name in a file."""
        names = ("observations", "actions", "rewards", "lengths", "terminated", "success", "tasks", "returns")
        arrays = {name: getattr(self, name) for name in names}
        if self.behind.keeps_truth:
            arrays["true_observations"] = self.true_observations
        for name, array in zip(self.plan.state if self.plan else (), self.states, strict=True):
            arrays[f"state.{name}"] = array
        return arrays

    def save(self, path: Path) -> None:
        """Write the stored episodes to an .npz file."""
        arrays = {name: array[: len(self)] for name, array in self._arrays().items()}
        np.savez(path, allow_pickle=False, added=self.added, **arrays)

    def restore(self, path: Path) -> None:
        """Read back what `save` wrote, into a buffer of the same shape.

        Raises:
            ReplayError: the file belongs to a buffer of another shape.
        """
        # np.load leaves a file open that it cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            size = min(int(stored["added"]), self.capacity)
            for name, array in self._arrays().items():
                if name not in stored:
                    raise ReplayError(f"{path} holds no {name}; it was written with another encoder or window.")
                if stored[name].shape != array[:size].shape:
                    raise ReplayError(
                        f"{path}: {name} is {stored[name].shape}; this buffer needs {array[:size].shape}."
                    )
                array[:size] = stored[name]
            self.added = int(stored["added"])
