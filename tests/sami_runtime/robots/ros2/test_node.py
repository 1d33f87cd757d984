"""Who is at a topic, and why nothing comes: told before anything is sent. A backend that is missing is told, too."""

import gc
import importlib.util
import os
import time

import numpy as np
import pytest

from sami_runtime import AdapterError, MonotonicClock
from sami_runtime.robots.ros2.messages import JointMessage
from sami_runtime.robots.ros2.node import Peer, doubled, why_silent, why_unmatched
from sami_runtime.robots.ros2.open_node import domain_of, open_node
from sami_runtime.robots.ros2.settings import Qos
from tests.making.ros2 import LOOPBACK

KIND = "sensor_msgs/msg/JointState"


@pytest.mark.parametrize(
    ("qos", "publishers", "reason"),
    [
        ({}, [], "nobody publishes /joints (sensor_msgs/msg/JointState)"),
        ({}, [Peer(KIND, Qos())], "/joints is published, and nothing came"),
        ({}, [Peer("std_msgs/msg/String", Qos())], "its publisher has std_msgs/msg/String, and not sensor_msgs"),
        ({}, [Peer(KIND, Qos(reliability="best_effort"))], "its publisher offers reliability best_effort"),
        ({"reliability": "best_effort"}, [Peer(KIND, Qos(reliability="best_effort"))], "and nothing came"),
        ({"durability": "transient_local"}, [Peer(KIND, Qos())], "its publisher offers durability volatile"),
        ({"deadline_s": 0.1}, [Peer(KIND, Qos())], "its publisher offers no deadline"),
        ({"deadline_s": 0.1}, [Peer(KIND, Qos(deadline_s=0.2))], "its publisher offers a deadline of 0.2 s"),
        ({"deadline_s": 0.2}, [Peer(KIND, Qos(deadline_s=0.1))], "and nothing came"),
        ({}, [Peer("a/msg/B", Qos()), Peer(KIND, Qos())], "and nothing came"),
    ],
)
def test_why_nothing_comes(qos, publishers, reason):
    assert reason in why_silent("/joints", KIND, Qos(**qos), publishers)


@pytest.mark.parametrize(
    ("offered", "subscribers", "reason"),
    [
        ({}, [], "nobody hears /joints (sensor_msgs/msg/JointState): is its controller active?"),
        ({"reliability": "best_effort"}, [Peer(KIND, Qos())], "its subscriber wants reliability reliable"),
        ({}, [Peer(KIND, Qos(deadline_s=0.1))], "its subscriber wants a deadline of 0.1 s"),
        ({}, [Peer("a/msg/B", Qos())], "its subscriber has a/msg/B"),
        ({}, [Peer(KIND, Qos(reliability="best_effort"))], ""),
        ({}, [Peer("a/msg/B", Qos()), Peer(KIND, Qos())], ""),
    ],
)
def test_why_nobody_hears(offered, subscribers, reason):
    report = why_unmatched("/joints", KIND, Qos(**offered), subscribers)
    assert reason in report
    assert bool(report) is bool(reason)


def test_a_backend_that_is_not_installed_is_told_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for backend in ("auto", "cyclonedds"):
        with pytest.raises(AdapterError, match=r"needs the package cyclonedds, not installed here.*\[ros2.*\]"):
            open_node(backend, 0, MonotonicClock())
    with pytest.raises(AdapterError, match=r"needs the package rclpy.* Source a ROS 2 workspace, or take backend"):
        open_node("rclpy", 0, MonotonicClock())


def test_the_domain_is_the_settings_or_the_environments(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "7")
    assert (domain_of(3), domain_of(None)) == (3, 7)
    monkeypatch.delenv("ROS_DOMAIN_ID")
    assert domain_of(None) == 0
    for wrong in ("seven", "-1", "233"):
        monkeypatch.setenv("ROS_DOMAIN_ID", wrong)
        with pytest.raises(AdapterError, match=f"ROS_DOMAIN_ID is '{wrong}'; a domain is a number from 0 to 232"):
            domain_of(None)


@pytest.mark.parametrize(
    ("peers", "refused"),
    [
        ([], False),
        ([Peer(KIND, Qos(), "b")], True),
        ([Peer(KIND, Qos(reliability="best_effort"), "b")], False),
        ([Peer("a/msg/B", Qos(), "b")], False),
    ],
)
def test_two_publishers_that_can_be_heard_are_refused_with_their_names(peers, refused):
    report = doubled("/joints", KIND, Qos(), [Peer(KIND, Qos(), "a"), *peers])
    assert report.startswith("/joints has 2 publishers, a and b, ") if refused else report == ""


