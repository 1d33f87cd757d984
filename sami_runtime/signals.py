"""Signals: named vectors that cross between a robot and a policy, with units and bounds, and their values."""

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

from sami_runtime.errors import NonFiniteError, SignalError, nearest

LARGEST = 3.4028234663852886e38
"""Largest float32."""
MOST_NUMBERS = 1_000_000
"""Most numbers of a tensor: what a file says of its size is memory that a session takes."""


def _not_too_many(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"has more than {MOST_NUMBERS} numbers")
    return shape


def _none_for(infinity: float) -> BeforeValidator:
    """Take `infinity` for "no bound": a space says inf, but JSON has no infinity and says null."""

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
Low = Annotated[tuple[Number | None, ...], _none_for(-math.inf)]
High = Annotated[tuple[Number | None, ...], _none_for(math.inf)]


class Entry(BaseModel):
    """A part of a contract. Entries that older files do not have are written only where they say something."""

    # A NaN stays one when it is dumped, so that `Contract.dumps` refuses it instead of writing null for it.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    """Fields that are left out where they are empty."""

    @model_serializer(mode="wrap")
    def _without_empty_options(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if value or name not in self.OPTIONAL}


class Moves(Entry):
    """What an element of an action moves, where it is a displacement or a velocity."""

    element: str
    """The element of an observation, as `SIGNAL.ELEMENT`."""
    scale: Number
    """How far a unit of the action moves it within one period of the policy, in its own unit; not 0."""

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
    """What the numbers do, where name and unit do not say it all."""
    moves: dict[str, Moves] | None = None
    """By element of an action, what it moves; None where that is not declared."""
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
    """Where a signal lies in an environment's observation."""

    signal: Signal
    key: str | None = None
    """The entry of a Dict observation; None for a Box observation."""
    start: int = 0
    """Index of the signal's first number there."""


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
    # A float64 beyond float32 becomes inf, which require_finite then names.
    with np.errstate(over="ignore"):
        np.copyto(target, array, casting="unsafe")


def numbers_of(value: object) -> NDArray[Any]:
    """Return what an adapter gave as an array of numbers, in its shape; an empty one where it is none.

    A ragged list, a text or a class that refuses is no array of numbers.
    """
    try:
        array = np.asarray(value)
    except Exception:
        return np.empty(0)
    return array if array.dtype.kind in "fiub" else np.empty(0)


def finite_numbers(value: object, size: int) -> NDArray[np.float64] | None:
    """Return a copy of what an adapter gave as finite numbers, (size,); None where it is anything else."""
    numbers = numbers_of(value).astype(np.float64)
    return numbers if numbers.shape == (size,) and np.isfinite(numbers).all() else None


def number_at(values: Mapping[str, object], signal: str, at: int) -> float:
    """Return a number of an observation's values; NaN where there is none."""
    numbers = numbers_of(values.get(signal)).reshape(-1)
    return float(numbers[at]) if at < len(numbers) else math.nan


def number_in(info: Mapping[str, Any], name: str) -> float | None:
    """Return what an adapter reports as one number, such as `info["reward"]`; None if there is none, or another kind.

    An adapter may report anything: a viewer or a count leaves out what is no number, and never ends a run for it.
    """
    array = numbers_of(info.get(name))
    return float(array.item()) if array.size == 1 else None


def all_finite(value: NDArray[np.float32]) -> bool:
    """Whether every number is finite; a third of the time of `np.isfinite(value).all()` on short arrays."""
    return 0 not in np.isfinite(value).tobytes()


def finite_check(numbers: NDArray[np.float32]) -> Callable[[], bool]:
    """Return a call that says whether every number of this array (K,) is finite now; it allocates nothing."""
    # numpy writes the flags into the bytes, which Python searches for a 0 faster than numpy reduces them.
    flags = bytearray(len(numbers))
    finite = np.frombuffer(flags, np.bool_)
    is_finite = np.isfinite

    def check() -> bool:
        is_finite(numbers, finite)
        return 0 not in flags

    return check


def require_finite(value: NDArray[np.float32], name: str, elements: Sequence[str], where: str, blame: str) -> None:
    """Refuse NaN and infinity, and say in which elements they are.

    Args:
        value: (N, ...).
        name: What the value is called.
        elements: Names of the numbers in a row; their indices if empty.
        where: Beginning of the message, such as `"tick 3: observation"`.
        blame: A sentence on who produced the value.

    Raises:
        NonFiniteError: A number is not finite.
    """
    rows = value.reshape(len(value), -1)
    bad = np.argwhere(~np.isfinite(rows))
    if not len(bad):
        return
    in_row = f" of row {bad[0, 0]}" if len(value) > 1 else ""
    columns = [int(column) for row, column in bad if row == bad[0, 0]]
    nan = np.isnan(rows[bad[0, 0], columns])
    kind = "NaN" if nan.all() else "NaN and infinity" if nan.any() else "infinity"
    shown = ", ".join(elements[column] if elements else str(column) for column in columns[:8])
    more = f" and {len(columns) - 8} more" if len(columns) > 8 else ""
    raise NonFiniteError(f"{where} {name!r} contains {kind} at {shown}{more}{in_row}. {blame}", name)


def wrong_names(offered: Iterable[str], expected: Collection[str], where: str) -> SignalError:
    """Return the error for an observation whose signals are not those that the policy reads."""
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
    """(N,) mask of the rows that are named by index or by mask.

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
