"""Files that are written whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all."""
    _write_whole(path, json.dumps(value, indent=2) + "\n")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file with a JSON object a line whole or not at all."""
    _write_whole(path, "".join(json.dumps(row) + "\n" for row in rows))


def _write_whole(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


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
    """All complete lines of a file with a JSON object a line; a last line that was cut off is left out."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows
