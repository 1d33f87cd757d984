"""Windows: the stretches of stored episodes that an encoder runs over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


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
    """(B, L + 1, D) without a gap; those that were observed, where the buffer keeps no others."""
    recent_actions: np.ndarray
    """(B, L + 1, K A): the K actions before each observation, the newest last; zeros before the episode began."""


def whole(episodes: np.ndarray, lengths: np.ndarray) -> Windows:
    """Take episodes from their first step to their last; arguments as `WindowPlan.draw`."""
    nothing = np.zeros_like(lengths)
    return Windows(episodes, nothing, lengths, nothing)


@dataclass(frozen=True)
class WindowPlan:
    """Long episodes are learned from in windows, whose encoder state was stored while they were collected."""

    steps: int
    """Longest window."""
    burn_in: int
    """First steps of a window that are not learned from: they bring the stored state up to today's weights
    (Kapturowski et al. 2019). Windows begin at its multiples; the first of an episode needs none."""
    state: Mapping[str, tuple[int, ...]]
    """Shapes of the encoder's state, see `encoders`."""

    @property
    def stride(self) -> int:
        """Steps between two beginnings of windows."""
        return self.burn_in or self.steps

    def draw(self, episodes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> Windows:
        """Draw one window of each episode, every step where one may begin as likely.

        Args:
            episodes: (B,) positions in the buffer.
            lengths: (B,) steps of each.
            rng: source of randomness.
        """
        # The last beginning leaves at least one step to learn from after its burn-in.
        beginnings = np.maximum(1, -(-(lengths - self.burn_in) // self.stride))
        starts = (rng.random(len(episodes)) * beginnings).astype(np.int64) * self.stride
        burn_in = np.where(starts > 0, self.burn_in, 0)
        return Windows(episodes, starts, np.minimum(lengths - starts, self.steps), burn_in)
