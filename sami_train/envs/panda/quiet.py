"""Keep PyBullet's chatter out of the output: it prints from C, past Python's sys.stdout and sys.stderr."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def quiet_c_output() -> Iterator[None]:
    """Discard what C code prints inside the block. Python's exceptions pass as always."""
    sys.stdout.flush()
    sys.stderr.flush()
    copies: dict[int, int] = {}
    with open(os.devnull, "wb") as nowhere:
        for descriptor in (1, 2):
            with suppress(OSError):  # closed: there is nothing to protect
                copies[descriptor] = os.dup(descriptor)
                os.dup2(nowhere.fileno(), descriptor)
    try:
        yield
    finally:
        # C keeps a buffer of its own; what is in it must go before the descriptors come back.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)
        for descriptor, copy in copies.items():
            os.dup2(copy, descriptor)
            os.close(copy)
