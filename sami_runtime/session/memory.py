"""The memory of a session: inputs, outputs and recurrent state, which onnxruntime reads and writes in place."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.errors import SignalError
from sami_runtime.model.contract import ACTION, CONTEXT, PREVIOUS_ACTION, Contract, state_output
from sami_runtime.model.lookahead import AGE, PAST_ACTIONS
from sami_runtime.signals import fill, require_finite, wrong_names

Array = NDArray[np.float32]
Age = ArrayLike | Mapping[str, ArrayLike]
"""Observation age [periods of the policy]: one value for all signals, or one for each signal by its name."""

ALIGNMENT = 64
"""Each tensor begins at a multiple of this [bytes], as tensors that onnxruntime allocates itself do: kernels then use
the same code path, and results are bit-equal."""
ROUNDING = 1e-6
"""Differences of age up to this [periods] count as rounding."""
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True)
class SessionState:
    """A session's state within an episode; it can be restored into a session of the same weights."""

    weights_sha256: str
    """Hash of the weights that computed this state; other weights cannot use it."""
    previous_action: Array
    """(N, A): the action executed last, in the action's unit."""
    tensors: Mapping[str, Array]
    """Recurrent state by its name in the contract, each (N, ...)."""
    context: Array
    """(N, C): the context inferred last."""
    acted: NDArray[np.bool_]
    """(N,): which rows made a step since their reset."""
    tick: int = 0
    """Number of steps since the last reset of all rows."""
    extra: Mapping[str, Array] = field(default_factory=dict)
    """The last step's extra outputs by their names in the graph, each (N, size)."""

    def by_name(self) -> dict[str, Array]:
        """Return all arrays by unique names; recurrent tensors get a prefix, because one may be named `context`."""
        states = {f"state.{name}": value for name, value in self.tensors.items()}
        return {PREVIOUS_ACTION: self.previous_action, CONTEXT: self.context, **self.extra, **states}

    def with_rows(self, rows: NDArray[np.bool_], other: SessionState) -> SessionState:
        """Return a copy in which the rows of a mask (N,) come from another state of this session."""

        def mixed(value: Array, other_value: Array) -> Array:
            return np.where(rows.reshape(-1, *[1] * (value.ndim - 1)), other_value, value)

        return replace(
            self,
            previous_action=mixed(self.previous_action, other.previous_action),
            context=mixed(self.context, other.context),
            tensors={name: mixed(value, other.tensors[name]) for name, value in self.tensors.items()},
            extra={name: mixed(value, other.extra[name]) for name, value in self.extra.items()},
        )


class ExtraAnswers(Mapping[str, Array]):
    """Extra outputs of a step by their names in the graph; the views into one array are made on access.

    Args:
        numbers: (K,): the numbers of all extra outputs.
        places: By output, its slice of `numbers` and its shape.
    """

    __slots__ = ("_numbers", "_places")

    def __init__(self, numbers: Array, places: Mapping[str, tuple[slice, tuple[int, ...]]]) -> None:
        self._numbers, self._places = numbers, places

    def __getitem__(self, name: str) -> Array:
        place, shape = self._places[name]
        return self._numbers[place].reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return repr(dict(self))


