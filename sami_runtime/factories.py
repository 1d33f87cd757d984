"""What makes the adapters of users, their fallbacks and what stops their robot in an emergency: MODULE:FACTORY."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.user_code import module_of

PACKAGES = ("sami_runtime", "sami_train", "sami_cli")
"""What of this project is imported."""
_INSTALLED = tuple(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib", "platlib"))


def look_beside(path: Path) -> None:
    """Find modules in the folder of a file first, and in the current one: the file names them, MODULE:NAME."""
    for folder in (str(Path.cwd()), str(path.resolve().parent)):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def load_factory(name: str, kind: str, example: str) -> Callable[..., Any]:
    """Return `FACTORY` of `MODULE`, something to call; see `load_named`."""
    module, factory_name = module_of(name, kind, example, "FACTORY")
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
