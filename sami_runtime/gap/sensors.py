"""Sensors that tell something else than what is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


@dataclass
class _Sticking:
    """When one signal's sensor says the same again and again."""

    where: slice
    first: int
    """Tick whose value it keeps."""
    end: int
    """Tick from which it works again."""
    value: Array | None = None
