"""Adapters of a user's own, named on the command line as MODULE:FACTORY."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_runtime.adapters import Adapter
    from sami_runtime.clock import Clock

HELP = "your robot, as MODULE:FACTORY; FACTORY(clock) of a module in this folder, or installed, makes its adapter."


def load_adapter(name: str, clock: Clock) -> Adapter:
    """Make an adapter by calling `FACTORY(clock)` of `MODULE`, which may lie in the current folder.

    Args:
        name: MODULE:FACTORY, e.g. `my_arm:make`.
        clock: the loop's; the adapter stamps its observations with it.

    Raises:
        SamiError: the module cannot be imported, or the factory fails or makes no adapter.
        UnknownName: the module has no such factory.
    """
    from sami_runtime.errors import SamiError, UnknownName

    module_name, colon, factory_name = name.partition(":")
    if not (module_name and colon and factory_name):
        raise SamiError(
            f"the adapter is {name!r}; write MODULE:FACTORY, e.g. my_arm:make for make(clock) in my_arm.py."
        )
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {error}. {_advice(module_name, error)}"
        raise SamiError(f"{module_name} of {name} cannot be imported: {told}") from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        own = [(key, value) for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        valid = [key for key, value in own if getattr(value, "__module__", None) == module.__name__]
        raise UnknownName("factory", factory_name, valid, f"{module_name} does not have it.")
    try:
        adapter: Adapter = factory(clock)
    except SamiError:
        raise
    except (Exception, SystemExit) as error:
        raise SamiError(
            f"{name}(clock) failed: {type(error).__name__}: {error}. Correct it, or what it needs."
        ) from error
    missing = [part for part in PARTS if getattr(adapter, part, None) is None]
    if missing:
        raise SamiError(
            f"{name}(clock) made a {type(adapter).__name__}, which lacks {', '.join(missing)}. An adapter has "
            f"{', '.join(PARTS)}; see docs/embedding.md."
        )
    return adapter


def _advice(module_name: str, error: BaseException) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return "Correct the module."
    if module_name.endswith(".py"):
        return f"Leave out .py: {module_name.removesuffix('.py')}."
    if error.name == module_name:
        return "It must be installed, or a .py file in the current folder."
    return f"Install {error.name}, which it needs."


PARTS = ("observation", "action", "reset", "read", "write", "stop", "close")
"""What an adapter has."""
