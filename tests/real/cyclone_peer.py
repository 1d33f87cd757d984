"""The robot of `fast_dds_peer` on Cyclone DDS 0.10, which ROS 2 up to Kilted ships, with message types of its own.

It runs in the environment that `make unitree-sim` makes, on Python 3.10 with cyclonedds 0.10.5. Loopback only.

    CYCLONEDDS_URI=... python cyclone_peer.py DOMAIN SECONDS
"""

import sys
import time
from dataclasses import dataclass

from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import float64, int32, sequence, uint8, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic


@final
@dataclass
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    sec: int32
    nanosec: uint32


@final
@dataclass
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    stamp: Time
    frame_id: str


@final
@dataclass
class JointState(IdlStruct, typename="sensor_msgs.msg.dds_.JointState_"):
    header: Header
    name: sequence[str]
    position: sequence[float64]
    velocity: sequence[float64]
    effort: sequence[float64]


@final
@dataclass
class Dimension(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayDimension_"):
    label: str
    size: uint32
    stride: uint32


@final
@dataclass
class Layout(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayLayout_"):
    dim: sequence[Dimension]
    data_offset: uint32


@final
@dataclass
class Float64MultiArray(IdlStruct, typename="std_msgs.msg.dds_.Float64MultiArray_"):
    layout: Layout
    data: sequence[float64]


@final
@dataclass
class KeyValue(IdlStruct, typename="diagnostic_msgs.msg.dds_.KeyValue_"):
    key: str
    value: str


@final
@dataclass
class DiagnosticStatus(IdlStruct, typename="diagnostic_msgs.msg.dds_.DiagnosticStatus_"):
    level: uint8
    name: str
    message: str
    hardware_id: str
    values: sequence[KeyValue]


@final
@dataclass
class DiagnosticArray(IdlStruct, typename="diagnostic_msgs.msg.dds_.DiagnosticArray_"):
    header: Header
    status: sequence[DiagnosticStatus]


def main(domain: int, seconds: float) -> None:
    participant = DomainParticipant(domain)
    reliable = Qos(Policy.Reliability.Reliable(20_000_000), Policy.History.KeepLast(10))
    states = DataWriter(participant, Topic(participant, "rt/joint_states", JointState), reliable)
    commands = DataReader(participant, Topic(participant, "rt/commands", Float64MultiArray), reliable)
    diagnoses = DataReader(participant, Topic(participant, "rt/diagnostics", DiagnosticArray), reliable)
    names, places, speeds = ["wrist", "shoulder", "elbow"], [0.3, 0.1, 0.2], [0.0, 0.0, 0.0]
    print("listening", flush=True)
    start = time.monotonic()
    for tick in range(round(50 * seconds)):
        time.sleep(max(0.0, start + 0.02 * tick - time.monotonic()))
        for command in commands.take(10):
            print("{:g} {:g} {:g}".format(*command.data), flush=True)
            shoulder, elbow, wrist = command.data
            speeds = [wrist, shoulder, elbow]
        for diagnosis in diagnoses.take(10):
            print(*(status.message for status in diagnosis.status), flush=True)
        places = [place + 0.02 * speed for place, speed in zip(places, speeds, strict=True)]
        now = time.time_ns()
        stamp = Time(now // 10**9, now % 10**9)
        states.write(JointState(Header(stamp, ""), names, places, speeds, []))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