@pytest.fixture
def nodes(monkeypatch):
    """Three participants of one domain on loopback: one that hears, and two that publish."""
    pytest.importorskip("cyclonedds")
    monkeypatch.setenv("CYCLONEDDS_URI", LOOPBACK)
    domain = 110 + os.getpid() % 70
    participants = [open_node("cyclonedds", domain, MonotonicClock()) for _ in range(3)]
    yield participants
    for item in participants:
        item.close()


def until(true):
    deadline = time.monotonic() + 30.0  # a busy machine learns that a publisher is gone by its lease, after 10 s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert true()


def named(name):
    return JointMessage(1.0, (name,), np.zeros(1))


def published(node, hearer):
    """What sends joint states of a name, once both sides have discovered each other: before that, messages are lost."""
    before = len(hearer.publishers("/joints"))
    publisher = node.publisher("/joints", JointMessage, Qos(depth=100))
    until(lambda: len(hearer.publishers("/joints")) > before and node.subscribers("/joints"))
    return publisher


def test_of_two_publishers_the_first_is_heard_until_the_reset_and_the_others_messages_are_counted(nodes):
    hearer, first, second = nodes
    names = []
    hearer.subscribe(
        "/joints", JointMessage, Qos(depth=100), lambda message, _: names.append(message.names[0]), "first"
    )
    sender = published(first, hearer)
    sender.send(named("one"))
    until(lambda: names)
    other = published(second, hearer)
    assert doubled("/joints", KIND, Qos(), hearer.publishers("/joints"))
    for _ in range(3):
        other.send(named("other"))
    until(lambda: "/joints: 3 messages of another publisher were dropped" in hearer.faults)
    sender.send(named("one"))
    until(lambda: names == ["one", "one"])
    first.close()
    until(lambda: any("publisher that was heard is gone (liveliness lost)" in fault for fault in hearer.faults))
    other.send(named("other"))
    until(lambda: "/joints: 4 messages of another publisher were dropped" in hearer.faults)
    hearer.reset()
    assert hearer.faults == ()
    other.send(named("other"))
    until(lambda: names == ["one", "one", "other"])


def test_a_node_that_closes_is_gone_at_once_also_while_somebody_holds_its_parts(nodes):
    hearer, first, _ = nodes
    hearer.subscribe("/joints", JointMessage, Qos(depth=100), lambda message, _: None)
    gc.disable()  # as in a process whose heap is large: cycles are collected late
    try:
        publisher = published(first, hearer)
        first.close()
        until(lambda: not hearer.publishers("/joints"))
        with pytest.raises(AdapterError, match="cannot be sent"):
            publisher.send(named("late"))
    finally:
        gc.enable()


def test_a_controller_hears_all(nodes):
    hearer, *senders = nodes
    names = set()
    hearer.subscribe("/joints", JointMessage, Qos(depth=100), lambda message, _: names.add(message.names[0]))
    for number, other in enumerate(senders):
        published(other, hearer).send(named(str(number)))
    until(lambda: names == {"0", "1"})
    assert hearer.faults == ()


def test_a_goal_that_is_said_once_may_come_from_the_next_publisher(nodes):
    hearer, first, second = nodes
    names = []
    hearer.subscribe(
        "/joints", JointMessage, Qos(depth=100), lambda message, _: names.append(message.names[0]), "in turn"
    )
    published(first, hearer).send(named("one"))
    until(lambda: names)
    first.close()
    until(lambda: not hearer.publishers("/joints"))
    published(second, hearer).send(named("other"))
    until(lambda: names == ["one", "other"])
    assert hearer.faults == ()


def test_a_message_that_cannot_be_read_is_dropped_and_counted_and_spoils_no_other(nodes, monkeypatch):
    hearer, first, _ = nodes
    names = []

    def hear(message, _):
        names.append(message.names[0])
        if message.names[0] == "odd":
            raise ValueError("odd")

    hearer.subscribe("/joints", JointMessage, Qos(depth=100), hear)
    publisher = published(first, hearer)
    publisher.send(named("one"))
    until(lambda: names)
    with monkeypatch.context() as patch:  # a name that is no UTF-8, as a sender in C may write it
        kind = type(named("bad").to(importlib.import_module("sami_runtime.robots.ros2.dds_node").TYPES))
        serialize = kind.serialize
        patch.setattr(kind, "serialize", lambda *parts, **more: serialize(*parts, **more).replace(b"bad", b"\xffad"))
        for _ in range(2):
            publisher.send(named("bad"))
    publisher.send(named("odd"))
    publisher.send(named("two"))
    until(lambda: names == ["one", "odd", "two"])
    (fault,) = hearer.faults
    assert fault.startswith("/joints: 3 messages that could not be read were dropped, lastly a sensor_msgs/msg/JointSt")
    hearer.reset()
    assert hearer.faults == ()
