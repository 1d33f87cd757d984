"""What the machine gives this process."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores that this process may use; fewer than the machine has where it is confined to some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_of_cores() -> int:
    """Cores for this process's threads: the usable ones, or fewer where OMP_NUM_THREADS says so."""
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(usable_cores(), max(1, int(limit))) if limit.isdecimal() else usable_cores()
