"""The numbers that a loop and its watchdog share: when the next beat is due, and what the watchdog did."""

from __future__ import annotations

import mmap
import time

DUE, FIRED, STOPPED, SEEN = range(4)
"""Index of each number, a time [ns] by `now`. The loop writes the first, the watchdog the others:

when the next beat is due, `NEVER` in an episode that has not beaten yet, and 0 while nothing is watched; when the
watchdog fired, 0 if it did not; when its emergency stop first came back, 0 if it did not; when it last looked.
"""
NEVER = 2**62
SIZE = 4 * 8


def shared_numbers(descriptor: int) -> memoryview:
    """Return the four int64 that lie in a file's memory, without copying them.

    Each is read and written as one aligned word, so that nobody sees half of one.
    """
    return memoryview(mmap.mmap(descriptor, SIZE)).cast("q")


def now() -> int:
    """Return the time [ns] that all processes of this machine share; it goes on while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
