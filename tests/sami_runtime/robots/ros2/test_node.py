"""Who is at a topic, and why nothing comes: told before anything is sent. A backend that is missing is told, too."""

import importlib.util

import pytest

from sami_runtime import AdapterError, MonotonicClock
from sami_runtime.robots.ros2.node import Peer, domain_of, open_node, why_silent, why_unheard
from sami_runtime.robots.ros2.settings import Qos

KIND = "sensor_msgs/msg/JointState"


@pytest.mark.parametrize(
    ("asked", "publishers", "why"),
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
def test_why_nothing_comes(asked, publishers, why):
    assert why in why_silent("/joints", KIND, Qos(**asked), publishers)


@pytest.mark.parametrize(
    ("offered", "subscribers", "why"),
    [
        ({}, [], "nobody hears /joints (sensor_msgs/msg/JointState): is its controller active?"),
        ({"reliability": "best_effort"}, [Peer(KIND, Qos())], "its subscriber wants reliability reliable"),
        ({}, [Peer(KIND, Qos(deadline_s=0.1))], "its subscriber wants a deadline of 0.1 s"),
        ({}, [Peer("a/msg/B", Qos())], "its subscriber has a/msg/B"),
        ({}, [Peer(KIND, Qos(reliability="best_effort"))], ""),
        ({}, [Peer("a/msg/B", Qos()), Peer(KIND, Qos())], ""),
    ],
)
def test_why_nobody_hears(offered, subscribers, why):
    told = why_unheard("/joints", KIND, Qos(**offered), subscribers)
    assert why in told
    assert bool(told) is bool(why)


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
