"""The messages as plain numbers, and their conversion to ROS 2's classes, whose fields both backends name alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
EMPTY: Array = np.zeros(0)
OK, WARN, ERROR = 0, 1, 2
"""Levels of a diagnostic status."""


class Types(Protocol):
    """A backend's message classes."""

    def __call__(self, name: str) -> Any:
        """Return the class of a message, `"sensor_msgs/msg/JointState"`."""

    def octet(self, value: int) -> Any:
        """Return a byte of the type that the message classes expect."""


class Message(Protocol):
    """The interface of all messages."""

    ros: ClassVar[str]
    """ROS's name of the message type."""

    @classmethod
    def of(cls, message: Any) -> Message:
        """Return this message from a backend's message."""

    def to(self, types: Types) -> Any:
        """Return this message as a message of a backend."""


M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class JointMessage:
    """The state of joints, by name and in any order."""

    ros: ClassVar[str] = "sensor_msgs/msg/JointState"

    stamp: float
    """Time of the measurement [s], by the sender's clock."""
    names: tuple[str, ...]
    position: Array = field(default_factory=lambda: EMPTY)
    """(J,) [rad, m]; empty if it is not measured, as are velocity and effort."""
    velocity: Array = field(default_factory=lambda: EMPTY)
    """(J,) [rad/s, m/s]."""
    effort: Array = field(default_factory=lambda: EMPTY)
    """(J,) [Nm, N]."""
    frame_id: str = ""

    @classmethod
    def of(cls, message: Any) -> JointMessage:
        """Return this message from a backend's message."""
        return cls(
            _seconds(message.header.stamp),
            tuple(message.name),
            np.array(message.position, np.float64),
            np.array(message.velocity, np.float64),
            np.array(message.effort, np.float64),
            message.header.frame_id,
        )

    def to(self, types: Types) -> Any:
        """Return this message as a message of a backend."""
        return types(self.ros)(
            header=_header(types, self.stamp, self.frame_id),
            name=list(self.names),
            position=self.position.tolist(),
            velocity=self.velocity.tolist(),
            effort=self.effort.tolist(),
        )


@dataclass(frozen=True)
class PoseMessage:
    """A position and orientation in a frame."""

    ros: ClassVar[str] = "geometry_msgs/msg/PoseStamped"

    stamp: float
    """Time of the measurement [s], by the sender's clock."""
    frame_id: str
    position: Array
    """(3,) [m]."""
    xyzw: Array
    """(4,): unit quaternion."""

    @classmethod
    def of(cls, message: Any) -> PoseMessage:
        """Return this message from a backend's message."""
        place, turned = message.pose.position, message.pose.orientation
        return cls(
            _seconds(message.header.stamp),
            message.header.frame_id,
            np.array([place.x, place.y, place.z], np.float64),
            np.array([turned.x, turned.y, turned.z, turned.w], np.float64),
        )

    def to(self, types: Types) -> Any:
        """Return this message as a message of a backend."""
        place = dict(zip("xyz", self.position.tolist(), strict=True))
        turned = dict(zip("xyzw", self.xyzw.tolist(), strict=True))
        return types(self.ros)(
            header=_header(types, self.stamp, self.frame_id),
            pose=types("geometry_msgs/msg/Pose")(
                position=types("geometry_msgs/msg/Point")(**place),
                orientation=types("geometry_msgs/msg/Quaternion")(**turned),
            ),
        )


@dataclass(frozen=True)
class Numbers:
    """A command with a number for each joint, for ros2_control's forward command controllers."""

    ros: ClassVar[str] = "std_msgs/msg/Float64MultiArray"

    data: Array
    """(J,)."""

    @classmethod
    def of(cls, message: Any) -> Numbers:
        """Return this message from a backend's message."""
        return cls(np.array(message.data, np.float64))

    def to(self, types: Types) -> Any:
        """Return this message as a message of a backend."""
        layout = types("std_msgs/msg/MultiArrayLayout")(dim=[], data_offset=0)
        return types(self.ros)(layout=layout, data=self.data.tolist())


@dataclass(frozen=True)
class Trajectory:
    """A command with positions to reach after some time, for ros2_control's joint trajectory controller."""

    ros: ClassVar[str] = "trajectory_msgs/msg/JointTrajectory"

    names: tuple[str, ...]
    position: Array
    """(J,) [rad, m]."""
    within_s: float
    """Time from the message's arrival [s], which is what its stamp of 0 means."""

    @classmethod
    def of(cls, message: Any) -> Trajectory:
        """Return the last point of a backend's message."""
        last = message.points[-1]
        return cls(tuple(message.joint_names), np.array(last.positions, np.float64), _seconds(last.time_from_start))

    def to(self, types: Types) -> Any:
        """Return this message as a message of a backend."""
        within = types("builtin_interfaces/msg/Duration")(**_parts(self.within_s))
        point = types("trajectory_msgs/msg/JointTrajectoryPoint")(
            positions=self.position.tolist(), velocities=[], accelerations=[], effort=[], time_from_start=within
        )
        return types(self.ros)(header=_header(types, 0.0, ""), joint_names=list(self.names), points=[point])


@dataclass(frozen=True)
class Status:
    """The diagnostic status of one component."""

    level: int
    """OK, WARN or ERROR."""
    name: str
    message: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Diagnostics:
    """Diagnostics of several components."""

    ros: ClassVar[str] = "diagnostic_msgs/msg/DiagnosticArray"

    stamp: float
    statuses: tuple[Status, ...]
    hardware: str = ""
    """Name of the hardware that they concern."""

    @classmethod
    def of(cls, message: Any) -> Diagnostics:
        """Return this message from a backend's message."""
        statuses = tuple(
            Status(
                status.level if isinstance(status.level, int) else status.level[0],
                status.name,
                status.message,
                {pair.key: pair.value for pair in status.values},
            )
            for status in message.status
        )
        return cls(_seconds(message.header.stamp), statuses, message.status[0].hardware_id if message.status else "")

    def to(self, types: Types) -> Any:
        """Return this message as a message of a backend."""
        pair = types("diagnostic_msgs/msg/KeyValue")
        statuses = [
            types("diagnostic_msgs/msg/DiagnosticStatus")(
                level=types.octet(status.level),
                name=status.name,
                message=status.message,
                hardware_id=self.hardware,
                values=[pair(key=key, value=value) for key, value in status.values.items()],
            )
            for status in self.statuses
        ]
        return types(self.ros)(header=_header(types, self.stamp, ""), status=statuses)


def _header(types: Types, stamp: float, frame_id: str) -> Any:
    time = types("builtin_interfaces/msg/Time")(**_parts(stamp))
    return types("std_msgs/msg/Header")(stamp=time, frame_id=frame_id)


def _parts(seconds: float) -> dict[str, int]:
    """Return seconds as whole seconds and nanoseconds; the latter are never negative."""
    whole = math.floor(seconds)
    nanoseconds = round((seconds - whole) * 1e9)
    return {"sec": whole + nanoseconds // 10**9, "nanosec": nanoseconds % 10**9}


def _seconds(time: Any) -> float:
    return float(time.sec) + 1e-9 * float(time.nanosec)
