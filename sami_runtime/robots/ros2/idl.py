"""ROS 2's message types for DDS."""

from __future__ import annotations

from typing import Any

from cyclonedds.idl.types import byte, float64, int32, sequence, uint32

from sami_runtime.robots.kit.dds_message import message_type

Doubles = sequence[float64]
Time = message_type("builtin_interfaces/Time", sec=int32, nanosec=uint32)
Duration = message_type("builtin_interfaces/Duration", sec=int32, nanosec=uint32)
Header = message_type("std_msgs/Header", stamp=Time, frame_id=str)
JointState = message_type(
    "sensor_msgs/JointState",
    header=Header,
    name=sequence[str],
    position=Doubles,
    velocity=Doubles,
    effort=Doubles,
)
Point = message_type("geometry_msgs/Point", x=float64, y=float64, z=float64)
Quaternion = message_type("geometry_msgs/Quaternion", x=float64, y=float64, z=float64, w=float64)
Pose = message_type("geometry_msgs/Pose", position=Point, orientation=Quaternion)
PoseStamped = message_type("geometry_msgs/PoseStamped", header=Header, pose=Pose)
MultiArrayDimension = message_type("std_msgs/MultiArrayDimension", label=str, size=uint32, stride=uint32)
MultiArrayLayout = message_type("std_msgs/MultiArrayLayout", dim=sequence[MultiArrayDimension], data_offset=uint32)
Float64MultiArray = message_type("std_msgs/Float64MultiArray", layout=MultiArrayLayout, data=Doubles)
JointTrajectoryPoint = message_type(
    "trajectory_msgs/JointTrajectoryPoint",
    positions=Doubles,
    velocities=Doubles,
    accelerations=Doubles,
    effort=Doubles,
    time_from_start=Duration,
)
JointTrajectory = message_type(
    "trajectory_msgs/JointTrajectory",
    header=Header,
    joint_names=sequence[str],
    points=sequence[JointTrajectoryPoint],
)
KeyValue = message_type("diagnostic_msgs/KeyValue", key=str, value=str)
DiagnosticStatus = message_type(
    "diagnostic_msgs/DiagnosticStatus",
    level=byte,
    name=str,
    message=str,
    hardware_id=str,
    values=sequence[KeyValue],
)
DiagnosticArray = message_type("diagnostic_msgs/DiagnosticArray", header=Header, status=sequence[DiagnosticStatus])

HASHES = {
    "sensor_msgs/msg/JointState": "a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
    "geometry_msgs/msg/PoseStamped": "10f3786d7d40fd2b54367835614bff85d4ad3b5dab62bf8bca0cc232d73b4cd8",
    "std_msgs/msg/Float64MultiArray": "1025ddc6b9552d191f89ef1a8d2f60f3d373e28b283d8891ddcc974e8c55397f",
    "trajectory_msgs/msg/JointTrajectory": "179b33eba59d676f6d967ac71fe35e7ca2f64b2f3928f4a018cec115e213796e",
    "diagnostic_msgs/msg/DiagnosticArray": "5a8a36efb05fb25070fa0fb3810290c0e6cd4862b54a8fb975a1ee8dc55a333e",
}
"""RIHS01 of each message, by which ROS 2 from Iron on knows types: it warns of those that come without."""


class IdlTypes:
    """The classes above, by ROS's names."""

    def __call__(self, name: str) -> Any:
        """Return the class of a message, `"sensor_msgs/msg/JointState"`."""
        return globals()[name.rpartition("/")[2]]

    def octet(self, value: int) -> int:
        """Return a byte."""
        return value
