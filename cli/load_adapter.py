"""Adapters of a user's own, named on the command line as MODULE:FACTORY."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sami_runtime.adapters import Adapter
    from sami_runtime.clock import Clock
    from sami_runtime.model.contract import Contract
    from sami_runtime.safety.gate import Controller

HELP = "your robot, as MODULE:FACTORY; FACTORY(clock) of a module in this folder, or installed, makes its adapter."
CONFIG_HELP = "Settings for FACTORY(clock, config=...), as address, calibration, goal: NAME.toml or NAME.json."

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
    from sami_runtime.errors import SamiError
    from sami_runtime.factories import load_factory
    from sami_runtime.signals import Signal

    factory = load_factory(name, "adapter", "my_arm:make for make(clock) in my_arm.py")
    adapter: Adapter = _make(name, "an adapter", factory, clock, _keywords(name, factory, contract, config), PARTS)
    declared = (*adapter.observation, adapter.action) if isinstance(adapter.observation, (tuple, list)) else ("",)
    if not all(isinstance(signal, Signal) for signal in declared):
        raise SamiError(
            f"{name}(clock) made a {type(adapter).__name__} whose observation is {adapter.observation!r:.80} and whose "
            f"action is {adapter.action!r:.80}; they must be a tuple of Signals and a Signal; "
            "see docs/how-to/write-an-adapter.md."
        )
    return adapter


def load_fallback(name: str, clock: Clock, contract: Contract, config: Settings | None = None) -> Controller:
    """Make a fallback controller, as an adapter is made; one that takes no settings is not given the adapter's.

    Raises:
        SamiError, UnknownName: as of `load_adapter`.
    """
    from sami_runtime.factories import load_factory

    factory = load_factory(name, "fallback", "my_arm:retreat for retreat(clock) in my_arm.py")
    keywords = _keywords(name, factory, contract, config, shared=True)
    fallback: Controller = _make(name, "a fallback", factory, clock, keywords, ("reset", "act"))
    return fallback


def read_settings(path: Path | None) -> Settings | None:
    """Return what `--adapter-config` holds.

    Raises:
        SamiError: the file cannot be read.
    """
    from sami_runtime.files import read_document

    return None if path is None else read_document(path, "settings")


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
    takes = {arg.name: arg for arg in declared if arg.kind in (arg.POSITIONAL_OR_KEYWORD, arg.KEYWORD_ONLY)}
    anything = any(arg.kind is arg.VAR_KEYWORD for arg in declared)
    if config is None and "config" in takes and takes["config"].default is inspect.Parameter.empty:
        raise SamiError(
            f"{name} takes settings (config), and none were given. Give them by settings in the robot's file, or with "
            "--adapter-config."
        )
    if config is not None and not ("config" in takes or anything or shared):
        raise SamiError(
            f"{name} takes no settings, and some were given. Declare them, as in make(clock, config), or leave out "
            "settings in the robot's file, or --adapter-config."
        )
    keywords = {"contract": contract, "config": config}
    return {key: value for key, value in keywords.items() if value is not None and (key in takes or anything)}


def _make(
    name: str, what: str, factory: Callable[..., Any], clock: Clock, keywords: Settings, parts: Sequence[str]
) -> Any:
    """Return what a factory makes, if it has the parts of what it should be."""
    from sami_runtime.errors import SamiError
    from sami_runtime.factories import call_factory

    made = call_factory(name, factory, clock, shown="clock", **keywords)
    missing = [part for part in parts if getattr(made, part, None) is None]
    if missing:
        raise SamiError(
            f"{name}(clock) made a {type(made).__name__}, which lacks {', '.join(missing)}. {what.capitalize()} has "
            f"{', '.join(parts)}; see docs/how-to/write-an-adapter.md."
        )
    return made


PARTS = ("observation", "action", "reset", "read", "write", "stop", "close")
"""What an adapter has."""
