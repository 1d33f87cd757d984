"""The tensors of a session, where onnxruntime reads and writes them in place."""

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
"""How old what was observed is [periods]: one number for all signals or one for each, by the signal's name."""

ALIGNMENT = 64
"""Each tensor begins at a multiple of this [bytes], as those that onnxruntime allocates itself: kernels then take the
same path through them, and results are equal to the bit."""
ROUNDING = 1e-6
"""Of a period, that is no difference."""
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


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

    def by_name(self) -> dict[str, Array]:
        """Return the numbers by unique names: a recurrent tensor may have any name, also `context`."""
        states = {f"state.{name}": value for name, value in self.tensors.items()}
        return {PREVIOUS_ACTION: self.previous_action, CONTEXT: self.context, **self.extra, **states}

    def with_rows(self, rows: NDArray[np.bool_], other: SessionState) -> SessionState:
        """Return the same with the rows of a mask (N,) as another state of this session has them."""

        def mixed(value: Array, elsewhere: Array) -> Array:
            return np.where(rows.reshape(-1, *[1] * (value.ndim - 1)), elsewhere, value)

        return replace(
            self,
            previous_action=mixed(self.previous_action, other.previous_action),
            context=mixed(self.context, other.context),
            tensors={name: mixed(value, other.tensors[name]) for name, value in self.tensors.items()},
            extra={name: mixed(value, other.extra[name]) for name, value in self.extra.items()},
        )


class ExtraAnswers(Mapping[str, Array]):
    """What a step answered besides action and context, by the graph's output: views of one copy, made when asked for.

    Args:
        numbers: The copy.
        places: By output, where it lies there, and its shape.
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
    """Named float32 tensors in one contiguous piece of memory, so that one pass looks at all of their numbers.

    Args:
        shapes: By name, each tensor's shape.
        numbers: Aligned memory to begin in; new memory if None.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], numbers: Array | None = None) -> None:
        room = self.room(shapes)
        self.numbers: Array = _aligned(room) if numbers is None else numbers[:room]
        """All numbers; the gaps between the tensors are zero and stay it."""
        self.tensors: dict[str, Array] = {}
        """By name, views."""
        self.places: dict[str, slice] = {}
        """By name, where it lies among the numbers."""
        begin = 0
        for name, shape in shapes.items():
            self.places[name] = place = slice(begin, begin + math.prod(shape))
            self.tensors[name] = self.numbers[place].reshape(shape)
            begin += self.room({name: shape})

    @staticmethod
    def room(shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Return how many numbers such a block takes, gaps included."""
        step = ALIGNMENT // 4
        return sum(-(-math.prod(shape) // step) * step for shape in shapes.values())

    @classmethod
    def adjacent(cls, *tables: Mapping[str, tuple[int, ...]]) -> tuple[Array, list[TensorBlock]]:
        """Return one piece of memory, and the blocks that follow each other in it."""
        ends = np.cumsum([cls.room(shapes) for shapes in tables])
        whole = _aligned(int(ends[-1]))
        return whole, [cls(shapes, whole[end - cls.room(shapes) :]) for shapes, end in zip(tables, ends, strict=True)]


def _aligned(count: int) -> Array:
    whole = np.zeros(count + ALIGNMENT // 4, np.float32)
    start = -whole.ctypes.data % ALIGNMENT // 4
    return whole[start : start + count]


class EpisodeMemory:
    """The action executed last, the other answers of the last step, and the recurrent state of N episodes.

    A session has two and alternates: a step reads one and writes the other, which counts only once it was judged.

    Args:
        contract: Names, shapes and initial values.
        batch: N.
        block: Where its tensors lie, of `shapes`; new ones if None.
    """

    def __init__(self, contract: Contract, batch: int, block: TensorBlock | None = None) -> None:
        self._tensors = contract.state
        block = block or TensorBlock(self.shapes(contract, batch))
        self.numbers = block.numbers
        """All that is in it."""
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
        # The extra outputs follow each other, so that one copy takes them all.
        places = [block.places[name] for name in self.extra]
        begin, end = (places[0].start, places[-1].stop) if places else (0, 0)
        self.extra_numbers = self.numbers[begin:end]
        """The numbers of the other answers."""
        self.extra_places = {
            name: (slice(place.start - begin, place.stop - begin), self.extra[name][row].shape)
            for name, place in zip(self.extra, places, strict=True)
        }
        """Where each of them lies there, and its shape as callers get it."""
        self.state: dict[str, Array] = {
            tensor.name: self.outputs[state_output(tensor.name)] for tensor in self._tensors
        }
        """By the name in the contract, each (N, ...)."""
        self.acted: NDArray[np.bool_] = np.zeros(batch, np.bool_)
        """(N,): which rows made a step since their reset. It is replaced, never written into."""
        self._past = None if contract.lookahead is None else self.state[PAST_ACTIONS]
        self.begin()

    @staticmethod
    def shapes(contract: Contract, batch: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of its tensors, by the graph's output."""
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
        """Let periods pass in the rows (all if left out) in which the action executed last stood."""
        if self._past is None:
            return
        for _ in range(min(periods, self._past.shape[1])):
            self._past[rows] = np.concatenate([self.action[rows][:, None], self._past[rows][:, :-1]], 1)

    def take(self, other: EpisodeMemory) -> None:
        """Become equal to another one of the same contract and batch."""
        np.copyto(self.numbers, other.numbers)
        self.acted = other.acted

    def snapshot(self, weights_sha256: str, tick: int) -> SessionState:
        """Return a copy."""
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
        """Take the numbers of a state of the same shapes."""
        self.action[...], self.context[...] = state.previous_action, state.context
        for values, saved in ((self.state, state.tensors), (self.extra, state.extra)):
            for name, value in values.items():
                value[...] = saved[name]
        self.acted = np.array(state.acted, np.bool_)

    def digest(self) -> str:
        """Return a short hash of the numbers that a step reads: equal where every bit is."""
        parts = (self.acted, self.action, *(self.state[name] for name in sorted(self.state)))
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]


