"""A robot on ROS 2: in a robot.toml, `adapter = "sami_runtime.robots.ros2:make"` and `settings = "arm.toml"`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sami_runtime.clock import Clock
    from sami_runtime.model.contract import Contract
    from sami_runtime.robots.ros2.adapter import Ros2Adapter


def make(clock: Clock, contract: Contract, config: dict[str, Any]) -> Ros2Adapter:
    """Join the topics of the robot of these settings, see docs/reference/ros2-settings.md; nothing is sent.

    Raises:
        AdapterError: The backend is not installed, or something does not match (all points listed).
    """
    from sami_runtime.robots.ros2.adapter import Ros2Adapter
    from sami_runtime.robots.ros2.settings import RosSettings

    return Ros2Adapter(clock, contract, RosSettings.of(config))


def emergency_stop() -> Callable[[], object]:
    """Return the emergency stop for a watchdog, which stops the robot by its own DDS participant.

    Before anything moves, the adapter passes it the message to send, and waits until it is able to send.
    """
    from sami_runtime.robots.ros2.command import LastStand

    return LastStand()


__all__ = ["emergency_stop", "make"]
