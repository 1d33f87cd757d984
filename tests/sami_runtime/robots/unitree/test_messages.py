"""A Go2's messages as bytes; what Unitree's own classes make of them is in tests/real/test_unitree.py."""

import importlib

import numpy as np
import pytest

from sami_runtime.robots.unitree.messages import CDR, MOTORS, Go2Reading, Setpoint, crc_of

UNKNOWN_TO_0_10 = {12, 13}
"""Kinds of types, int8 and uint8: Cyclone DDS 0.10, of the robot, dies of a description that has one."""
MESSAGES = ("LowCmd", "LowState", "ServiceRequest", "ServiceResponse")


def checksum(words):
    """Unitree's checksum, bit by bit as it is defined: CRC-32/MPEG-2 over words."""
    value = 0xFFFFFFFF
    for word in np.frombuffer(words, "<u4"):
        value ^= int(word)
        for _ in range(32):
            value = (value << 1 ^ 0x04C11DB7 if value & 0x80000000 else value << 1) & 0xFFFFFFFF
    return value


def state(**values):
    """The bytes of a state whose struct in memory has these floats or octets at these offsets."""
    memory = bytearray(1180)
    memory[24:40] = np.float32([1.0, 0.0, 0.0, 0.0]).tobytes()
    for at, value in values.items():
        octets = value if isinstance(value, bytes) else np.float32(value).tobytes()
        memory[int(at[2:]) : int(at[2:]) + len(octets)] = octets
    memory[1176:] = crc_of(bytes(memory[:1176])).to_bytes(4, "little")
    return CDR + bytes(memory[:77] + memory[80:81] + bytes(2) + memory[84:])


def test_the_checksum_is_that_of_its_definition():
    for size in (4, 64, 808):
        words = np.random.default_rng(size).bytes(size)
        assert crc_of(words) == checksum(words)


def test_a_command_has_a_set_point_for_each_motor_and_the_checksum_of_the_struct_in_memory():
    pytest.importorskip("cyclonedds")
    from sami_runtime.robots.unitree.idl import LowCmd

    message = Setpoint(np.arange(12.0), np.full(12, 20.0), np.full(12, 0.5)).message()
    command = LowCmd.deserialize(message)
    assert [motor.q for motor in command.motor_cmd[:12]] == list(range(12))
    assert {(motor.mode, motor.kp, motor.kd, motor.dq, motor.tau) for motor in command.motor_cmd[:12]} == {
        (1, 20.0, 0.5, 0.0, 0.0)
    }
    assert {(motor.mode, motor.kp, motor.kd) for motor in command.motor_cmd[12:]} == {(0, 0.0, 0.0)}
    assert command.crc == int.from_bytes(message[-4:], "little")


def test_damping_drives_no_motor_anywhere():
    setpoint = Setpoint.damping(3.0)
    assert not setpoint.kp.any()
    assert (setpoint.kd == 3.0).all()


def test_a_reading_has_angles_velocities_and_the_sticks_in_the_directions_of_a_command():
    motors = {f"at{84 + 48 * motor}": motor + 0.5 for motor in range(12)}
    sticks = {"at1108": 0.25, "at1112": -0.5, "at1124": 1.0, "at1100": (7).to_bytes(4, "little")}
    reading = Go2Reading.of(state(**motors, **sticks))
    assert reading.angles.tolist() == [motor + 0.5 for motor in range(12)]
    assert reading.sticks.tolist() == [1.0, -0.25, 0.5], "forward, left, turn left"
    assert reading.tick == 7
    assert not reading.stop_pressed
    assert Go2Reading.of(state(at1106=(544).to_bytes(2, "little"))).stop_pressed
    assert not Go2Reading.of(state(at1106=(512).to_bytes(2, "little"))).stop_pressed, "B alone"


def test_gravity_is_the_direction_down_in_the_trunks_frame():
    assert Go2Reading.of(state()).gravity.tolist() == [0.0, 0.0, -1.0]
    on_its_right_side = np.float32([np.cos(np.pi / 4), np.sin(np.pi / 4), 0.0, 0.0]).tobytes()
    assert Go2Reading.of(state(at24=on_its_right_side)).gravity == pytest.approx([0.0, -1.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("spoilt", [b"", state()[:-1], b"\x00\x00" + state()[2:], state()[:-1] + b"\x01"])
def test_a_state_that_is_cut_or_changed_is_refused(spoilt):
    with pytest.raises(ValueError, match="a state"):
        Go2Reading.of(spoilt)


@pytest.mark.parametrize("name", MESSAGES)
def test_no_type_is_described_in_a_way_that_kills_the_robots_services(name):
    pytest.importorskip("cyclonedds")
    described = getattr(importlib.import_module("sami_runtime.robots.unitree.idl"), name).__idl__
    described.populate()
    pairs = described.get_type_mapping().identifier_object_pair_complete
    members = [
        member.common.member_type_id
        for pair in pairs
        for member in getattr(pair.type_object.value.value, "member_seq", ())
    ]
    kinds = set()
    for member in members:  # of an array, what it holds
        element = getattr(member.value, "element_identifier", None)
        kinds.add((element or member).discriminator)
    assert 2 in kinds or name == "MotorCmd", "octets are bytes"
    assert not kinds & UNKNOWN_TO_0_10


def test_the_motors_are_named_as_unitree_names_them():
    assert MOTORS[:4] == ("FR_hip", "FR_thigh", "FR_calf", "FL_hip")
    assert MOTORS[6] == "RR_hip"
