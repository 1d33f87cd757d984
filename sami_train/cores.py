"""What the machine gives this process."""

from __future__ import annotations

import os
from contextlib import contextmanager
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
