"""A robot of LeRobot: in a robot.toml, `adapter = "sami_runtime.robots.lerobot:make"` and a table `settings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sami_runtime.clock import Clock
    from sami_runtime.model.contract import Contract
    from sami_runtime.robots.lerobot.adapter import LeRobotAdapter


def make(clock: Clock, contract: Contract, config: dict[str, Any]) -> LeRobotAdapter:
    """Connect the robot of these settings, see docs/how-to/lerobot.md, if everything matches; no action is sent.

    Raises:
        AdapterError: Something does not match (all points listed); the robot does not connect, or is not calibrated;
            LeRobot is not installed.
        UnknownName: LeRobot has no robot of this type.
    """
    from sami_runtime.robots.lerobot.adapter import LeRobotAdapter
    from sami_runtime.robots.lerobot.library import robot_of
    from sami_runtime.robots.lerobot.settings import LeRobotSettings

    settings = LeRobotSettings.of(config)
    return LeRobotAdapter(clock, contract, settings, robot_of(settings))


__all__ = ["make"]
