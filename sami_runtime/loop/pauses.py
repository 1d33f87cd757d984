"""Keeps short what interrupts the ticks of a loop: garbage collections, and the turns of other threads."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_open, _before = 0, (0.0, False)  # number of open blocks; turn [s], and whether objects were frozen, before the first


@contextmanager
def short_pauses() -> Iterator[None]:
    """Within the block, the garbage collector examines only new objects, and threads take turns of half a millisecond.

    A collection of all objects takes 12 ms for those of this package alone, more than a tick at 100 Hz; by Python's
    turns of 5 ms, ticks began 11 ms late while another thread loaded a model. Existing garbage is collected before.
    """
    global _open, _before
    with _lock:
        turn, frozen = sys.getswitchinterval(), gc.get_freeze_count() > 0  # another part may have frozen objects
        _open, _before = _open + 1, _before if _open else (turn, frozen)
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(min(turn, 0.0005))
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if not _open:  # else another run goes on
                sys.setswitchinterval(_before[0])
                if not _before[1]:
                    gc.unfreeze()
