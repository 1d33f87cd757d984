"""Classes of messages for DDS: the names and the order of fields are the robot's, which decide the bytes.

An octet is a `byte`, never a `uint8`: Cyclone DDS 0.10, of ROS 2 up to Kilted and of Unitree's robots, knows no type of
that kind and dies of SIGSEGV when cyclonedds 11 describes one to it.
"""

from __future__ import annotations

from typing import Any

from cyclonedds.idl import make_idl_struct
from cyclonedds.idl.annotations import final


def message_type(ros: str, /, **fields: Any) -> Any:
    """Return the class of a message, by its name in ROS (`std_msgs/Header`) and the types of its fields, in order."""
    package, name = ros.split("/")
    return final(make_idl_struct(name, f"{package}.msg.dds_.{name}_", fields))
