"""The numbers that a loop and its watchdog share: when the next beat is due, and what the watchdog did."""

from __future__ import annotations

import mmap
import time

DUE, FIRED, STOPPED, SEEN, STOPPING = range(5)
"""Index of each number, a time [ns] by `now`. The loop writes the first and the last, the watchdog the others:

when the next beat is due, `NEVER` in an episode that has not beaten yet, `TOLD` where somebody asks for the emergency
stop, and 0 while nothing is watched; when the
watchdog fired, 0 if it did not; when its emergency stop first came back, 0 if it did not; when it last looked; when
the robot's own `stop()` was called, 0 while it was not.
"""
NEVER, TOLD = 2**62, 1
SIZE = 5 * 8


def shared_numbers(descriptor: int) -> memoryview:
    """Return the int64 numbers that lie in a file's memory, without copying them.

    Each is read and written as one aligned word, so that nobody sees half of one.
    """
    return memoryview(mmap.mmap(descriptor, SIZE)).cast("q")


def now() -> int:
    """Return the time [ns] that all processes of this machine share; it goes on while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def clock_of(moment: int) -> str:
    """Return what a clock on the wall said at a time [ns] by `now`: `14:03:22.125`."""
    at = time.time() - 1e-9 * (now() - moment)
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(1e3 * (at % 1.0)):03d}"


def why_fired(instructed: bool, gone: bool, stopping: bool, within_s: float, stop_s: float) -> str:
    """Return why a watchdog fired, for both processes.

    Args:
        instructed: Whether somebody asked for the stop.
        gone: Whether the loop's process had ended.
        stopping: Whether the robot's own `stop()` was under way.
        within_s: Longest time [s] between two beats.
        stop_s: Longest time [s] of the robot's own `stop()`.
    """
    if gone:
        return "lost the loop's process"
    if instructed:
        return "was told to"
    return f"saw stop() take longer than {stop_s:g} s" if stopping else f"got no beat within {within_s:g} s"
