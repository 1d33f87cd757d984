"""Adapters of a user's own, named on the command line as MODULE:FACTORY."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sami_runtime.adapters import Adapter
    from sami_runtime.clock import Clock
    from sami_runtime.model.contract import Contract
    from sami_runtime.safety.controller import Controller

HELP = "your robot, as MODULE:FACTORY; FACTORY(clock) of a module in this folder, or installed, makes its adapter."
CONFIG_HELP = "Settings for FACTORY(clock, config=...), as address, calibration, goal: NAME.toml or NAME.json."
FALLBACK_HELP = "Acts where the policy was held too long; FACTORY(clock) makes it: reset() and act(observation, now)."

Settings = dict[str, Any]


def load_adapter(name: str, clock: Clock, contract: Contract, config: Settings | None = None) -> Adapter:
    """Make an adapter by calling `FACTORY(clock)` of `MODULE`, which may lie in the current folder.

    A factory that declares `contract` or `config` is given them by keyword.

    Args:
        name: MODULE:FACTORY, e.g. `my_arm:make`.
        clock: the loop's; the adapter stamps its observations with it.
        contract: of the model that is to drive.
        config: the user's settings; None where there are none.

    Raises:
        SamiError: the module cannot be imported, the factory fails or makes no adapter, or it takes no settings and
            they were given, or the other way round.
        UnknownName: the module has no such factory.
    """
    factory = _load_factory(name, "adapter", "my_arm:make for make(clock) in my_arm.py")
    adapter: Adapter = _make(name, "an adapter", factory, clock, _keywords(name, factory, contract, config), PARTS)
    return adapter


def load_fallback(name: str, clock: Clock, contract: Contract, config: Settings | None = None) -> Controller:
    """Make a fallback controller, as an adapter is made; one that takes no settings is not given the adapter's.

    Raises:
        SamiError, UnknownName: as of `load_adapter`.
    """
    factory = _load_factory(name, "fallback", "my_arm:retreat for retreat(clock) in my_arm.py")
    keywords = _keywords(name, factory, contract, config, shared=True)
    fallback: Controller = _make(name, "a fallback", factory, clock, keywords, ("reset", "act"))
    return fallback


def read_settings(path: Path | None) -> Settings | None:
    """Return what `--adapter-config` holds.

    Raises:
        SamiError: the file cannot be read.
    """
    from sami_runtime.documents import read_document

    return None if path is None else read_document(path, "settings")


def _load_factory(name: str, kind: str, example: str) -> Callable[..., Any]:
    """Return FACTORY of MODULE."""
    from sami_runtime.errors import SamiError, UnknownName

    module_name, colon, factory_name = name.partition(":")
    if not (module_name and colon and factory_name):
        raise SamiError(f"the {kind} is {name!r}; write MODULE:FACTORY, e.g. {example}.")
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
    return factory


def _keywords(
    name: str, factory: Callable[..., Any], contract: Contract, config: Settings | None, shared: bool = False
) -> dict[str, Any]:
    """Return what of contract and settings a factory takes by keyword, beside the clock.

    Raises:
        SamiError: it needs settings and there are none, or takes none and they are not `shared` with another one.
    """
    from sami_runtime.errors import SamiError

    try:
        _, *declared = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # it takes nothing, or does not tell
        declared = []
    takes = {each.name: each for each in declared if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    anything = any(each.kind is each.VAR_KEYWORD for each in declared)
    if config is None and "config" in takes and takes["config"].default is inspect.Parameter.empty:
        raise SamiError(f"{name} takes settings (config), and none were given. Give a file with --adapter-config.")
    if config is not None and not ("config" in takes or anything or shared):
        raise SamiError(
            f"{name} takes no settings, and --adapter-config was given. Declare them, as in make(clock, config), or "
            "leave the option out."
        )
    given = {"contract": contract, "config": config}
    return {key: value for key, value in given.items() if value is not None and (key in takes or anything)}


def _make(
    name: str, what: str, factory: Callable[..., Any], clock: Clock, keywords: Settings, parts: Sequence[str]
) -> Any:
    """Return what a factory makes, if it has the parts of what it should be."""
    from sami_runtime.errors import SamiError

    try:
        made = factory(clock, **keywords)
    except SamiError:
        raise
    except (Exception, SystemExit) as error:
        raise SamiError(
            f"{name}(clock) failed: {type(error).__name__}: {error}. Correct it, or what it needs."
        ) from error
    missing = [part for part in parts if getattr(made, part, None) is None]
    if missing:
        raise SamiError(
            f"{name}(clock) made a {type(made).__name__}, which lacks {', '.join(missing)}. {what.capitalize()} has "
            f"{', '.join(parts)}; see docs/embedding.md."
        )
    return made


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
