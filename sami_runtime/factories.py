"""Loads factories that users name as MODULE:FACTORY: of adapters, of fallbacks and of emergency stops."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError, SignalExit, UnknownName
from sami_runtime.user_code import module_of

PACKAGES = ("sami_runtime", "sami_train", "sami_cli")
"""The top-level packages of this project."""
_INSTALLED = tuple(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib", "platlib"))


def import_from_folder_of(path: Path) -> None:
    """Put a file's folder, then the current folder, first on `sys.path`, for modules that the file names."""
    for folder in (str(Path.cwd()), str(path.resolve().parent)):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def load_factory(name: str, kind: str, example: str, fits: Callable[[Any], bool] = callable) -> Callable[..., Any]:
    """Return the callable that `name`, MODULE:FACTORY, names; errors and other arguments as of `user_code.load_named`.

    If the module does not have it, the error lists the module's own values that `fits` accepts.
    """
    module, factory_name = module_of(name, kind, example, "FACTORY")
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        public = [(key, value) for key, value in vars(module).items() if not key.startswith("_")]
        local = [(key, value) for key, value in public if getattr(value, "__module__", None) == module.__name__]
        names = [key for key, value in local if fits(value)]
        raise UnknownName("factory", factory_name, names, f"{module.__name__} does not have it; e.g. {example}.")
    return factory


def call_factory(name: str, factory: Callable[..., Any], *arguments: Any, signature: str = "", **keywords: Any) -> Any:
    """Call a factory and return its result.

    Args:
        name: MODULE:FACTORY as the user gave it, for the message.
        factory: What `load_factory` returned.
        arguments: Its positional arguments.
        signature: The arguments' names, for the message.
        keywords: Its keyword arguments.

    Raises:
        SamiError: The factory raised; the message names the line of the user's own code.
    """
    try:
        return factory(*arguments, **keywords)
    except (SamiError, SignalExit):
        raise
    except (Exception, SystemExit) as error:
        raise SamiError(
            f"{name}({signature}) failed: {cause_of(error)}. Correct the factory or its settings."
        ) from error


def cause_of(error: BaseException) -> str:
    """Return an error's type and text, and `user_line` where it passed the user's own code."""
    where = f" ({line})" if (line := user_line(error)) else ""
    return f"{type(error).__name__}: {error}{where}"


def user_line(error: BaseException) -> str:
    """Return the last line of the user's own code that an error passed: `my_arm.py, line 12, in read`; else empty."""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code, package = frame.f_code, str(frame.f_globals.get("__name__")).partition(".")[0]
        is_users_code = os.path.isabs(code.co_filename) and not code.co_filename.startswith(_INSTALLED)
        if is_users_code and package not in PACKAGES:
            place = f"{os.path.basename(code.co_filename)}, line {line}, in {code.co_name}"
    return place
