"""A Unitree Go2 by its low-level interface: in a robot.toml, `adapter = "sami_runtime.robots.unitree:make"`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError

if TYPE_CHECKING:
    from sami_runtime.clock import Clock
    from sami_runtime.model.contract import Contract
    from sami_runtime.robots.unitree.adapter import UnitreeAdapter

EXTRA = "unitree"
"""Extra of the package that installs the library."""


def make(clock: Clock, contract: Contract, config: dict[str, Any] | None = None) -> UnitreeAdapter:
    """Connect to the robot of these settings, see docs/how-to/unitree.md; nothing is sent.

    Raises:
        AdapterError: The library is not installed, or something does not match (all points listed).
    """
    _require_library()
    from sami_runtime.robots.unitree.adapter import UnitreeAdapter
    from sami_runtime.robots.unitree.settings import UnitreeSettings

    return UnitreeAdapter(clock, contract, UnitreeSettings.of(config or {}))


def emergency_stop() -> Callable[[], object]:
    """Return the emergency stop for a watchdog, which damps the robot's motors by its own DDS participant."""
    _require_library()
    from sami_runtime.robots.unitree.stop import EmergencyDamping

    return EmergencyDamping()


def _require_library() -> None:
    if importlib.util.find_spec("cyclonedds") is None:
        raise AdapterError(f"a Go2 needs the package cyclonedds, not installed here: {install_hint(EXTRA)}")


__all__ = ["emergency_stop", "make"]
