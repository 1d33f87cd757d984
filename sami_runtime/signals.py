"""Signals: named vectors that a robot and a policy exchange, with units and bounds; and checks of their values."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from sami_runtime.errors import NonFiniteError, SignalError, nearest, short_list

LARGEST = 3.4028234663852886e38
"""Largest float32."""
MOST_NUMBERS = 1_000_000
"""Most numbers of a tensor, because a session allocates the size that a file declares."""


def _not_too_many(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"has more than {MOST_NUMBERS} numbers")
    return shape


def _null_for(infinity: float) -> BeforeValidator:
    """Convert `infinity` to None, "no bound": Gymnasium's spaces have inf, but JSON has no infinity and uses null."""

    def convert(value: Any) -> Any:
        numbers = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(numbers, (list, tuple)):
            return tuple(None if x == infinity else x for x in numbers)
        return numbers

    return BeforeValidator(convert)


Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Float32 = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Size = Annotated[int, Field(ge=1, le=MOST_NUMBERS)]
Shape = Annotated[tuple[Size, ...], AfterValidator(_not_too_many)]
Low = Annotated[tuple[Number | None, ...], _null_for(-math.inf)]
High = Annotated[tuple[Number | None, ...], _null_for(math.inf)]


class Entry(BaseModel):
    """A part of a contract. Fields that contracts of older versions lack are written only if they are not empty."""

    # Dumping keeps a NaN, so that `Contract.dumps` raises instead of writing null for it.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    """Fields that are not written while they are empty."""

    @model_serializer(mode="wrap")
    def _without_empty_options(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if value or name not in self.OPTIONAL}


class Moves(Entry):
    """The observed element that an element of an action moves, if the action is a displacement or a velocity."""

    element: str
    """The element of an observation, as `SIGNAL.ELEMENT`."""
    scale: Number
    """By how much one unit of the action changes `element` within a period of the policy, in its unit; not 0."""

    @model_validator(mode="after")
    def _moves_something(self) -> Moves:
        if not self.scale:
            raise ValueError(f"must not be 0: it says how far a unit of the action moves {self.element}")
        return self


class Signal(Entry):
    """A named vector that crosses between the robot and the policy."""

    OPTIONAL = ("moves", "command")

    name: Name
    size: Size
    """How many numbers it has."""
    unit: Text
    """Unit of each number; `"1"` when it has none."""
    elements: tuple[str, ...]
    """One name for each number, `("x", "y", "z")`."""
    low: Low
    """Lowest value of each number in `unit`; None (JSON null) where there is no bound."""
    high: High
    """Highest value of each number in `unit`; None (JSON null) where there is no bound."""
    meaning: str = ""
    """Explanation of the numbers, if name and unit are not enough."""
    moves: dict[str, Moves] | None = None
    """The observed element that each element of an action moves, by the latter's name; None if not declared."""
    command: bool = False
    """Whether a person or the policy itself chose it (a commanded speed, the last action), instead of a sensor."""

    @model_validator(mode="after")
    def _lengths_and_bounds(self) -> Signal:
        for field in ("elements", "low", "high"):
            length = len(getattr(self, field))
            if length != self.size:
                raise ValueError(f"signal {self.name!r} has {length} {field} for its size {self.size}")
        if len(set(self.elements)) != self.size:
            raise ValueError(f"signal {self.name!r} names an element twice: {', '.join(self.elements)}")
        for element, low, high in zip(self.elements, self.low, self.high, strict=True):
            if low is not None and high is not None and low > high:
                raise ValueError(f"signal {self.name!r} has low {low} above high {high} at {element}")
        if strange := [name for name in self.moves or {} if name not in self.elements]:
            raise ValueError(f"signal {self.name!r} says what {', '.join(strange)} moves, which it does not have")
        return self


@dataclass(frozen=True)
class SignalSource:
    """Position of a signal within an environment's observation."""

    signal: Signal
    key: str | None = None
    """The entry of a Dict observation; None for a Box observation."""
    start: int = 0
    """Index of the signal's first number in that entry."""


def fill(target: NDArray[np.float32], value: ArrayLike, signal: Signal, where: str) -> None:
    """Copy a signal's value into `target`, converting integers and other floats.

    Args:
        target: (N, size), written.
        value: (N, size); for N = 1 also (size,).
        signal: What the value should be.
        where: Beginning of the message, such as `"tick 3: observation"`.

    Raises:
        SignalError: The value is not numeric or has another shape.
    """
    where = f"{where} {signal.name!r}"
    array = numbers_of(value)
    batch, size = target.shape
    if array.shape != target.shape and (batch != 1 or array.shape != (size,)):
        if not array.size:
            actual, expected = f"is {reprlib.repr(value)}", f"{size} numbers"
        elif batch == 1 and array.ndim == 1:
            actual, expected = f"has {array.size} values", str(size)
        else:
            actual, expected = f"has shape {array.shape}", str((size,) if batch == 1 else target.shape)
        names = ", ".join(signal.elements)
        raise SignalError(f"{where} {actual}, expected {expected} [{signal.unit}] ({names}).", signal.name)
    # A float64 beyond float32 becomes inf, which `require_finite` then reports.
    with np.errstate(over="ignore"):
        np.copyto(target, array, casting="unsafe")


