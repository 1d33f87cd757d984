"""ROS 2's message types for DDS: the names and the order of fields are ROS's, which decide the bytes.

An octet is a `byte`, never a `uint8`: Cyclone DDS 0.10, of ROS 2 up to Kilted and of Unitree's robots, knows no type of
that kind and dies of SIGSEGV when cyclonedds 11 describes one to it.

Without postponed annotations: cyclonedds reads them when a class is made.
"""

from dataclasses import dataclass
from typing import Any

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import byte, float64, int32, sequence, uint32

Doubles = sequence[float64]


@final
@dataclass
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    """A moment."""

    sec: int32
    nanosec: uint32


@final
@dataclass
class Duration(IdlStruct, typename="builtin_interfaces.msg.dds_.Duration_"):
    """A time between two moments."""

    sec: int32
    nanosec: uint32


@final
@dataclass
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    """When and where."""

    stamp: Time
    frame_id: str


@final
@dataclass
class JointState(IdlStruct, typename="sensor_msgs.msg.dds_.JointState_"):
    """Joints by name."""

    header: Header
    name: sequence[str]
    position: Doubles
    velocity: Doubles
    effort: Doubles


@final
@dataclass
class Point(IdlStruct, typename="geometry_msgs.msg.dds_.Point_"):
    """A place."""

    x: float64
    y: float64
    z: float64


@final
@dataclass
class Quaternion(IdlStruct, typename="geometry_msgs.msg.dds_.Quaternion_"):
    """A rotation."""

    x: float64
    y: float64
    z: float64
    w: float64


@final
@dataclass
class Pose(IdlStruct, typename="geometry_msgs.msg.dds_.Pose_"):
    """Both."""

    position: Point
    orientation: Quaternion


@final
@dataclass
class PoseStamped(IdlStruct, typename="geometry_msgs.msg.dds_.PoseStamped_"):
    """Both, when and in which frame."""

    header: Header
    pose: Pose


@final
@dataclass
class MultiArrayDimension(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayDimension_"):
    """An axis of an array; commands have none."""

    label: str
    size: uint32
    stride: uint32


@final
@dataclass
class MultiArrayLayout(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayLayout_"):
    """The axes of an array."""

    dim: sequence[MultiArrayDimension]
    data_offset: uint32


@final
@dataclass
class Float64MultiArray(IdlStruct, typename="std_msgs.msg.dds_.Float64MultiArray_"):
    """Numbers."""

    layout: MultiArrayLayout
    data: Doubles


@final
@dataclass
class JointTrajectoryPoint(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectoryPoint_"):
    """Joints at a moment."""

    positions: Doubles
    velocities: Doubles
    accelerations: Doubles
    effort: Doubles
    time_from_start: Duration


@final
@dataclass
class JointTrajectory(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectory_"):
    """Joints at moments."""

    header: Header
    joint_names: sequence[str]
    points: sequence[JointTrajectoryPoint]


@final
@dataclass
class KeyValue(IdlStruct, typename="diagnostic_msgs.msg.dds_.KeyValue_"):
    """A value of a diagnosis."""

    key: str
    value: str


@final
@dataclass
class DiagnosticStatus(IdlStruct, typename="diagnostic_msgs.msg.dds_.DiagnosticStatus_"):
    """A diagnosis."""

    level: byte
    name: str
    message: str
    hardware_id: str
    values: sequence[KeyValue]


@final
@dataclass
class DiagnosticArray(IdlStruct, typename="diagnostic_msgs.msg.dds_.DiagnosticArray_"):
    """Diagnoses."""

    header: Header
    status: sequence[DiagnosticStatus]


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
