"""Python's search for garbage, kept out of the ticks of a loop."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def short_collections() -> Iterator[None]:
    """Within the block, search for garbage only among what is made in it.

    A search goes through all objects while the loop waits: 12 ms for those of this package alone, more than a tick at
    100 Hz. What is garbage already is collected before the block begins.
    """
    gc.collect()
    shared = gc.get_freeze_count() > 0  # somebody else has set objects aside: they stay so
    gc.freeze()
    try:
        yield
    finally:
        if not shared:
            gc.unfreeze()
