"""Locks between processes: a file that one process at a time holds, and that its death sets free."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sami_train.files import writing


@contextmanager
def locked(path: Path, busy: Callable[[str], Exception] | None = None, *, leave: bool = True) -> Iterator[None]:
    """Hold a lock within.

    Args:
        path: the file, made where there is none; it does not lock by being there.
        busy: given who holds the lock, returns what is raised where another process does; None waits until it does
            no more.
        leave: whether the file stays afterwards.

    Raises:
        SamiError: the disk is full or must not be written to.
    """
    file = _held(path, busy)
    try:
        with suppress(OSError):  # on a full disk it holds all the same, and nobody is told who
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        if not leave:
            path.unlink(missing_ok=True)
        os.close(file)


def _held(path: Path, busy: Callable[[str], Exception] | None) -> int:
    """Return the descriptor of a file that this process has locked."""
    while True:
        with writing(path):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
            if os.path.exists(path) and os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except BlockingIOError as error:
            os.close(file)
            if busy is None:
                raise
            raise busy(holder(path) or "another process") from error
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # whoever held it before has removed the file: a lock on it keeps nobody out


def holder(path: Path) -> str:
    """Return who holds a lock, e.g. `process 4711 on ant`; empty where it is free."""
    try:
        with path.open(errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read(200) or "another process"
    except FileNotFoundError:
        pass
    return ""
