"""Suppress PyBullet's messages, which C code prints past Python's sys.stdout and sys.stderr."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def quiet_c_output() -> Iterator[None]:
    """Discard what C code prints inside the block; Python's exceptions propagate."""
    sys.stdout.flush()
    sys.stderr.flush()
    copies: dict[int, int] = {}
    with open(os.devnull, "wb") as nowhere:
        for descriptor in (1, 2):
            with suppress(OSError):  # the descriptor is closed, so nothing can be printed to it
                copies[descriptor] = os.dup(descriptor)
                os.dup2(nowhere.fileno(), descriptor)
    try:
        yield
    finally:
        # C has its own buffer: flush it before the descriptors are restored.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)
        for descriptor, copy in copies.items():
            os.dup2(copy, descriptor)
            os.close(copy)
