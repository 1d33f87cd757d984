"""Golden steps: recorded inputs and outputs of the trained network, stored in the contract to check the model file.

The exporter computes them by the trained network, not by the ONNX file that they check.
"""

from __future__ import annotations

import base64
import binascii
import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import model_validator

from sami_runtime.errors import ContractError
from sami_runtime.signals import Count, Entry

MAX_GOLDEN_BYTES = 64 * 1024 * 1024
"""Largest size of the decoded arrays together, so that a small hostile file cannot fill the memory."""

_UNREADABLE = (
    *(binascii.Error, zipfile.BadZipFile, zlib.error, ValueError, TypeError, KeyError),
    *(OSError, EOFError, MemoryError, NotImplementedError, RuntimeError),
)
"""The errors that base64, zipfile and numpy raise on bytes that are no npz."""


@dataclass(frozen=True)
class GoldenSteps:
    """T decoded golden steps."""

    observation: Mapping[str, NDArray[np.float32]]
    """Inputs of `Session.step` by signal name, each (T, size) in the signal's unit."""
    executed: NDArray[np.float32]
    """(T, A): the action executed at each step, which step t + 1 reads as the previous one."""
    answers: Mapping[str, NDArray[np.float32]]
    """Outputs of the trained policy by their names in the graph, each (T, size)."""
    resets: tuple[int, ...]
    """Steps before which an episode begins: state and previous action take their initial values."""
    age: NDArray[np.float32] | None = None
    """(T, S): age of each signal [periods], in the contract's order; None for a model without lookahead."""
    holds: NDArray[np.float32] | None = None
    """(T, 1): periods without a step before each step; None for a model without lookahead."""

    def __len__(self) -> int:
        return len(self.executed)


class Golden(Entry):
    """Golden steps as they are encoded in the contract's JSON; `Contract.golden_steps` decodes them."""

    steps: Count
    """T, the number of steps."""
    resets: tuple[int, ...]
    """Ascending step indices before which an episode begins; the first is 0."""
    data: str
    """Base64 of an npz with an array (T, size) for each of the graph's inputs and outputs, and for `executed`."""

    @model_validator(mode="after")
    def _resets_are_step_indices(self) -> Golden:
        ascending = list(self.resets) == sorted(set(self.resets))
        if not self.resets or self.resets[0] != 0 or not ascending or self.resets[-1] >= self.steps:
            raise ValueError(f"resets {list(self.resets)} must ascend, begin with 0 and stay below steps {self.steps}")
        return self

    @classmethod
    def encode(cls, arrays: Mapping[str, ArrayLike], resets: Sequence[int] = (0,)) -> Golden:
        """Encode golden steps.

        Args:
            arrays: By name, each (T, size).
            resets: Step indices before which an episode begins.

        Raises:
            ContractError: The arrays differ in their number of steps, or contain NaN or infinity.
        """
        packed = {name: np.asarray(value, dtype=np.float32) for name, value in arrays.items()}
        steps = len(next(iter(packed.values())))
        _check(packed, steps)
        stream = io.BytesIO()
        # numpy's stub takes `allow_pickle` for the type of every keyword.
        np.savez_compressed(stream, **packed)  # type: ignore[arg-type, unused-ignore]
        data = base64.b64encode(stream.getvalue()).decode("ascii")
        return cls(steps=steps, resets=tuple(int(reset) for reset in resets), data=data)

    def decode(self) -> dict[str, NDArray[np.float32]]:
        """Return the arrays (T, size) by name; pickle is never loaded, and the size is limited.

        Raises:
            ContractError: The data is no npz of finite arrays (T, size), or is too large.
        """
        try:
            packed = base64.b64decode(self.data, validate=True)
            with zipfile.ZipFile(io.BytesIO(packed)) as archive:
                size = sum(entry.file_size for entry in archive.infolist())
            if size > MAX_GOLDEN_BYTES:
                raise ContractError(
                    f"the golden steps unpack to {size} bytes; at most {MAX_GOLDEN_BYTES} are read. "
                    "Export the model again with fewer golden steps."
                )
            with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
                arrays = {key: np.asarray(archive[key], dtype=np.float32) for key in archive.files}
        except _UNREADABLE as error:
            raise ContractError(f"the golden steps cannot be unpacked: {error}. Export the model again.") from error
        _check(arrays, self.steps)
        return arrays


def _check(arrays: Mapping[str, NDArray[np.float32]], steps: int) -> None:
    """Refuse arrays that are not (steps, size) or hold a number that is not finite."""
    for name, value in arrays.items():
        if value.ndim != 2 or len(value) != steps:
            raise ContractError(
                f"golden array {name!r} has shape {value.shape}, expected ({steps}, size). Export the model again."
            )
        if not np.isfinite(value).all():
            step = int(np.argwhere(~np.isfinite(value))[0, 0])
            raise ContractError(
                f"golden array {name!r} holds a number that is not finite at step {step}. "
                "Export a policy whose outputs are finite."
            )
