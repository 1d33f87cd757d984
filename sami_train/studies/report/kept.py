"""Finished parts of a report on disk: what was measured once is read again, unless what it was measured of changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError
from sami_train.files import read_json, write_json

VERSION = 1
"""Of what the files hold; another one's are made anew."""


class Kept:
    """A folder of parts.

    Args:
        folder: made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def part(self, name: str, key: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """Return a part: read where it was made of the same, else made now and kept.

        Args:
            name: of the part.
            key: everything that it depends on, as plain values.
            make: makes it, as plain values.
        """
        path = self.folder / f"{name}.json"
        known = {"version": VERSION, **key}
        if path.is_file():
            try:
                document = read_json(path)
                if document["key"] == known:
                    return document["part"]
            except (SamiError, KeyError, TypeError):
                pass  # damaged: made anew
        made = make()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(path, {"key": known, "part": made})
        # As it will be read: tuples have become lists.
        return read_json(path)["part"]
