"""Locks between processes: a file that one process at a time holds, and that its death sets free."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, busy: Exception | None = None) -> Iterator[None]:
    """Hold a lock within.

    Args:
        path: the file, made where there is none; it stays, and does not lock by being there.
        busy: raised where another process holds the lock; None waits until it does no more.
    """
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            if busy is None:
                raise
            raise busy from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def holder(path: Path) -> str:
    """Return who holds a lock, e.g. `process 4711 on ant`; empty where it is free."""
    if not path.is_file():
        return ""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read() or "another process"
    return ""
