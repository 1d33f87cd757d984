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
from io import RawIOBase
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
"""What a disk says that is full, read-only or broken, or a limit of this process (`ulimit -f`)."""
ENDING = ".unfinished"
"""Of what is being made, see `unfinished`."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say which file it was that could not be written within.

    Raises:
        SamiError: the disk is full or must not be written to; its cause is the OSError.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        shown = path.with_name(path.name.partition(f".{platform.node()}-")[0]) if path.suffix == ENDING else path
        raise SamiError(
            f"{shown} cannot be written: {error.strerror}. Make room or choose another place; what was there is as it "
            "was."
        ) from error


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Make a file or folder that appears whole, or not at all; one that is there is replaced.

    Yields:
        Where to make it, beside `path` and for this process alone: nothing is there. What an error leaves there is
        removed, and so is what a process of this machine left that was killed.

    Raises:
        SamiError: the disk is full or must not be written to.
    """
    beside, aside = (
        path.with_name(f"{path.name}.{platform.node()}-{role}{os.getpid()}.unfinished") for role in ("", "old-")
    )
    for left in path.parent.glob(f"{glob.escape(path.name)}.{glob.escape(platform.node())}-*.unfinished"):
        if not _lives(left.name.removesuffix(".unfinished").rpartition("-")[2]):
            remove(left)
    try:
        with writing(path):
            yield beside
            _put_in_place(beside, path, aside)
    finally:
        remove(beside)
        remove(aside)


def _put_in_place(made: Path, path: Path, aside: Path) -> None:
    """Rename what was made. A folder that holds something cannot be replaced, and half removed it would look whole."""
    if made.is_dir() and path.exists():
        path.replace(aside)
    try:
        made.replace(path)
    except OSError:
        if aside.exists():
            aside.replace(path)
        raise


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


def remove(path: Path) -> None:
    """Remove a file or a folder; nothing where there is none."""
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


def append(file: RawIOBase, data: bytes) -> None:
    """Write all of some bytes at the end of a file, or none of them.

    Raises:
        OSError: the disk is full.
    """
    whole = file.seek(0, os.SEEK_END)
    try:
        done = 0
        while done < len(data):
            done += file.write(data[done:]) or 0
    except OSError:
        file.truncate(whole)  # half a line would swallow the next one
        raise


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        SamiError: it cannot be read or is none.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
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
