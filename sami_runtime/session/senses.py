"""What a step observes, where the graph reads it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from sami_runtime.model.contract import Contract
from sami_runtime.session.memory import Block
from sami_runtime.values import all_finite, fill, require_finite, wrong_names

_FLOAT32 = np.dtype(np.float32)
_FLOATS = (_FLOAT32, np.dtype(np.float64))


class Senses:
    """The observation of N episodes, in memory that is allocated once.

    Args:
        contract: Names and sizes of the signals.
        batch: N.
    """

    def __init__(self, contract: Contract, batch: int) -> None:
        given = contract.given
        seen = Block({name: (batch, signal.size) for name, signal in given.items()})
        self.inputs = seen.tensors
        """By the graph's input that reads it, each (N, size)."""
        self._numbers, self._signals = seen.numbers, tuple(given.values())
        self._shares = {signal.name: self.inputs[name] for name, signal in given.items()}
        # Where each signal goes, in the shape that callers give.
        self._targets = [(name, share[0] if batch == 1 else share) for name, share in self._shares.items()]
        self.nothing = {name: np.zeros_like(target) for name, target in self._targets}
        """An observation of zeros."""

    def observe(self, observation: Mapping[str, ArrayLike], where: str) -> None:
        """Copy an observation to where the graph reads it.

        Args:
            observation: By signal name, each (size,) or, for a batch, (N, size).
            where: Beginning of a message.

        Raises:
            SignalError: A signal is missing, unknown, misshapen or not finite.
        """
        if len(observation) != len(self._targets):
            raise wrong_names(observation, self._shares, where)
        for at, (name, target) in enumerate(self._targets):
            try:
                value = observation[name]
            except KeyError:
                raise wrong_names(observation, self._shares, where) from None
            # The common cases, without the checks that only other types and shapes need.
            if type(value) is np.ndarray and value.shape == target.shape and value.dtype in _FLOATS:
                if value.dtype is _FLOAT32:
                    target[...] = value
                else:
                    # A number beyond float32 becomes infinity, which is refused below.
                    with np.errstate(over="ignore"):
                        target[...] = value
            else:
                fill(self._shares[name], value, self._signals[at], f"{where} observation")
        if not all_finite(self._numbers):
            blame = "The adapter's read() produced it."
            for signal, share in zip(self._signals, self._shares.values(), strict=True):
                require_finite(share, signal.name, signal.elements, f"{where} observation", blame)
