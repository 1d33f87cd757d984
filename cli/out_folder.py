"""The folder that long measurements write what they found into."""

from __future__ import annotations

from pathlib import Path


def findings(folder: Path | None, name: str, force: bool, plot: bool = True) -> tuple[Path, Path] | None:
    """Where to write, the numbers (NAME.json) and the plot (NAME.png): refused now rather than after hours.

    Args:
        folder: made where it is missing; None writes nothing.
        name: of both files.
        force: replace files that are there.
        plot: whether there will be one.

    Raises:
        SamiError: a file is in the way.
        ModuleNotFoundError: what draws is not installed.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.files import require_output

    if folder is None:
        return None
    if folder.exists() and not folder.is_dir():
        raise SamiError(f"{folder} is a file; --out names a folder.")
    files = folder / f"{name}.json", folder / f"{name}.png"
    for path in files:
        require_output(path, force)
    if plot:
        import matplotlib  # noqa: F401

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SamiError(f"{folder} cannot be made: {error.strerror}. Choose another --out.") from None
    return files
