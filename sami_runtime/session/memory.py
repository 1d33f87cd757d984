"""What a session carries from one step to the next, where onnxruntime reads and writes it in place."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.model.contract import ACTION, CONTEXT, PREVIOUS_ACTION, Contract, state_output
from sami_runtime.model.lookahead import PAST_ACTIONS
from sami_runtime.values import finite_check

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
