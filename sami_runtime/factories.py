"""What users name as MODULE:NAME: their adapters, their environments, what stops their robot in an emergency."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from sami_runtime.errors import SamiError, UnknownName

PACKAGES = ("sami_runtime", "sami_train", "sami_cli")
"""What of this project is imported."""
_INSTALLED = tuple(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib", "platlib"))

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


def require_named(name: str, kind: str, who: str = "a file") -> None:
    """Raise SamiError where only a file names some code and no user did; see `only_named`."""
    if _named is None or name in _named:
        return
    option = f"--env {shlex.quote(name)}" if name.isprintable() else "--env and that name"
    raise SamiError(
        f"{who} names the {kind} {name!r}, which is code, and code that only a file names is not imported. Add "
        f"{option} if you trust it; a model also runs in another environment with the same signals, named by --env."
    )


def look_beside(path: Path) -> None:
    """Find modules in the folder of a file first, and in the current one: the file names them, MODULE:NAME."""
    for folder in (str(Path.cwd()), str(path.resolve().parent)):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


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
    module, object_name = _module_of(name, kind, example, "OBJECT")
    if not hasattr(module, object_name):
        names = [key for key in vars(module) if not key.startswith("_")]
        raise UnknownName(kind, object_name, names, f"{module.__name__} does not have it.")
    return getattr(module, object_name)


def load_factory(name: str, kind: str, example: str) -> Callable[..., Any]:
    """Return `FACTORY` of `MODULE`, something to call; see `load_named`."""
    module, factory_name = _module_of(name, kind, example, "FACTORY")
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        callables = [(key, value) for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        names = [key for key, value in callables if getattr(value, "__module__", None) == module.__name__]
        raise UnknownName("factory", factory_name, names, f"{module.__name__} does not have it.")
    return factory


def call_factory(name: str, factory: Callable[..., Any], *arguments: Any, shown: str = "", **keywords: Any) -> Any:
    """Return what a factory makes.

    Args:
        name: As the user gave it.
        factory: What `load_factory` returned.
        arguments: What it is called with.
        shown: The arguments' names, for the message.
        keywords: What it is called with by name.

    Raises:
        SamiError: It failed.
    """
    try:
        return factory(*arguments, **keywords)
    except SamiError:
        raise
    except (Exception, SystemExit) as error:
        where = f" ({line})" if (line := own_line(error)) else ""
        raise SamiError(
            f"{name}({shown}) failed: {type(error).__name__}: {error}{where}. Correct it, or what it needs."
        ) from error


def own_line(error: BaseException) -> str:
    """Return where in code of a user's own an error came up: `my_arm.py, line 12, in read`; empty where it did not."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code, package = frame.f_code, str(frame.f_globals.get("__name__")).partition(".")[0]
        is_users_code = os.path.isabs(code.co_filename) and not code.co_filename.startswith(_INSTALLED)
        if is_users_code and package not in PACKAGES:
            place = f"{os.path.basename(code.co_filename)}, line {line}, in {code.co_name}"
    return place


def _module_of(name: str, kind: str, example: str, what: str) -> tuple[ModuleType, str]:
    """Return the module of MODULE:NAME, and the name."""
    module_name, _, object_name = name.partition(":")
    if not (module_name and object_name):
        raise SamiError(f"the {kind} is {name!r}; write MODULE:{what}, e.g. {example}.")
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
