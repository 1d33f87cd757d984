"""What a step observes, where the graph reads it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from sami_runtime.model.contract import Contract
from sami_runtime.session.memory import TensorBlock
from sami_runtime.values import fill, finite_check, require_finite, wrong_names

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Senses:
    """The observation of N episodes, in memory that is allocated once.

    Args:
        contract: Names and sizes of the signals.
        batch: N.
    """

    def __init__(self, contract: Contract, batch: int) -> None:
        signals = contract.signal_inputs
        block = TensorBlock({name: (batch, signal.size) for name, signal in signals.items()})
        self.inputs = block.tensors
        """By the graph's input that reads it, each (N, size)."""
        self._all_finite, self._signals = finite_check(block.numbers), tuple(signals.values())
        self._shares = {signal.name: self.inputs[name] for name, signal in signals.items()}
        # Where each signal goes, in the shape that callers give.
        self._targets = [(name, share[0] if batch == 1 else share) for name, share in self._shares.items()]
        # Writing into a view copies an array of exactly this type and shape, and raises for everything else.
        self._views = [(name, target.data) for name, target in self._targets] if batch == 1 else None
        self.nothing = {name: np.zeros_like(target) for name, target in self._targets}
        """An observation of zeros."""

    def observe(self, observation: Mapping[str, ArrayLike], tick: int) -> None:
        """Copy an observation to where the graph reads it.

        Args:
            observation: By signal name, each (size,) or, for a batch, (N, size).
            tick: Of the session, for messages.

        Raises:
            SignalError: A signal is missing, unknown, misshapen or not finite.
        """
        if self._views is None or len(observation) != len(self._views):
            self._convert(observation, f"tick {tick}:")
        else:
            try:
                for name, view in self._views:
                    view[:] = observation[name]  # type: ignore[assignment]  # any buffer, not bytes alone
            except Exception:
                self._convert(observation, f"tick {tick}:")
        if not self._all_finite():
            blame = "The adapter's read() produced it."
            for signal, share in zip(self._signals, self._shares.values(), strict=True):
                require_finite(share, signal.name, signal.elements, f"tick {tick}: observation", blame)

    def _convert(self, observation: Mapping[str, ArrayLike], where: str) -> None:
        """Copy an observation of any type of numbers, or say what is wrong with it."""
        if len(observation) != len(self._targets):
            raise wrong_names(observation, self._shares, where)
        # A number beyond float32 becomes infinity, which is refused afterwards.
        with np.errstate(over="ignore"):
            for at, (name, target) in enumerate(self._targets):
                try:
                    value = observation[name]
                except KeyError:
                    raise wrong_names(observation, self._shares, where) from None
                # The common cases, without the checks that only other types and shapes need.
                if type(value) is np.ndarray and value.shape == target.shape and value.dtype in _FLOATS:
                    target[...] = value
                else:
                    fill(self._shares[name], value, self._signals[at], f"{where} observation")
