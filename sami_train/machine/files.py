"""Files that are written whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Make a file or folder that appears whole, or not at all; one that is there is replaced.

    Yields:
        Where to make it, beside `path`: nothing is there. What an error leaves there is removed.
    """
    beside = path.with_name(path.name + ".unfinished")
    _remove(beside)  # of a process that was killed
    try:
        yield beside
        if beside.is_dir():
            _remove(path)  # a folder that holds something cannot be replaced at once
        beside.replace(path)
    finally:
        _remove(beside)


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
