"""What users name as MODULE:NAME: their environments, and, see `factories`, what makes their adapters."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from sami_runtime.errors import SamiError, UnknownName, in_shell

_named: frozenset[str] | None = None
"""Names that a user gave, where files are read that name code, too; None where a program names what it imports."""


@contextmanager
def only_named(names: Iterable[str]) -> Iterator[None]:
    """Import no environment meanwhile but those of these names: what only a file names is refused.

    Every command of `sami` runs within it, with the names of `--env`. It is for the whole process.
    """
    global _named
    before, _named = _named, frozenset(names)
    try:
        yield
    finally:
        _named = before


def require_named(name: str, kind: str, source: str = "a file") -> None:
    """Raise SamiError where only a file names some code and no user did; see `only_named`."""
    if _named is None or name in _named:
        return
    option = f"--env {in_shell(name)}" if name.isprintable() else "--env and that name"
    place = ", in the folder from which that is its path" if name.endswith(".toml") else ""
    raise SamiError(
        f"{source} names the {kind} {name!r}, which is code, and code that only a file names is not imported. Add "
        f"{option} if you trust it{place}; a model also runs in another environment with the same signals, named by "
        "--env."
    )


def load_named(name: str, kind: str, example: str) -> Any:
    """Return `OBJECT` of `MODULE`, which may lie in the current folder.

    Args:
        name: MODULE:OBJECT, e.g. `my_robots:ARM`.
        kind: What it is, for messages: `"environment"`.
        example: What to write instead of a name that is none.

    Raises:
        SamiError: It is no such name, or the module cannot be imported.
        UnknownName: The module has nothing of that name.
    """
    module, object_name = module_of(name, kind, example, "OBJECT")
    if not hasattr(module, object_name):
        names = [key for key in vars(module) if not key.startswith("_")]
        raise UnknownName(kind, object_name, names, f"{module.__name__} does not have it.")
    return getattr(module, object_name)


def module_of(name: str, kind: str, example: str, attribute: str) -> tuple[ModuleType, str]:
    """Return the module of MODULE:NAME, and the name; arguments and errors as of `load_named`, `what` is NAME's."""
    module_name, _, object_name = name.partition(":")
    if not (module_name and object_name):
        raise SamiError(f"the {kind} is {name!r}; write MODULE:{attribute}, e.g. {example}.")
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(module_name), object_name
    except (Exception, SystemExit) as error:
        if not isinstance(error, ModuleNotFoundError):
            advice = "Correct the module."
        elif module_name.endswith(".py"):
            advice = f"Leave out .py: {module_name.removesuffix('.py')}."
        elif error.name == module_name:
            advice = "It must be installed, or a .py file in the current folder."
        else:
            advice = f"Install {error.name}, which it needs."
        cause = f"{type(error).__name__}: {error}. {advice}"
        raise SamiError(f"{module_name} of {name} cannot be imported: {cause}") from error
