"""Adapters of a user's own, named on the command line as MODULE:FACTORY."""

from __future__ import annotations

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
    from sami_runtime.errors import SamiError
    from sami_runtime.factories import call_factory, load_factory

    factory = load_factory(name, "adapter", "my_arm:make for make(clock) in my_arm.py")
    adapter: Adapter = call_factory(name, factory, clock, shown="clock")
    missing = [part for part in PARTS if getattr(adapter, part, None) is None]
    if missing:
        raise SamiError(
            f"{name}(clock) made a {type(adapter).__name__}, which lacks {', '.join(missing)}. An adapter has "
            f"{', '.join(PARTS)}; see docs/embedding.md."
        )
    return adapter


PARTS = ("observation", "action", "reset", "read", "write", "stop", "close")
"""What an adapter has."""
