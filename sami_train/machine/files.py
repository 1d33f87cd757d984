"""Files that are written whole."""

from __future__ import annotations

import errno
import glob
import json
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
"""What a disk says that is full, read-only or broken."""


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Make a file or folder that appears whole, or not at all; one that is there is replaced.

    Yields:
        Where to make it, beside `path` and for this process alone: nothing is there. What an error leaves there is
        removed, and so is what a process of this machine left that was killed.

    Raises:
        SamiError: the disk is full or must not be written to.
    """
    beside = path.with_name(f"{path.name}.{platform.node()}-{os.getpid()}.unfinished")
    for left in path.parent.glob(f"{glob.escape(path.name)}.{glob.escape(platform.node())}-*.unfinished"):
        if not _lives(left.name.removesuffix(".unfinished").rpartition("-")[2]):
            _remove(left)
    try:
        yield beside
        if beside.is_dir():
            _remove(path)  # a folder that holds something cannot be replaced at once
        beside.replace(path)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise SamiError(
            f"{path} cannot be written: {error.strerror}. Make room or choose another place; what was there is as it "
            "was."
        ) from error
    finally:
        _remove(beside)


def _lives(process: str) -> bool:
    """Whether a process of this machine is there, by its number; not this one, which is only beginning."""
    if not process.isdigit() or int(process) == os.getpid():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all."""
    _write_whole(path, json.dumps(value, indent=2) + "\n")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file with a JSON object a line whole or not at all."""
    _write_whole(path, "".join(json.dumps(row) + "\n" for row in rows))


def _write_whole(path: Path, text: str) -> None:
    with unfinished(path) as beside:
        beside.write_text(text, encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        SamiError: it cannot be read or is none.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SamiError(
            f"{path} cannot be read: {error}. Was it half written? Train again with a new --out."
        ) from error
    if not isinstance(value, dict):
        raise SamiError(f"{path} holds a {type(value).__name__}; it must hold a JSON object.")
    return value


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return all complete lines of a file with a JSON object a line; a last line that was cut off is left out."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows
