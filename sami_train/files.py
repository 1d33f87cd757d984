"""Files that are written whole or not at all, and file locks, which the system releases when their process dies."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import RawIOBase
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError
from sami_runtime.files import make_folder as make_folder
from sami_runtime.files import remove as remove
from sami_runtime.files import unfinished as unfinished
from sami_runtime.files import writing as writing


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all."""
    with unfinished(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file with a JSON object a line whole or not at all."""
    with unfinished(path) as temporary:
        temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def append(file: RawIOBase, data: bytes) -> None:
    """Append all of `data` to a file, or none of it where writing fails, as on a full disk (OSError)."""
    whole = file.seek(0, os.SEEK_END)
    try:
        count = 0
        while count < len(data):
            count += file.write(data[count:]) or 0
    except OSError:
        file.truncate(whole)  # the next line would be appended to half of this one
        raise


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise SamiError if the file cannot be read or holds anything else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SamiError(f"{path} cannot be read: {error}. Is it half written? Train again with a new --out.") from error
    if not isinstance(value, dict):
        raise SamiError(f"{path} holds a {type(value).__name__}; it must hold a JSON object.")
    return value


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file, one a line, up to the first broken line; [] where there is no file."""
    if not path.is_file():
        return []
    rows = []
    with path.open("rb") as file:
        for line in file:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not (isinstance(row, dict) and line.endswith(b"\n")):
                break
            rows.append(row)
    return rows


@contextmanager
def locked(path: Path, busy: Callable[[str], Exception] | None = None, *, leave: bool = True) -> Iterator[None]:
    """Hold a lock on a file, which is created if it is missing, during a `with` block; a file left over locks nothing.

    Args:
        path: the file.
        busy: takes the name of the process that holds the lock, returns the error to raise; None waits for the lock.
        leave: whether the file stays afterwards.
    """
    file = _lock(path, busy)
    try:
        with suppress(OSError):  # on a full disk the lock holds, too, but the file does not name its process
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        if not leave:
            path.unlink(missing_ok=True)
        os.close(file)


def _lock(path: Path, busy: Callable[[str], Exception] | None) -> int:
    """Return the descriptor of a file that this process has locked."""
    while True:
        with writing(path):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
            if os.path.exists(path) and os.path.samestat(os.fstat(file), os.stat(path)):
                return file
        except BaseException as error:
            os.close(file)
            if busy and isinstance(error, BlockingIOError):
                raise busy(holder(path) or "another process") from error
            raise
        os.close(file)  # the previous holder has removed this file, so that a lock on it would keep nobody out


def holder(path: Path) -> str:
    """Return the process that holds a lock, e.g. `process 4711 on ant`; empty where the lock is free."""
    with suppress(FileNotFoundError), path.open(errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read(200) or "another process"
    return ""