class StepInputs:
    """The observation of N episodes and its age, in memory that is allocated once.

    Args:
        contract: Names and sizes of the signals.
        batch: N.
        block: Where the observation lies, of `shapes`; new memory if None.
    """

    def __init__(self, contract: Contract, batch: int, block: TensorBlock | None = None) -> None:
        block = block or TensorBlock(self.shapes(contract, batch))
        ages = {name: np.zeros((batch, size), np.float32) for name, size in contract.age_inputs.items()}
        self.inputs: dict[str, Array] = block.tensors | ages
        """By the graph's input that reads it, each (N, size)."""
        self._age = ages.get(AGE)
        self._most = 0.0 if contract.lookahead is None else contract.lookahead.steps + ROUNDING
        changing = frozenset[str]() if contract.lookahead is None else contract.lookahead.changing
        self._aged, self._batch = [signal.name for signal in contract.observation], batch
        self._counts = np.array([name in changing for name in self._aged])
        self._signals = tuple(contract.signal_inputs.values())
        self._shares = {signal.name: self.inputs[name] for name, signal in contract.signal_inputs.items()}
        # Where each signal goes, in the shape that callers give.
        self._targets = [(name, share[0] if batch == 1 else share) for name, share in self._shares.items()]
        # Writing into a view copies an array of exactly this type and shape, and raises for everything else.
        self._views = [(name, target.data) for name, target in self._targets] if batch == 1 else None
        self.zeros = {name: np.zeros_like(target) for name, target in self._targets}
        """An observation of zeros."""

    @staticmethod
    def shapes(contract: Contract, batch: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the observation's tensors, by the graph's input."""
        return {name: (batch, signal.size) for name, signal in contract.signal_inputs.items()}

    def observe(self, observation: Mapping[str, ArrayLike], tick: int) -> None:
        """Copy an observation to where the graph reads it.

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
        blame = "The adapter's read() produced it."
        for signal, share in zip(self._signals, self._shares.values(), strict=True):
            require_finite(share, signal.name, signal.elements, f"tick {tick}: observation", blame)

    def observe_age(self, age: Age, tick: int) -> None:
        """Take the ages of a step, where the contract looks ahead.

        Args:
            age: A number for all, (N,) or (N, S), or either of the first two by signal.
            tick: Of the session, for messages.

        Raises:
            SignalError: An age is no number from 0 to the largest that was fitted, or a signal has none. Of signals
                that never change any will do.
        """
        target = self._age
        if target is None:
            return
        if type(age) is float and 0.0 <= age <= self._most:
            target[...] = age  # the common case
            return
        if isinstance(age, Mapping):
            if missing := [name for name in self._aged if name not in age]:
                raise SignalError(f"tick {tick}: nobody told the age of {', '.join(missing)}. Tell one of each.", AGE)
            numbers = np.stack([np.broadcast_to(age[name], self._batch) for name in self._aged], 1)
        else:
            numbers = np.asarray(age, np.float64)
            numbers = numbers[:, None] if numbers.shape == (self._batch,) and self._batch > 1 else numbers
        ages = np.broadcast_to(numbers, target.shape)
        wrong = np.argwhere(self._counts & ~((ages >= 0.0) & (ages <= self._most)))
        if len(wrong):
            row, column = wrong[0]
            raise SignalError(
                f"tick {tick}: {self._aged[column]} is {ages[row, column]:.3g} periods old, and the file was "
                f"fitted for 0 to {int(self._most)}. Hold the last action, or export with a larger --lookahead.",
                AGE,
            )
        target[...] = np.where(self._counts, ages, 0.0)

    def _convert(self, observation: Mapping[str, ArrayLike], where: str) -> None:
        """Copy an observation of any type of numbers, or say what is wrong with it."""
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
