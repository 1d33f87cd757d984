"""A Go2's message types for DDS; see `sami_runtime.robots.kit.dds_message`.

Without postponed annotations: cyclonedds reads them when a class is made.
"""

from dataclasses import dataclass
from typing import Any

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import array, byte, float32, int16, int32, int64, sequence, uint16, uint32

from sami_runtime.robots.kit.dds_message import message_type
from sami_runtime.robots.unitree.messages import SLOTS, Go2Reading

MotorCmd = message_type(
    "unitree_go/MotorCmd",
    mode=byte,
    q=float32,
    dq=float32,
    tau=float32,
    kp=float32,
    kd=float32,
    reserve=array[uint32, 3],
)
"""The command of a motor: torque = tau + kp (q - angle) + kd (dq - velocity)."""
BmsCmd = message_type("unitree_go/BmsCmd", off=byte, reserve=array[byte, 3])
"""The command of the battery, which is unused."""


@final
@dataclass
class LowCmd(IdlStruct, typename="unitree_go.msg.dds_.LowCmd_"):
    """The command of all motors. The fields describe the type to peers; `message` has the bytes that are sent."""

    head: array[byte, 2]
    level_flag: byte
    frame_reserve: byte
    sn: array[uint32, 2]
    version: array[uint32, 2]
    bandwidth: uint16
    motor_cmd: array[MotorCmd, SLOTS]
    bms_cmd: BmsCmd
    wireless_remote: array[byte, 40]
    led: array[byte, 12]
    fan: array[byte, 2]
    gpio: byte
    reserve: uint32
    crc: uint32

    message = b""
    """The bytes that are sent."""

    @classmethod
    def of(cls, message: bytes) -> "LowCmd":
        """Return the command that is sent as these bytes."""
        command = cls.__new__(cls)
        command.message = message
        return command

    def serialize(self, *_: Any, **__: Any) -> bytes:
        """Return the bytes, for cyclonedds."""
        return self.message


IMUState = message_type(
    "unitree_go/IMUState",
    quaternion=array[float32, 4],
    gyroscope=array[float32, 3],
    accelerometer=array[float32, 3],
    rpy=array[float32, 3],
    temperature=byte,
)
"""Orientation, angular velocity and acceleration of the trunk."""
MotorState = message_type(
    "unitree_go/MotorState",
    mode=byte,
    q=float32,
    dq=float32,
    ddq=float32,
    tau_est=float32,
    q_raw=float32,
    dq_raw=float32,
    ddq_raw=float32,
    temperature=byte,
    lost=uint32,
    reserve=array[uint32, 2],
)
BmsState = message_type(
    "unitree_go/BmsState",
    version_high=byte,
    version_low=byte,
    status=byte,
    soc=byte,
    current=int32,
    cycle=uint16,
    bq_ntc=array[byte, 2],
    mcu_ntc=array[byte, 2],
    cell_vol=array[uint16, 15],
)


@final
@dataclass
class LowState(IdlStruct, typename="unitree_go.msg.dds_.LowState_"):
    """All measurements, and the remote control's buttons and sticks; received messages become a `Go2Reading`."""

    head: array[byte, 2]
    level_flag: byte
    frame_reserve: byte
    sn: array[uint32, 2]
    version: array[uint32, 2]
    bandwidth: uint16
    imu_state: IMUState
    motor_state: array[MotorState, SLOTS]
    bms_state: BmsState
    foot_force: array[int16, 4]
    foot_force_est: array[int16, 4]
    tick: uint32
    wireless_remote: array[byte, 40]
    bit_flag: byte
    adc_reel: float32
    temperature_ntc1: byte
    temperature_ntc2: byte
    power_v: float32
    power_a: float32
    fan_frequency: array[uint16, 4]
    reserve: uint32
    crc: uint32

    @classmethod
    def deserialize(cls, data: bytes, *_: Any, **__: Any) -> Go2Reading:
        """Return the reading in these bytes, for cyclonedds; raise ValueError if they are invalid."""
        return Go2Reading.of(bytes(data))


RequestIdentity = message_type("unitree_api/RequestIdentity", id=int64, api_id=int64)
"""Id of the call, and of the function."""
RequestLease = message_type("unitree_api/RequestLease", id=int64)
"""Lease of the caller; 0 for none."""
RequestPolicy = message_type("unitree_api/RequestPolicy", priority=int32, noreply=bool)
"""Priority, and whether an answer is wanted."""
RequestHeader = message_type(
    "unitree_api/RequestHeader", identity=RequestIdentity, lease=RequestLease, policy=RequestPolicy
)
ServiceRequest = message_type("unitree_api/Request", header=RequestHeader, parameter=str, binary=sequence[byte])
ResponseStatus = message_type("unitree_api/ResponseStatus", code=int32)
"""Status code: 0, or an error."""
ResponseHeader = message_type("unitree_api/ResponseHeader", identity=RequestIdentity, status=ResponseStatus)
ServiceResponse = message_type("unitree_api/Response", header=ResponseHeader, data=str, binary=sequence[byte])
