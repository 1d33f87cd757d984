"""A Franka FR3 over its own protocol: in a robot.toml, `adapter = "sami_runtime.robots.franka:make"`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError

if TYPE_CHECKING:
    from sami_runtime.clock import Clock
    from sami_runtime.model.contract import Contract
    from sami_runtime.robots.franka.adapter import FrankaAdapter

EXTRA = "franka"
"""Extra of the package that installs the libraries."""


def make(clock: Clock, contract: Contract, config: dict[str, Any]) -> FrankaAdapter:
    """Connect to the Franka FR3 of these settings, see docs/reference/franka-settings.md; nothing moves.

    Raises:
        AdapterError: A library is missing, the robot cannot be reached, or something does not match (all listed).
    """
    require_libraries()
    from sami_runtime.robots.franka.adapter import FrankaAdapter
    from sami_runtime.robots.franka.settings import FrankaSettings

    return FrankaAdapter(clock, contract, FrankaSettings.of(config))


def emergency_stop() -> Callable[[], object]:
    """Return the emergency stop for a watchdog: it stops the arm over its own socket to the arm's process.

    The arm's process also stops the arm by itself, `stale_s` after the last command; a watchdog can be quicker.
    """
    from sami_runtime.robots.franka.link import Ring

    return Ring()


def require_libraries() -> None:
    """Check that the libraries of the extra are installed.

    Raises:
        AdapterError: A library is missing; the message names it and the extra.
    """
    missing = [name for name in ("pylibfranka", "mink", "mujoco") if importlib.util.find_spec(name) is None]
    if missing:
        raise AdapterError(
            f"a Franka needs the package {' and '.join(missing)}, not installed here. Install it with: "
            f"{install_hint(EXTRA)}"
        )


__all__ = ["emergency_stop", "make"]
