"""Messages as ROS 2 has them: the same bytes as another implementation's, and whatever is said comes back."""

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from sami_runtime.robots.ros2.messages import (
    ERROR,
    OK,
    Diagnostics,
    JointMessage,
    Numbers,
    PoseMessage,
    Status,
    Trajectory,
)

draw = np.random.default_rng(0)
JOINTS = tuple(f"joint{number}" for number in range(7))
MESSAGES = [
    JointMessage(1.7e9 + 0.25, JOINTS, draw.normal(size=7), draw.normal(size=7), draw.normal(size=7), "base"),
    JointMessage(12.0, ("a", "bcd"), np.array([0.5, -1.0])),
    JointMessage(0.0, ()),
    PoseMessage(3.999999999, "camera_ü", draw.normal(size=3), np.array([0.0, 0.6, 0.0, 0.8])),
    Numbers(draw.normal(size=7)),
    Numbers(np.zeros(0)),
    Trajectory(JOINTS, draw.normal(size=7), 0.04),
    Diagnostics(5.5, (Status(OK, "one", "", {}), Status(ERROR, "two", "it fails", {"a": "1", "bb": ""})), "arm"),
]


def equal(message, other):
    """Whether two messages say the same, to the nanosecond."""
    for name, value in vars(message).items():
        expected = getattr(other, name)
        if isinstance(value, np.ndarray):
            assert value.tolist() == expected.tolist(), name
        elif isinstance(value, float):
            assert expected == pytest.approx(value, abs=1e-9), name
        else:
            assert expected == value, name
    return type(message) is type(other)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda item: type(item).__name__)
def test_what_is_said_comes_back(message):
    pytest.importorskip("cyclonedds")
    from sami_runtime.robots.ros2.idl import IdlTypes

    types = IdlTypes()
    carried = message.to(types)
    received = type(message).of(type(carried).deserialize(carried.serialize(use_version_2=False)))
    assert equal(message, received)


UNKNOWN_TO_0_10 = {12, 13}
"""Kinds of types, int8 and uint8: Cyclone DDS 0.10 dies of a description that has one."""


@pytest.mark.parametrize("message", MESSAGES, ids=lambda item: type(item).__name__)
def test_no_type_is_described_in_a_way_that_kills_an_older_peer(message):
    pytest.importorskip("cyclonedds")
    from sami_runtime.robots.ros2.idl import IdlTypes

    described = IdlTypes()(message.ros).__idl__
    described.populate()
    objects = [pair.type_object.value for pair in described.get_type_mapping().identifier_object_pair_complete]
    kinds = {
        member.common.member_type_id.discriminator
        for struct in objects
        for member in getattr(struct.value, "member_seq", ())
    }
    assert kinds
    assert not kinds & UNKNOWN_TO_0_10


@pytest.mark.parametrize("message", MESSAGES, ids=lambda item: type(item).__name__)
def test_the_bytes_are_those_of_another_implementation(message):
    pytest.importorskip("cyclonedds")
    from sami_runtime.robots.ros2.idl import IdlTypes

    store = other_implementation()
    data = bytes(message.to(IdlTypes()).serialize(use_version_2=False))
    assert bytes(store.serialize_cdr(store.deserialize_cdr(data, message.ros), message.ros)) == data


def test_the_hashes_of_types_are_those_of_another_implementation():
    pytest.importorskip("cyclonedds")
    from sami_runtime.robots.ros2.idl import HASHES

    store = other_implementation()
    assert {f"RIHS01_{HASHES[kind.ros]}" for kind in map(type, MESSAGES)} == {
        store.hash_rihs01(kind.ros) for kind in map(type, MESSAGES)
    }
    assert len(HASHES) == 5


def other_implementation():
    typesys = pytest.importorskip("rosbags.typesys")
    return typesys.get_typestore(typesys.Stores.ROS2_JAZZY)


@pytest.mark.parametrize("stamp", [0.0, 1.0, 0.9999999999, 1.7e9 + 0.123456789, 2.5])
def test_a_stamp_has_whole_seconds_and_less_than_a_billion_nanoseconds(stamp):
    header = JointMessage(stamp, ()).to(RosLike()).header.stamp
    assert 0 <= header.nanosec < 10**9
    assert header.sec + 1e-9 * header.nanosec == pytest.approx(stamp, abs=3e-7)


class RosLike:
    """A workspace's classes, as far as conversions see them: fields by keyword, a byte is `bytes`. Not rclpy."""

    def __call__(self, name):
        return SimpleNamespace

    def octet(self, value):
        return bytes([value])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda item: type(item).__name__)
def test_classes_with_fields_by_keyword_carry_them_as_well(message):
    """ROS's Python classes are made so; a real rclpy was never tried."""
    assert equal(message, type(message).of(message.to(RosLike())))


def test_the_backend_of_rclpy_finds_classes_by_their_names(monkeypatch):
    from sami_runtime.robots.ros2.rclpy_node import RosTypes

    module = SimpleNamespace(JointState=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "sensor_msgs", SimpleNamespace(msg=module, __path__=[]))
    monkeypatch.setitem(sys.modules, "sensor_msgs.msg", module)
    assert importlib.import_module("sensor_msgs.msg") is module
    assert RosTypes()("sensor_msgs/msg/JointState") is SimpleNamespace
    assert RosTypes().octet(2) == b"\x02"
