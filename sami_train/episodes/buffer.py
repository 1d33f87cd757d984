"""Episode buffer: it stores whole episodes, and samples windows of them and transitions with hindsight goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.measure import Goal
from sami_train.episodes.episode import Episode
from sami_train.episodes.exploration import WithProfile


class Windows(NamedTuple):
    """B windows of stored episodes: whole episodes, or parts of them."""

    episodes: np.ndarray
    """(B,) positions in the buffer."""
    starts: np.ndarray
    """(B,) first step."""
    lengths: np.ndarray
    """(B,) steps."""
    burn_in: np.ndarray
    """(B,) how many of the first steps only update the encoder's state: no loss counts them."""


class SequenceBatch(NamedTuple):
    """An encoder's input: B windows, padded at the end to L steps, the longest of them."""

    observations: np.ndarray
    """(B, L + 1, D): one more than actions, to include the successor of the last step."""
    actions: np.ndarray
    """(B, L, A)"""
    previous_action: np.ndarray
    """(B, A) the action executed before the first observation; zero at the start of an episode."""
    state: tuple[np.ndarray, ...]
    """The encoder's state before the first observation, (B, ...) each; empty without a `WindowPlan` (zero states)."""
    lengths: np.ndarray
    """(B,) steps of each window; later steps are padding."""
    burn_in: np.ndarray
    """(B,) as that of `Windows`."""
    true_observations: np.ndarray
    """(B, L + 1, D + P) true states, see `Episode`; equal to `observations` if the buffer stores none."""
    recent_actions: np.ndarray
    """(B, L + 1, K A): the K actions before each observation, the newest last; zeros before the episode began."""


def whole(episodes: np.ndarray, lengths: np.ndarray) -> Windows:
    """Return windows that are whole episodes; arguments as `WindowPlan.draw`."""
    zeros = np.zeros_like(lengths)
    return Windows(episodes, zeros, lengths, zeros)


