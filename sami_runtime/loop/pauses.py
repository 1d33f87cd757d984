"""Keeps short what interrupts the ticks of a loop: garbage collections, and the turns of other threads."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_before: list[tuple[float, bool]] = []
"""Turn [s] of the interpreter, and whether objects were frozen, before the first of the open blocks; once for each."""


@contextmanager
def short_pauses() -> Iterator[None]:
    """Within the block, the garbage collector examines only new objects, and threads take turns of half a millisecond.

    A collection of all objects takes 12 ms for those of this package alone, more than a tick at 100 Hz; by Python's
    turns of 5 ms, ticks began 11 ms late while another thread loaded a model. Existing garbage is collected before.
    """
    with _lock:
        now = sys.getswitchinterval(), gc.get_freeze_count() > 0  # another part of the program may have frozen objects
        _before.append(_before[0] if _before else now)
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(min(now[0], 0.0005))
    try:
        yield
    finally:
        with _lock:
            turn, frozen = _before.pop()
            if not _before:  # else another run goes on
                sys.setswitchinterval(turn)
                if not frozen:
                    gc.unfreeze()
