"""Documents that people write: TOML or JSON, read whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_document(path: Path, what: str) -> dict[str, Any]:
    """Return the table that a file holds, NAME.toml or NAME.json.

    Args:
        path: The file.
        what: What it should be, in the plural: `"limits"`.

    Raises:
        SamiError: The file cannot be read, or holds no table.
    """
    if path.suffix not in (".toml", ".json"):
        raise SamiError(f"{path} is no file of {what}; they are written as NAME.toml or NAME.json.")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise SamiError(f"{path} cannot be read: {told}. Give the path of a file of {what}.") from None
    try:
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise SamiError(f"{path} cannot be read: {error}. Write it as the documentation of {what} shows.") from None
    if not isinstance(document, dict):
        raise SamiError(f"{path} holds a {type(document).__name__}; expected a table of {what}.")
    return document
