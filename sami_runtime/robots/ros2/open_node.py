"""Opens a node of ROS 2, with Cyclone DDS or with the rclpy of a sourced workspace."""

from __future__ import annotations

import importlib.util
import os

from sami_runtime.clock import Clock
from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError
from sami_runtime.robots.ros2.node import Node

EXTRA = "ros2"
"""Extra of the package that installs the default backend."""


def open_node(backend: str, domain: int | None, clock: Clock) -> Node:
    """Return a new participant.

    Args:
        backend: `"cyclonedds"`, `"rclpy"`, or `"auto"`: rclpy if it can be imported, as in a sourced workspace.
        domain: Of ROS; if None, ROS_DOMAIN_ID, else 0.
        clock: The loop's clock, for the times of receipt.

    Raises:
        AdapterError: The backend is not installed, or the domain is invalid or cannot be entered.
    """
    installed = {name: importlib.util.find_spec(name) is not None for name in ("cyclonedds", "rclpy")}
    package = ("rclpy" if installed["rclpy"] else "cyclonedds") if backend == "auto" else backend
    if not installed[package]:
        remedy = (
            "Source a ROS 2 workspace, or take backend = 'cyclonedds'"
            if package == "rclpy"
            else f"Install it with: {install_hint(EXTRA)}"
        )
        raise AdapterError(f"ROS 2 needs the package {package}, not installed here. {remedy}")
    number = domain_of(domain)
    if package == "rclpy":
        from sami_runtime.robots.ros2.rclpy_node import RclpyNode

        return RclpyNode(number, clock)
    from sami_runtime.robots.ros2.dds_node import DdsNode

    return DdsNode(number, clock)


def domain_of(number: int | None) -> int:
    """Return the number of the domain; if it is None, that of ROS_DOMAIN_ID, else 0.

    Raises:
        AdapterError: ROS_DOMAIN_ID is no number from 0 to 232.
    """
    if number is not None:
        return number
    text = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not text.isdigit() or int(text) > 232:
        raise AdapterError(f"ROS_DOMAIN_ID is {text!r}; a domain is a number from 0 to 232. Set it, or `domain`.")
    return int(text)
