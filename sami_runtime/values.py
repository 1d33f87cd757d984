"""Numbers that cross the border of a session: converted where that is harmless, refused otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.errors import NonFiniteError, SignalError, nearest
from sami_runtime.signals import Signal


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
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise SignalError(f"{where} {signal.name!r} is not an array: {error}.", signal.name) from error
    if not is_numeric(array):
        raise SignalError(
            f"{where} {signal.name!r} has type {array.dtype}, expected numbers [{signal.unit}].", signal.name
        )
    batch, size = target.shape
    if array.shape != target.shape and (batch != 1 or array.shape != (size,)):
        names = ", ".join(signal.elements)
        if batch == 1 and array.ndim == 1:
            actual, expected = f"{array.size} values", str(size)
        else:
            actual, expected = f"shape {array.shape}", str((size,) if batch == 1 else target.shape)
        raise SignalError(
            f"{where} {signal.name!r} has {actual}, expected {expected} [{signal.unit}] ({names}).",
            signal.name,
        )
    # A float64 beyond float32 becomes inf, which require_finite then names.
    with np.errstate(over="ignore"):
        np.copyto(target, array, casting="unsafe")


def is_numeric(array: NDArray[Any]) -> bool:
    """Whether it holds numbers: floats, integers or booleans."""
    return array.dtype.kind in "fiub"


def number_in(info: Mapping[str, Any], name: str) -> float | None:
    """Return what an adapter reports as one number, such as `info["reward"]`; None if there is none, or another kind.

    An adapter may report anything: a viewer or a count leaves out what is no number, and never ends a run for it.
    """
    try:
        array = np.asarray(info.get(name))
        return float(array.item()) if array.size == 1 and is_numeric(array) else None
    except Exception:  # ragged lists, and classes that refuse
        return None


def all_finite(value: NDArray[np.float32]) -> bool:
    """Whether every number is finite; a third of the time of `np.isfinite(value).all()` on short arrays."""
    return 0 not in np.isfinite(value).tobytes()


def finite_check(numbers: NDArray[np.float32]) -> Callable[[], bool]:
    """Return a call that says whether every number of this array is finite now; it allocates nothing.

    Args:
        numbers: (K,), looked at anew at each call.
    """
    # numpy writes the flags into the bytes, which Python searches for a 0 faster than numpy reduces them.
    flags = bytearray(len(numbers))
    finite = np.frombuffer(flags, np.bool_)
    is_finite = np.isfinite

    def check() -> bool:
        is_finite(numbers, finite)
        return 0 not in flags

    return check


def require_finite(value: NDArray[np.float32], name: str, elements: Sequence[str], where: str, blame: str) -> None:
    """Refuses NaN and infinity, and says in which elements they are.

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
