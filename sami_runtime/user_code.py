"""Loads Python objects that users name as MODULE:NAME, such as environments; `factories` loads callables."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from sami_runtime.errors import SamiError, SignalExit, UnknownName, in_shell

_files: frozenset[Path] | None = None
"""Names of code that the user gave, as paths: `./arm.toml` is `arm.toml`. Only they may be imported. None, as in a
program of one's own, allows all names."""


@contextmanager
def only_named(names: Iterable[str]) -> Iterator[None]:
    """Within the block, `require_named` accepts only these names of code; it refuses names that only a file gives.

    Every command of `sami` runs inside this block, with the names of `--env`. It applies to the whole process.
    """
    global _files
    before, _files = _files, frozenset(Path(name).absolute() for name in names)
    try:
        yield
    finally:
        _files = before


def require_named(name: str, source: str = "a file", advice: str = "") -> None:
    """Raise SamiError if a file names this environment's code and the user did not; see `only_named`."""
    if _files is None or Path(name).absolute() in _files:
        return
    option = f"--env {in_shell(name)}" if name.isprintable() else "--env and that name"
    place = ", in the folder from which that is its path" if name.endswith(".toml") else ""
    raise SamiError(
        f"{source} names the environment {name!r}, which is code, and code that only a file names is not imported. Add "
        f"{option} if you trust it{place}{advice}."
    )


def load_named(name: str, kind: str, example: str) -> Any:
    """Import `MODULE`, also from the current folder, and return its `OBJECT`.

    Args:
        name: MODULE:OBJECT, e.g. `my_robots:ARM`.
        kind: What the object is, for messages: `"environment"`.
        example: A valid name, for messages.

    Raises:
        SamiError: The name has no colon, or the module cannot be imported.
        UnknownName: The module has no object of that name.
    """
    module, object_name = module_of(name, kind, example, "OBJECT")
    if not hasattr(module, object_name):
        names = [key for key in vars(module) if not key.startswith("_")]
        raise UnknownName(kind, object_name, names, f"{module.__name__} does not have it.")
    return getattr(module, object_name)


def module_of(name: str, kind: str, example: str, attribute: str) -> tuple[ModuleType, str]:
    """Return the imported module of MODULE:NAME, and NAME, which the message calls `attribute`; see `load_named`."""
    module_name, _, object_name = name.partition(":")
    if not (module_name and object_name):
        raise SamiError(f"the {kind} is {name!r}; write MODULE:{attribute}, e.g. {example}.")
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(module_name), object_name
    except SignalExit:
        raise
    except (Exception, SystemExit) as error:
        if not isinstance(error, ModuleNotFoundError):
            advice = "Correct the module."
        elif module_name.endswith(".py"):
            advice = f"Leave out .py: {module_name.removesuffix('.py')}."
        elif error.name == module_name:
            advice = "It must be installed, or a .py file in the current folder."
        else:
            advice = f"Install {error.name}, which it needs."
        cause = f"{type(error).__name__}: {str(error).rstrip('.')}. {advice}"
        raise SamiError(f"{module_name} of {name} cannot be imported: {cause}") from error
