"""What the machine gives this process."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores that this process may use; fewer than the machine has where it is confined to some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
