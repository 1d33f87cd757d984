"""Keeps short what interrupts the ticks of a loop: garbage collections, and the turns of other threads."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def short_pauses() -> Iterator[None]:
    """Within the block, the garbage collector examines only new objects, and threads take turns of half a millisecond.

    A collection of all objects takes 12 ms for those of this package alone, more than a tick at 100 Hz; by Python's
    turns of 5 ms, ticks began 11 ms late while another thread loaded a model. Existing garbage is collected before.
    """
    gc.collect()
    shared = gc.get_freeze_count() > 0  # another part of the program froze objects: leave them frozen at the end
    turn = sys.getswitchinterval()
    gc.freeze()
    sys.setswitchinterval(min(turn, 0.0005))
    try:
        yield
    finally:
        sys.setswitchinterval(turn)
        if not shared:
            gc.unfreeze()
