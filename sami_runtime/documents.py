"""Documents that people write: TOML or JSON, read whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sami_runtime.errors import SamiError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
"""Largest document that is read: what people write has a few kB."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, for `object_pairs_hook`: of two values of one key, a person sees one and Python another.

    Raises:
        ValueError: A key comes twice.
    """
    table = dict(pairs)
    if len(table) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} comes twice")
    return table


def printable(text: str, allowed: str = "") -> str:
    """Return a text that a terminal shows and does not obey: what is not printed stands as Python writes it.

    Args:
        text: Any.
        allowed: Characters that stay, though they are not printed.
    """
    if text.isprintable():
        return text
    return "".join(c if c in allowed or c.isprintable() else ascii(c)[1:-1] for c in text)


def plain_strings(value: Any, allowed: str = "") -> Any:
    """Return a JSON value whose every text is printable; see `printable`."""
    if isinstance(value, str):
        return printable(value, allowed)
    if isinstance(value, dict):
        return {printable(key, allowed): plain_strings(item, allowed) for key, item in value.items()}
    return [plain_strings(item, allowed) for item in value] if isinstance(value, list) else value


def faults_of(error: ValidationError) -> str:
    """Return what is wrong with a document, key by key, for people."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg'][:1].lower()}{fault['msg'][1:]}"
        + ("" if fault["type"] in ("missing", "extra_forbidden") else f", and it is {fault['input']!r}")
        for fault in error.errors()
    )


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
        if not path.is_file() and path.exists():
            raise ValueError("it is no regular file")
        with path.open("rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise ValueError(f"it is larger than {MAX_DOCUMENT_BYTES} bytes")
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        raise SamiError(f"{path} cannot be read: {cause}. Give the path of a file of {what}.") from None
    try:
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise SamiError(f"{path} cannot be read: {error}. Write it as the documentation of {what} shows.") from None
    if not isinstance(document, dict):
        raise SamiError(f"{path} holds a {type(document).__name__}; expected a table of {what}.")
    return document
