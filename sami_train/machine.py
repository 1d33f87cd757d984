"""What the machine gives this process: cores, and signals that ask it to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def usable_cores() -> int:
    """Cores that this process may use; fewer than the machine has where it is confined to some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_of_cores() -> int:
    """Cores for this process's threads: the usable ones, or fewer where OMP_NUM_THREADS says so."""
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(usable_cores(), max(1, int(limit))) if limit.isdecimal() else usable_cores()


@contextmanager
def one_thread() -> Any:
    """Have processes started inside use one thread for linear algebra: they share the machine with the learner.

    From Python 3.11 on they also import nothing from the current folder before they have this process's path.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONSAFEPATH")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def on_signals(handler: Callable[[int, FrameType | None], Any] | signal.Handlers, *numbers: int) -> Iterator[None]:
    """Have a handler hear some signals within; afterwards, what heard them before hears them again.

    Args:
        handler: called with the signal's number and the frame that it interrupted, or SIG_IGN: processes started
            within then ignore the signals too, until they decide otherwise.
        numbers: of the signals.
    """
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
