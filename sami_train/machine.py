"""The machine as this process sees it: usable cores, and signals that ask the process to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any


def usable_cores() -> int:
    """Return how many cores this process may use: an affinity mask can leave fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_of_cores() -> int:
    """Cores for this process's threads: the usable ones, or fewer where OMP_NUM_THREADS says so."""
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(usable_cores(), max(1, int(limit))) if limit.isdecimal() else usable_cores()


@contextmanager
def one_thread() -> Any:
    """Give processes that start inside the block one thread for linear algebra: they share the cores with the learner.

    A terminal's Ctrl-C, which would end them with tracebacks, is blocked in them. From Python 3.11 on they also import
    nothing from the current folder until they have this process's `sys.path`.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONSAFEPATH")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    resource_tracker.ensure_running()  # with the first process, it would unblock the signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def on_stop_signals(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Within the block, Ctrl-C, SIGTERM and a closed terminal (SIGHUP) call `handler` with number and frame.

    SIGHUP stays ignored where it is, as under `nohup`. The previous handlers return afterwards.
    """
    hangup = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, *hangup)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
