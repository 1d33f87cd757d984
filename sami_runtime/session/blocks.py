"""Memory that onnxruntime reads and writes in place."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Each tensor begins at a multiple of this [bytes], as those that onnxruntime allocates itself: kernels then take the
same path through them, and results are equal to the bit."""


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
        self.numbers: NDArray[np.float32] = whole[start : start + sum(room.values())]
        """All numbers; the gaps between the tensors are zero and stay it."""
        self.tensors: dict[str, NDArray[np.float32]] = {}
        """By name, views."""
        begin = 0
        for name, shape in shapes.items():
            self.tensors[name] = self.numbers[begin : begin + sizes[name]].reshape(shape)
            begin += room[name]
