"""How old the signals of a step are, where the graph reads it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from sami_runtime.errors import SignalError
from sami_runtime.model.contract import Contract
from sami_runtime.model.lookahead import AGE
from sami_runtime.session.memory import Array

Age = ArrayLike | Mapping[str, ArrayLike]
"""How old what was observed is [periods]: one number for all signals or one for each, by the signal's name."""
ROUNDING = 1e-6
"""Of a period, that is no difference."""


class Ages:
    """The ages (N, S) that a step is told; nothing at all where the contract does not look ahead.

    Args:
        contract: Of the policy.
        batch: N.
    """

    def __init__(self, contract: Contract, batch: int) -> None:
        self.inputs: dict[str, Array] = {
            name: np.zeros((batch, size), np.float32) for name, size in contract.age_inputs.items()
        }
        """By the graph's input that reads it."""
        self._signals = [signal.name for signal in contract.observation]
        self._most = 0.0 if contract.lookahead is None else contract.lookahead.steps + ROUNDING
        changing = frozenset[str]() if contract.lookahead is None else contract.lookahead.changing
        self._counts = np.array([name in changing for name in self._signals])
        self._batch = batch

    def tell(self, age: Age, tick: int) -> None:
        """Take the ages of a step.

        Args:
            age: A number for all, (N,) or (N, S), or either of the first two by signal.
            tick: Of the session, for messages.

        Raises:
            SignalError: An age is no number from 0 to the largest that was fitted, or a signal has none. Of signals
                that never change any will do.
        """
        for target in self.inputs.values():
            if type(age) is float and 0.0 <= age <= self._most:
                target[...] = age  # the common case
                continue
            if isinstance(age, Mapping):
                if missing := [name for name in self._signals if name not in age]:
                    raise SignalError(
                        f"tick {tick}: nobody told the age of {', '.join(missing)}. Tell one of each.", AGE
                    )
                numbers = np.stack([np.broadcast_to(age[name], self._batch) for name in self._signals], 1)
            else:
                numbers = np.asarray(age, np.float64)
                numbers = numbers[:, None] if numbers.shape == (self._batch,) and self._batch > 1 else numbers
            ages = np.broadcast_to(numbers, target.shape)
            wrong = np.argwhere(self._counts & ~((ages >= 0.0) & (ages <= self._most)))
            if len(wrong):
                row, column = wrong[0]
                raise SignalError(
                    f"tick {tick}: {self._signals[column]} is {ages[row, column]:.3g} periods old, and the file was "
                    f"fitted for 0 to {int(self._most)}. Hold the last action, or export with a larger --lookahead.",
                    AGE,
                )
            target[...] = np.where(self._counts, ages, 0.0)
