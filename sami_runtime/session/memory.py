"""The tensors of a session, where onnxruntime reads and writes them in place."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.errors import SignalError
from sami_runtime.model.contract import ACTION, CONTEXT, PREVIOUS_ACTION, Contract, state_output
from sami_runtime.model.lookahead import AGE, PAST_ACTIONS
from sami_runtime.signals import fill, finite_check, require_finite, wrong_names

Array = NDArray[np.float32]

ALIGNMENT = 64
"""Each tensor begins at a multiple of this [bytes], as those that onnxruntime allocates itself: kernels then take the
same path through them, and results are equal to the bit."""


@dataclass(frozen=True)
class SessionState:
    """All that a session remembers of an episode; it can be restored into a session of the same weights."""

    weights_sha256: str
    """Which weights it belongs to: a state means nothing to other ones."""
    previous_action: Array
    """(N, A): the action executed last."""
    tensors: Mapping[str, Array]
    """By the state's name in the contract, each (N, ...)."""
    context: Array
    """(N, C): the context inferred last."""
    acted: NDArray[np.bool_]
    """(N,): which rows made a step since their reset."""
    tick: int = 0
    """Number of steps since the last reset of all rows."""
    extra: Mapping[str, Array] = field(default_factory=dict)
    """By the graph's output, each (N, size): what was answered last besides action and context."""

    def with_rows(self, rows: NDArray[np.bool_], other: SessionState) -> SessionState:
        """Return the same with the rows of a mask (N,) as another state of this session has them."""

        def mixed(these: Mapping[str, Array], others: Mapping[str, Array]) -> dict[str, Array]:
            return {name: _mixed(rows, others[name], value) for name, value in these.items()}

        return replace(
            self,
            previous_action=_mixed(rows, other.previous_action, self.previous_action),
            context=_mixed(rows, other.context, self.context),
            tensors=mixed(self.tensors, other.tensors),
            extra=mixed(self.extra, other.extra),
        )


def _mixed(rows: NDArray[np.bool_], where: Array, elsewhere: Array) -> Array:
    return np.where(rows.reshape(-1, *[1] * (where.ndim - 1)), where, elsewhere)


class TensorBlock:
    """Named float32 tensors in one contiguous piece of memory, so that one pass looks at all of their numbers.

    Args:
        shapes: By name, each tensor's shape.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        step = ALIGNMENT // 4
        sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        room = {name: -(-size // step) * step for name, size in sizes.items()}
        whole = np.zeros(sum(room.values()) + step, np.float32)
        start = -whole.ctypes.data % ALIGNMENT // 4
        self.numbers: Array = whole[start : start + sum(room.values())]
        """All numbers; the gaps between the tensors are zero and stay it."""
        self.tensors: dict[str, Array] = {}
        """By name, views."""
        begin = 0
        for name, shape in shapes.items():
            self.tensors[name] = self.numbers[begin : begin + sizes[name]].reshape(shape)
            begin += room[name]


class EpisodeMemory:
    """The action executed last, the other answers of the last step, and the recurrent state of N episodes.

    A session has two and alternates: a step reads one and writes the other, which counts only once it was judged.

    Args:
        contract: Names, shapes and initial values.
        batch: N.
    """

    def __init__(self, contract: Contract, batch: int) -> None:
        self._tensors = contract.state
        block = TensorBlock({name: (batch, *shape) for name, shape in contract.outputs.items()})
        self.numbers = block.numbers
        """All that is in it, to look for NaN in one pass."""
        self.outputs = block.tensors
        """By the graph's output that writes it."""
        self.inputs = {name: self.outputs[output] for name, output in contract.feedback.items()}
        """By the graph's input that reads it."""
        self.action: Array = self.outputs[ACTION]
        """(N, A): the action executed last."""
        self.context: Array = self.outputs.get(CONTEXT, np.zeros((batch, 0), np.float32))
        """(N, C): the context inferred last."""
        self.extra: dict[str, Array] = {signal.name: self.outputs[signal.name] for signal in contract.extra_outputs}
        """By the graph's output, each (N, size): the other answers of the last step."""
        row: Any = 0 if batch == 1 else ...
        self.action_row, self.context_row = self.action[row], self.context[row]
        """Action and context in the shapes that callers get: without the axis of the batch for one episode."""
        self.extra_rows = {name: value[row] for name, value in self.extra.items()}
        """The other answers, in those shapes."""
        self.all_finite = finite_check(self.numbers)
        """Whether every number in it is finite."""
        self.state: dict[str, Array] = {
            tensor.name: self.outputs[state_output(tensor.name)] for tensor in self._tensors
        }
        """By the name in the contract, each (N, ...)."""
        self.acted: NDArray[np.bool_] = np.zeros(batch, np.bool_)
        """(N,): which rows made a step since their reset. It is replaced, never written into."""
        self._past = None if contract.lookahead is None else self.state[PAST_ACTIONS]
        self.begin()

    def begin(self, rows: Any = ...) -> None:
        """Give the rows (all if left out) the values that an episode begins with."""
        for value in self.outputs.values():
            value[rows] = 0.0
        for tensor in self._tensors:
            self.state[tensor.name][rows] = tensor.initial
        acted = self.acted.copy()
        acted[rows] = False
        self.acted = acted

    def elapse(self, periods: int, rows: Any = ...) -> None:
        """Let periods pass in the rows (all if left out) in which the action executed last stood."""
        if self._past is None:
            return
        for _ in range(min(periods, self._past.shape[1])):
            self._past[rows] = np.concatenate([self.action[rows][:, None], self._past[rows][:, :-1]], 1)

    def take(self, other: EpisodeMemory) -> None:
        """Becomes equal to another one of the same contract and batch."""
        np.copyto(self.numbers, other.numbers)
        self.acted = other.acted

    def digest(self) -> str:
        """Return a short hash of the numbers that a step reads: equal where every bit is."""
        parts = (self.acted, self.action, *(self.state[name] for name in sorted(self.state)))
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]


def by_name(action: Array, context: Array, state: Mapping[str, Array], extra: Mapping[str, Array]) -> dict[str, Array]:
    """Name the parts of a state, for messages: a recurrent tensor may have any name, also `context`."""
    states = {f"state.{name}": value for name, value in state.items()}
    return {PREVIOUS_ACTION: action, CONTEXT: context, **extra, **states}


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