def numbers_of(value: object) -> NDArray[Any]:
    """Convert a value from an adapter to a numeric array of its shape; an empty array (0,) if it is not numeric.

    A ragged list, a text, or an object whose conversion raises is not numeric.
    """
    try:
        array = np.asarray(value)
    except Exception:
        return np.empty(0)
    return array if array.dtype.kind in "fiub" else np.empty(0)


def finite_numbers(value: object, size: int) -> NDArray[np.float64] | None:
    """Return a value from an adapter as an array (size,) of finite numbers; None if it is anything else."""
    numbers = numbers_of(value).astype(np.float64)
    return numbers if numbers.shape == (size,) and np.isfinite(numbers).all() else None


def number_at(values: Mapping[str, object], signal: str, at: int) -> float:
    """Return the number at index `at` of a signal in an observation's values; NaN if it is missing."""
    numbers = numbers_of(values.get(signal)).reshape(-1)
    return float(numbers[at]) if at < len(numbers) else math.nan


def number_in(info: Mapping[str, Any], name: str) -> float | None:
    """Return one number that an adapter reports, such as `info["reward"]`; None if it is missing or not one number.

    An adapter may put anything into `info`, and a wrong type there must not end a run.
    """
    array = numbers_of(info.get(name))
    return float(array.item()) if array.size == 1 else None


def all_finite(value: NDArray[np.float32]) -> bool:
    """Whether every number is finite; a third of the time of `np.isfinite(value).all()` on short arrays."""
    return 0 not in np.isfinite(value).tobytes()


def finite_check(numbers: NDArray[np.float32]) -> Callable[[], bool]:
    """Return a function that tests whether every number of this array (K,) is finite; its calls allocate nothing."""
    # numpy writes the flags into the bytearray, which Python searches for a 0 faster than numpy's `all` does.
    flags = bytearray(len(numbers))
    finite = np.frombuffer(flags, np.bool_)
    is_finite = np.isfinite

    def check() -> bool:
        is_finite(numbers, finite)
        return 0 not in flags

    return check


def require_finite(value: NDArray[np.float32], name: str, elements: Sequence[str], where: str, blame: str) -> None:
    """Raise if a value contains NaN or infinity.

    Args:
        value: (N, ...).
        name: The value's name, for the message.
        elements: Names of the numbers in a row; the message gives indices if empty.
        where: Beginning of the message, such as `"tick 3: observation"`.
        blame: Last sentence of the message: which code produced the value.

    Raises:
        NonFiniteError: A number is not finite; the message names up to 8 elements.
    """
    rows = value.reshape(len(value), -1)
    bad = np.argwhere(~np.isfinite(rows))
    if not len(bad):
        return
    in_row = f" of row {bad[0, 0]}" if len(value) > 1 else ""
    columns = [int(column) for row, column in bad if row == bad[0, 0]]
    nan = np.isnan(rows[bad[0, 0], columns])
    kind = "NaN" if nan.all() else "NaN and infinity" if nan.any() else "infinity"
    names = short_list([elements[column] if elements else str(column) for column in columns], 8)
    raise NonFiniteError(f"{where} {name!r} contains {kind} at {names}{in_row}. {blame}", name)


def wrong_names(offered: Iterable[str], expected: Collection[str], where: str) -> SignalError:
    """Return the error for an observation that lacks signals of the policy, or has others."""
    names = [str(name) for name in offered]
    missing = [name for name in expected if name not in names]
    faults = [f"observation {name!r} is missing" for name in missing]
    for name in names:
        if name not in expected:
            near = nearest(name, missing or expected)
            faults.append(f"{name!r} is not read by this policy" + (f" (did you mean {near!r}?)" if near else ""))
    signal = missing[0] if len(missing) == 1 else None
    return SignalError(f"{where} {'; '.join(faults)}. Give exactly: {', '.join(expected)}.", signal)


def row_mask(rows: ArrayLike, batch: int) -> NDArray[np.bool_]:
    """Return a mask (N,) of the rows of a batch of N that `rows` selects, by indices or by a mask (N,).

    Raises:
        SignalError: A row is not in the batch.
    """
    array, mask = np.atleast_1d(np.asarray(rows)), np.zeros(batch, np.bool_)
    is_mask = array.dtype == np.bool_ and array.shape == mask.shape
    is_indices = array.dtype.kind in "iu" and array.ndim == 1 and bool(((array >= 0) & (array < batch)).all())
    if not (is_mask or is_indices or array.size == 0):
        raise SignalError(
            f"rows {array.tolist()} do not name episodes of a batch of {batch}; valid are indices from 0 to "
            f"{batch - 1}, or a mask of {batch} booleans."
        )
    if array.size:
        mask[array] = True
    return mask


def layouts(signals: Iterable[Signal]) -> list[tuple[str, ...]]:
    """Return name, unit and elements of each signal, sorted: where they are equal, numbers mean the same."""
    return sorted((signal.name, signal.unit, *signal.elements) for signal in signals)