@dataclass(frozen=True)
class WindowPlan:
    """How long episodes are cut into windows, each with the encoder's state that was stored during collection."""

    steps: int
    """Longest window, in steps."""
    burn_in: int
    """First steps of a window that no loss counts: they recompute an LSTM's stored state with the present weights
    (Kapturowski et al. 2019); PEARL's sums keep older factors. The first window of an episode needs none."""
    state: Mapping[str, tuple[int, ...]]
    """Shapes of the encoder's state, see `encoders`."""

    @property
    def stride(self) -> int:
        """Steps between two possible starts of windows; few enough that some window learns from every step."""
        return min(self.burn_in or self.steps, self.steps - self.burn_in)

    def draw(self, episodes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> Windows:
        """Draw one window of each episode, (B,) positions and (B,) lengths, uniformly from its possible starts."""
        # After its burn-in, the last possible window has at least one step to learn from.
        beginnings = np.maximum(1, -(-(lengths - self.burn_in) // self.stride))
        starts = (rng.random(len(episodes)) * beginnings).astype(np.int64) * self.stride
        burn_in = np.where(starts > 0, self.burn_in, 0)
        return Windows(episodes, starts, np.minimum(lengths - starts, self.steps), burn_in)


class ReplayError(SamiError):
    """A buffer that cannot store or sample what was asked for, or a buffer file that does not fit."""


class TransitionBatch(NamedTuple):
    """N transitions of a `SequenceBatch`, each perhaps with a hindsight goal."""

    rows: np.ndarray
    """(N,) window in the sequence batch."""
    steps: np.ndarray
    """(N,) step t of the window."""
    spans: np.ndarray
    """(N,) steps k to the successor: n, or fewer if the window ends or the hindsight goal is reached before."""
    observations: np.ndarray
    """(N, D), like `next_observations`; `true_observations` and `next_true_observations` are (N, D + P)."""
    next_observations: np.ndarray
    actions: np.ndarray
    """(N, A)"""
    rewards: np.ndarray
    """(N,): r_t + gamma r_t+1 + ... over the k steps."""
    terminated: np.ndarray
    """(N,) bool: whether the successor is terminal, with no value after it; False at a time-out."""
    failure: np.ndarray
    """(N,) bool: whether the episode ended there by a failure, after which the goal is out of reach."""
    true_observations: np.ndarray
    next_true_observations: np.ndarray
    recent_actions: np.ndarray
    """(N, K A), like `next_recent_actions`; see `SequenceBatch`."""
    next_recent_actions: np.ndarray


class EpisodeBuffer:
    """A ring of whole episodes.

    Args:
        capacity: number of episodes to store; a new one then overwrites the oldest.
        horizon: longest episode, in steps.
        observation_size, action_size: D and A.
        goal: see `Goal`; needed for hindsight.
        plan: how to cut episodes into windows; None takes whole episodes.
        with_profile: whether to store the true state, and how many recent actions critics read.
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
        with_profile: WithProfile | None = None,
        true_size: int | None = None,
    ) -> None:
        if capacity < 1 or horizon < 1:
            raise ReplayError(f"the buffer has capacity {capacity} and horizon {horizon}; both must be at least 1.")
        self.capacity, self.horizon, self.goal, self.plan = capacity, horizon, goal, plan
        self.observations = np.zeros((capacity, horizon + 1, observation_size), np.float32)
        self.with_profile = with_profile or WithProfile()
        self.true_observations = self.observations
        if self.with_profile.keeps_true_state:
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
        self.total_count = 0
        """Number of episodes added so far, including those overwritten since."""

    def __len__(self) -> int:
        return min(self.total_count, self.capacity)

    def add(self, episode: Episode) -> None:
        """Store an episode, over the oldest if the buffer is full.

        Raises:
            ReplayError: the episode is longer than the horizon, or lacks the encoder's states or the true state.
        """
        n = len(episode)
        if n > self.horizon:
            raise ReplayError(f"an episode has {n} steps; this buffer takes at most {self.horizon}.")
        if len(episode.states) != len(self.states):
            raise ReplayError(
                f"an episode has {len(episode.states)} encoder states, but this buffer needs {len(self.states)}. Set "
                "the rollout's state_every to the stride of the buffer's plan."
            )
        slot = self.total_count % self.capacity
        if self.with_profile.keeps_true_state:
            if episode.true_observations is None:
                raise ReplayError("an episode has no true_observations; give Rollout the buffer's with_profile.")
            self.true_observations[slot, : n + 1] = episode.true_observations
            self.true_observations[slot, n + 1 :] = 0.0
        self.observations[slot, : n + 1], self.observations[slot, n + 1 :] = episode.observations, 0.0
        self.actions[slot, :n], self.actions[slot, n:] = episode.actions, 0.0
        self.rewards[slot, :n], self.rewards[slot, n:] = episode.rewards, 0.0
        self.lengths[slot], self.terminated[slot] = n, episode.terminated
        self.success[slot], self.tasks[slot] = episode.success, episode.task_index
        # A failed episode counts as if its last reward repeated until the time limit: failing early must
        # not rank above trying until the end.
        failure = self.goal is not None and episode.terminated and not episode.success
        self.returns[slot] = episode.ret + (float(episode.rewards[-1]) * (self.horizon - n) if failure else 0.0)
        if not episode.terminated:  # a shorter one (a recording) counts as if its mean reward continued
            self.returns[slot] *= self.horizon / n
        for stored, states in zip(self.states, episode.states, strict=True):
            stored[slot, : len(states)] = states
        self.total_count += 1

    def of_task(self, task: int) -> np.ndarray:
        """Return the positions (n,) of a task's episodes."""
        return np.flatnonzero(self.tasks[: len(self)] == task)

    def numbers(self, where: np.ndarray) -> np.ndarray:
        """Return the running number, in order of addition, of the episodes at these positions (n,): (n,)."""
        return self.total_count - 1 - (self.total_count - 1 - where) % self.capacity

    def task_indices(self) -> np.ndarray:
        """Return the indices of the tasks that have at least one episode, ascending."""
        return np.unique(self.tasks[: len(self)])

    def windows(self, where: np.ndarray, rng: np.random.Generator) -> Windows:
        """Draw one window of each episode at these positions (B,); without a plan, the whole episode."""
        lengths = self.lengths[where]
        return self.plan.draw(where, lengths, rng) if self.plan else whole(where, lengths)

    def sequences(self, windows: Windows) -> SequenceBatch:
        """Return the contents of B windows, padded to the longest of them."""
        episodes, starts, lengths, burn_in = windows
        rows = episodes[:, None]
        steps = starts[:, None] + np.arange(int(lengths.max()) + 1)
        actions = self.actions[rows, np.minimum(steps[:, :-1], self.horizon - 1)]
        first = self.actions[episodes, np.maximum(starts - 1, 0)] * (starts > 0)[:, None]
        state = tuple(stored[episodes, starts // self.plan.stride] for stored in self.states) if self.plan else ()
        within = np.minimum(steps, self.horizon)
        observations = self.observations[rows, within]
        true = self.true_observations[rows, within] if self.with_profile.keeps_true_state else observations
        recent = self._recent_actions(rows, within)
        return SequenceBatch(observations, actions, first.astype(np.float32), state, lengths, burn_in, true, recent)

    def _recent_actions(self, slots: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the K actions before each of these steps, concatenated: (..., K A)."""
        before = steps[..., None] - np.arange(self.with_profile.critic_actions, 0, -1)  # (..., K)
        recent = self.actions[slots[..., None], np.maximum(before, 0)] * (before >= 0)[..., None].astype(np.float32)
        return recent.reshape(*steps.shape, self.with_profile.critic_actions * self.actions.shape[2])

    def sample(self, episodes: int, rng: np.random.Generator) -> np.ndarray:
        """Draw positions (episodes,) uniformly, with replacement; ReplayError if the buffer is empty."""
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
        """Draw transitions of these windows after their burn-in, some with a hindsight goal.

        Args:
            windows: the windows, which `rows` of the result index.
            count: N; None takes every step of every window once.
            hindsight: probability to replace a transition's goal by a goal that its episode achieved later. Reward
                and termination follow the new goal. Above 0 it needs a `Goal` (ReplayError).
            rng: source of randomness.
            return_steps: n, the most steps from a state to its successor.
            discount: gamma, the factor of each reward in an n-step return.

        Returns:
            At most N transitions. Those that start with their new goal already reached are left out (half as many again
            are drawn to replace them); if that leaves none, all keep their original goals.
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
                raise ReplayError("hindsight needs an environment with a goal; set learning.hindsight to 0.")
            later = steps + 1 + (rng.random(len(flat)) * (self.lengths[slots] - steps)).astype(np.int64)
            stored = self.true_observations if self.with_profile.privileged_goals else self.observations
            achieved = stored[..., goal.achieved]
            new_goal = achieved[slots, later]
            relabel = rng.random(len(flat)) < hindsight
            if goal.lowest is not None:
                relabel &= new_goal[:, 2] > goal.lowest
            if goal.height is not None:
                new_goal[:, 2] = goal.height
            already = relabel & goal.reached(achieved[slots, steps], new_goal)
            if already.all():
                return self.transitions(windows, count, 0.0, rng, return_steps, discount)
            success = goal.reached(achieved[slots[:, None], path + 1], new_goal[:, None])  # (N, n)
            rewards = np.where(relabel[:, None], np.where(success, 0.0, -1.0), rewards)
            success &= ahead < spans[:, None]
            reached = relabel & success.any(1)
            spans = np.where(reached, success.argmax(1) + 1, spans)  # the return ends once the new goal is reached

        following_steps = steps + spans
        observations, following = self.observations[slots, steps], self.observations[slots, following_steps]
        true, true_following = observations, following
        if self.with_profile.keeps_true_state:
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
        positions = np.flatnonzero(~already)[:count]
        return TransitionBatch(*(part[positions] for part in (*columns, true, true_following, recent, next_recent)))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays with an entry for each episode, by their names in a file."""
        names = ("observations", "actions", "rewards", "lengths", "terminated", "success", "tasks", "returns")
        arrays = {name: getattr(self, name) for name in names}
        if self.with_profile.keeps_true_state:
            arrays["true_observations"] = self.true_observations
        for name, array in zip(self.plan.state if self.plan else (), self.states, strict=True):
            arrays[f"state.{name}"] = array
        return arrays

    def save(self, path: Path) -> None:
        """Write the stored episodes to an .npz file."""
        arrays = {name: array[: len(self)] for name, array in self.arrays().items()}
        np.savez(path, allow_pickle=False, added=self.total_count, **arrays)

    def restore(self, path: Path) -> None:
        """Read a file of `save` into a buffer of the same shape.

        Raises:
            ReplayError: the file belongs to a buffer of another shape.
        """
        # `path.open`, because np.load does not close a file that it cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            size = min(int(stored["added"]), self.capacity)
            for name, array in self.arrays().items():
                if name not in stored:
                    raise ReplayError(f"{path} has no {name}; it was written with another encoder or window.")
                if stored[name].shape != array[:size].shape:
                    raise ReplayError(
                        f"{path}: {name} has shape {stored[name].shape}; this buffer needs {array[:size].shape}."
                    )
                array[:size] = stored[name]
            self.total_count = int(stored["added"])
