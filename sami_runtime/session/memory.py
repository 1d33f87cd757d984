"""What a session carries from one step to the next, where onnxruntime reads and writes it in place."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.model.contract import ACTION, CONTEXT, PREVIOUS_ACTION, Contract, state_input, state_output

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


class Block:
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


class Memory:
    """The action executed last, the context inferred last, and the recurrent state of N episodes.

    A session has two and alternates: a step reads one and writes the other, which counts only once it was judged.

    Args:
        contract: Names, shapes and initial values.
        batch: N.
    """

    def __init__(self, contract: Contract, batch: int) -> None:
        self._tensors = contract.state
        shapes = {ACTION: (batch, contract.action.size), CONTEXT: (batch, contract.context_size)}
        block = Block(shapes | {state_input(tensor.name): (batch, *tensor.shape) for tensor in contract.state})
        self.numbers = block.numbers
        """All that is in it, to look for NaN in one pass."""
        self.action: Array = block.tensors[ACTION]
        """(N, A): the action executed last."""
        self.context: Array = block.tensors[CONTEXT]
        """(N, C): the context inferred last."""
        self.state: dict[str, Array] = {
            tensor.name: block.tensors[state_input(tensor.name)] for tensor in self._tensors
        }
        """By the name in the contract, each (N, ...)."""
        self.acted: NDArray[np.bool_] = np.zeros(batch, np.bool_)
        """(N,): which rows made a step since their reset. It is replaced, never written into."""
        self.inputs = {PREVIOUS_ACTION: self.action} | {state_input(name): value for name, value in self.state.items()}
        """By the graph's input that reads it."""
        self.outputs = {ACTION: self.action} | ({CONTEXT: self.context} if contract.context else {})
        """By the graph's output that writes it."""
        self.outputs |= {state_output(name): value for name, value in self.state.items()}
        self.begin()

    def begin(self, rows: Any = ...) -> None:
        """Gives the rows (all if left out) the values that an episode begins with."""
        self.action[rows] = 0.0
        self.context[rows] = 0.0
        for tensor in self._tensors:
            self.state[tensor.name][rows] = tensor.initial
        acted = self.acted.copy()
        acted[rows] = False
        self.acted = acted

    def take(self, other: Memory) -> None:
        """Becomes equal to another one of the same contract and batch."""
        np.copyto(self.numbers, other.numbers)
        self.acted = other.acted

    def digest(self) -> str:
        """Return a short hash of the numbers that a step reads: equal where every bit is."""
        parts = (self.acted, self.action, *(self.state[name] for name in sorted(self.state)))
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]
