"""What a session was fed in an episode, so that another one can be fed the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.model.contract import Contract

Array = NDArray[np.float32]


class FedStep(NamedTuple):
    """What one step of a session depends on besides its state."""

    previous: Array
    """(A,): the action executed last before it; meaningless at an episode's first step."""
    observation: dict[str, Array]
    """By signal, each (size,)."""
    age: float | Mapping[str, float]
    """How old it was [periods], of all signals or by signal."""
    held: tuple[Array, ...]
    """What was executed in the periods since the step before it, each (A,), but for the last one, `previous`."""


class History:
    """The last steps of an episode in memory of fixed size. One thread writes it; others may read meanwhile.

    Args:
        contract: Of the session that is fed.
        keep: How many steps are kept, at least 1.
    """

    def __init__(self, contract: Contract, keep: int) -> None:
        self.keep = keep
        """How many steps are kept."""
        self.count = 0
        """Steps since the episode began."""
        self.executed: Array = np.zeros(contract.action.size, np.float32)
        """(A,): executed last; replaced, never written into."""
        most = 0 if contract.lookahead is None else contract.lookahead.steps + 1
        self.held: deque[Array] = deque(maxlen=most)
        """What was executed in the periods since the last step, but for the last one; of as many as are looked back."""
        self._ages: dict[int, float | Mapping[str, float]] = {}
        self._held: dict[int, tuple[Array, ...]] = {}  # of the few steps that have any
        ends = np.cumsum([contract.action.size, *(signal.size for signal in contract.observation)])
        self._parts = {
            signal.name: slice(int(end) - signal.size, int(end))
            for signal, end in zip(contract.observation, ends[1:], strict=True)
        }
        self._previous = slice(0, contract.action.size)
        self._rows = np.zeros((keep, ends[-1]), np.float32)  # step t in row t % keep

    def begin(self) -> None:
        """Forget the episode."""
        self.count = 0
        self.held.clear()
        self._ages.clear()
        self._held.clear()

    def elapse(self, periods: int = 1) -> None:
        """Let periods pass without a step: what was executed last stood."""
        self.held.extend([self.executed] * min(periods, self.held.maxlen or 0))

    def add(self, observation: Mapping[str, ArrayLike], action: Array, age: float | Mapping[str, float] = 0.0) -> None:
        """Keep a step that was made: its observation by signal, the action (A,) that was answered, and how late."""
        row = self._rows[self.count % self.keep]
        row[self._previous] = self.executed
        for name, part in self._parts.items():
            row[part] = observation[name]
        self._ages[self.count], self._held[self.count] = age, tuple(self.held)
        self._ages.pop(self.count - self.keep, None)
        self._held.pop(self.count - self.keep, None)
        self.held.clear()
        self.executed = action
        self.count += 1  # last, because a row that counts may be read

    def step(self, index: int) -> FedStep | None:
        """Return a step by its number in the episode; None if it is not kept any more."""
        row = self._rows[index % self.keep].copy()
        age, held = self._ages.get(index, 0.0), self._held.get(index, ())
        if not self.count - self.keep < index < self.count:  # the oldest row may be the one that is written now
            return None
        return FedStep(row[self._previous], {name: row[part] for name, part in self._parts.items()}, age, held)
