"""Files that are written whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError
from sami_runtime.files import remove, unfinished, writing

__all__ = (
    "append",
    "read_json",
    "read_json_lines",
    "remove",
    "unfinished",
    "write_json",
    "write_json_lines",
    "writing",
)


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
