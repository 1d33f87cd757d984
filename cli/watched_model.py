"""A model file that may be replaced while it drives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_runtime.run import Run


class WatchedModel:
    """Gives a run the file anew when it has changed on disk.

    Args:
        path: The file, as it was loaded.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, _stamp(path)

    def take_over(self, run: Run) -> str:
        """Let a file that has changed drive from the next episode on, and say so; or why not. Nothing if it has not.

        A file that is refused, such as one that is still being written, is tried again when it has changed again.
        """
        from sami_runtime.errors import SamiError

        stamp = _stamp(self._path)
        if stamp in (None, self._seen):
            return ""
        self._seen = stamp
        try:
            taken = run.swap(self._path)
        except SamiError as error:
            return f"{self._path} has changed and is not taken; the model that drove goes on: {error}"
        return f"{self._path} has changed: the next episode is driven by weights {taken.weights_sha256[:12]}"


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file, also where another one takes its name; None while there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