class TensorBlock:
    """Named float32 tensors in one contiguous array, so that one pass can check all of their numbers.

    Args:
        shapes: Each tensor's shape by its name.
        numbers: Aligned array whose beginning to use; a new one if None.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], numbers: Array | None = None) -> None:
        room = self.room(shapes)
        self.numbers: Array = _aligned(room) if numbers is None else numbers[:room]
        """(K,): the numbers of all tensors, with zeros as padding between them."""
        self.tensors: dict[str, Array] = {}
        """Views of `numbers`, by name."""
        self.places: dict[str, slice] = {}
        """Each tensor's slice of `numbers`, by name."""
        begin = 0
        for name, shape in shapes.items():
            self.places[name] = place = slice(begin, begin + math.prod(shape))
            self.tensors[name] = self.numbers[place].reshape(shape)
            begin += self.room({name: shape})

    @staticmethod
    def room(shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Return how many numbers a block of these shapes takes, padding included."""
        step = ALIGNMENT // 4
        return sum(-(-math.prod(shape) // step) * step for shape in shapes.values())

    @classmethod
    def adjacent(cls, *tables: Mapping[str, tuple[int, ...]]) -> tuple[Array, list[TensorBlock]]:
        """Return one array (K,), and a block for each table of shapes; the blocks follow each other in the array."""
        ends = np.cumsum([cls.room(shapes) for shapes in tables])
        whole = _aligned(int(ends[-1]))
        return whole, [cls(shapes, whole[end - cls.room(shapes) :]) for shapes, end in zip(tables, ends, strict=True)]


def _aligned(count: int) -> Array:
    whole = np.zeros(count + ALIGNMENT // 4, np.float32)
    start = -whole.ctypes.data % ALIGNMENT // 4
    return whole[start : start + count]


class EpisodeMemory:
    """The action executed last, the other outputs of the last step, and the recurrent state of N episodes.

    A session has two and alternates: a step reads one and writes the other, which becomes current once it is checked.

    Args:
        contract: Names, shapes and initial values.
        batch: N, the number of episodes.
        block: Memory of its tensors, of the shapes that `shapes` returns; new memory if None.
    """

    def __init__(self, contract: Contract, batch: int, block: TensorBlock | None = None) -> None:
        self._tensors = contract.state
        block = block or TensorBlock(self.shapes(contract, batch))
        self.numbers = block.numbers
        """(K,): the numbers of all tensors."""
        self.outputs = block.tensors
        """Each tensor by the name of the graph output that writes it."""
        self.inputs = {name: self.outputs[output] for name, output in contract.feedback.items()}
        """Tensors that the next step reads, by the name of the graph input."""
        self.action: Array = self.outputs[ACTION]
        """(N, A): the action executed last."""
        self.context: Array = self.outputs.get(CONTEXT, np.zeros((batch, 0), np.float32))
        """(N, C): the context inferred last."""
        self.extra: dict[str, Array] = {signal.name: self.outputs[signal.name] for signal in contract.extra_outputs}
        """The extra outputs of the last step by their names in the graph, each (N, size)."""
        row: Any = 0 if batch == 1 else ...
        self.action_row, self.context_row = self.action[row], self.context[row]
        """Action and context in the shapes that callers get: for a batch of 1 without the batch axis."""
        # The extra outputs are adjacent in memory, so that one copy takes all of them.
        places = [block.places[name] for name in self.extra]
        begin, end = (places[0].start, places[-1].stop) if places else (0, 0)
        self.extra_numbers = self.numbers[begin:end]
        """(K,): the numbers of all extra outputs."""
        self.extra_places = {
            name: (slice(place.start - begin, place.stop - begin), self.extra[name][row].shape)
            for name, place in zip(self.extra, places, strict=True)
        }
        """Each extra output's slice of `extra_numbers`, and its shape as callers get it."""
        self.state: dict[str, Array] = {
            tensor.name: self.outputs[state_output(tensor.name)] for tensor in self._tensors
        }
        """Recurrent state by its name in the contract, each (N, ...)."""
        self.acted: NDArray[np.bool_] = np.zeros(batch, np.bool_)
        """(N,): which rows made a step since their reset. The array may be shared: replace it, never write into it."""
        self._past = None if contract.lookahead is None else self.state[PAST_ACTIONS]
        self.begin()

    @staticmethod
    def shapes(contract: Contract, batch: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of its tensors, by the name of the graph output."""
        return {name: (batch, *shape) for name, shape in contract.outputs.items()}

    def begin(self, rows: Any = ...) -> None:
        """Give the rows (all if left out) the values that an episode begins with."""
        for value in self.outputs.values():
            value[rows] = 0.0
        for tensor in self._tensors:
            self.state[tensor.name][rows] = tensor.initial
        self.acted = self.acted.copy()
        self.acted[rows] = False

    def elapse(self, periods: int, rows: Any = ...) -> None:
        """Append the last executed action to the action history of the rows (all if left out), once for each period."""
        if self._past is None:
            return
        for _ in range(min(periods, self._past.shape[1])):
            self._past[rows] = np.concatenate([self.action[rows][:, None], self._past[rows][:, :-1]], 1)

    def take(self, other: EpisodeMemory) -> None:
        """Copy the content of another memory of the same contract and batch."""
        np.copyto(self.numbers, other.numbers)
        self.acted = other.acted

    def snapshot(self, weights_sha256: str, tick: int) -> SessionState:
        """Return a copy as a `SessionState`."""
        return SessionState(
            weights_sha256=weights_sha256,
            previous_action=self.action.copy(),
            tensors={name: value.copy() for name, value in self.state.items()},
            context=self.context.copy(),
            acted=self.acted.copy(),
            tick=tick,
            extra={name: value.copy() for name, value in self.extra.items()},
        )

    def load(self, state: SessionState) -> None:
        """Copy the numbers of a state of the same shapes into this memory."""
        self.action[...], self.context[...] = state.previous_action, state.context
        for values, source in ((self.state, state.tensors), (self.extra, state.extra)):
            for name, value in values.items():
                value[...] = source[name]
        self.acted = np.array(state.acted, np.bool_)

    def digest(self) -> str:
        """Return a short hash of all numbers that a step reads: 16 hexadecimal digits."""
        parts = (self.acted, self.action, *(self.state[name] for name in sorted(self.state)))
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]


class StepInputs:
    """The observation of N episodes and its age, in memory that is allocated once.

    Args:
        contract: Names and sizes of the signals.
        batch: N, the number of episodes.
        block: Memory of the observation, of the shapes that `shapes` returns; new memory if None.
    """

    def __init__(self, contract: Contract, batch: int, block: TensorBlock | None = None) -> None:
        block = block or TensorBlock(self.shapes(contract, batch))
        ages = {name: np.zeros((batch, size), np.float32) for name, size in contract.age_inputs.items()}
        self.inputs: dict[str, Array] = block.tensors | ages
        """Observation and ages by the name of the graph input, each (N, size)."""
        self._age = ages.get(AGE)
        self._most = 0.0 if contract.lookahead is None else contract.lookahead.steps + ROUNDING
        changing = frozenset[str]() if contract.lookahead is None else contract.lookahead.changing
        self._names, self._batch = [signal.name for signal in contract.observation], batch
        self._counts = np.array([name in changing for name in self._names])
        self._signals = tuple(contract.signal_inputs.values())
        self._shares = {signal.name: self.inputs[name] for name, signal in contract.signal_inputs.items()}
        # The memory of each signal, in the shape that callers give.
        self._targets = [(name, share[0] if batch == 1 else share) for name, share in self._shares.items()]
        # Assigning to a memoryview copies an array of exactly this type and shape, and raises for everything else.
        self._views = [(name, target.data) for name, target in self._targets] if batch == 1 else None
        self.zeros = {name: np.zeros_like(target) for name, target in self._targets}
        """An observation of zeros."""

    @staticmethod
    def shapes(contract: Contract, batch: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the observation's tensors, by the name of the graph input."""
        return {name: (batch, signal.size) for name, signal in contract.signal_inputs.items()}

    def observe(self, observation: Mapping[str, ArrayLike], tick: int) -> None:
        """Copy an observation into the memory that the graph reads.

        Args:
            observation: By signal name, each (size,) or, for a batch, (N, size).
            tick: Of the session, for messages.

        Raises:
            SignalError: A signal is missing, unknown or misshapen; see `require_finite` for its numbers.
        """
        if self._views is None or len(observation) != len(self._views):
            self._convert(observation, f"tick {tick}:")
            return
        try:
            for name, view in self._views:
                view[:] = observation[name]  # type: ignore[assignment]  # any buffer, not bytes alone
        except Exception:
            self._convert(observation, f"tick {tick}:")

    def require_finite(self, tick: int) -> None:
        """Raise NonFiniteError where the observation holds NaN or infinity."""
        for signal, share in zip(self._signals, self._shares.values(), strict=True):
            require_finite(share, signal.name, signal.elements, f"tick {tick}: observation", "Give finite numbers.")

    def observe_age(self, age: Age, tick: int) -> None:
        """Copy the ages of a step into the memory that the graph reads, if the model has lookahead.

        Args:
            age: [periods] one number, (N,) or (N, S) for S signals; or by signal, each one number or (N,).
            tick: Of the session, for messages.

        Raises:
            SignalError: A signal has no age, or its age is not between 0 and the largest that was fitted. Ages of
                constant signals are not checked.
        """
        target = self._age
        if target is None:
            return
        if type(age) is float and 0.0 <= age <= self._most:
            target[...] = age  # the common case
            return
        if isinstance(age, Mapping):
            if missing := [name for name in self._names if name not in age]:
                names = ", ".join(missing)
                raise SignalError(f"tick {tick}: the age of {names} is missing. Give an age for each signal.", AGE)
            numbers = np.stack([np.broadcast_to(age[name], self._batch) for name in self._names], 1)
        else:
            numbers = np.asarray(age, np.float64)
            numbers = numbers[:, None] if numbers.shape == (self._batch,) and self._batch > 1 else numbers
        ages = np.broadcast_to(numbers, target.shape)
        wrong = np.argwhere(self._counts & ~((ages >= 0.0) & (ages <= self._most)))
        if len(wrong):
            row, column = wrong[0]
            raise SignalError(
                f"tick {tick}: {self._names[column]} is {ages[row, column]:.3g} periods old, and the file was "
                f"fitted for 0 to {int(self._most)}. Hold the last action, or export with a larger --lookahead.",
                AGE,
            )
        target[...] = np.where(self._counts, ages, 0.0)

    def _convert(self, observation: Mapping[str, ArrayLike], where: str) -> None:
        """Copy an observation of any numeric type, or raise a SignalError that names what is wrong with it."""
        if len(observation) != len(self._targets):
            raise wrong_names(observation, self._shares, where)
        # A number beyond float32 becomes infinity, which is refused afterwards.
        with np.errstate(over="ignore"):
            for signal, (name, target) in zip(self._signals, self._targets, strict=True):
                try:
                    value = observation[name]
                except KeyError:
                    raise wrong_names(observation, self._shares, where) from None
                # The common cases, without the checks that only other types and shapes need.
                if type(value) is np.ndarray and value.shape == target.shape and value.dtype in _FLOATS:
                    target[...] = value
                else:
                    fill(self._shares[name], value, signal, f"{where} observation")
