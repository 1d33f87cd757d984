"""Two adapters of one robot: the second one is refused, and takes nothing from the first."""

import os
import signal
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from sami_runtime import AdapterError, MonotonicClock, Session, Watchdog, shipped_models
from sami_runtime.robots.ros2 import make
from sami_runtime.robots.ros2.messages import JointMessage, Numbers
from sami_runtime.robots.ros2.open_node import open_node
from sami_runtime.robots.ros2.settings import Qos
from sami_runtime.safety.watchdog import release_watchdogs
from sami_runtime.signals import Signal
from tests.making.ros2 import LOOPBACK

pytest.importorskip("cyclonedds")

DOMAIN = 100 + os.getpid() % 60
NAMES = ("shoulder", "elbow", "wrist")


@pytest.fixture
def robot(monkeypatch):
    """Joints that rest, and the commands that reach their controller."""
    monkeypatch.setenv("CYCLONEDDS_URI", LOOPBACK)
    node, ended = open_node("cyclonedds", DOMAIN, MonotonicClock()), threading.Event()
    joints = node.publisher("/joint_states", JointMessage, Qos())
    commands = []
    node.subscribe("/commands", Numbers, Qos(), lambda message, now: commands.append(message.data.tolist()))

    def report():
        while not ended.wait(0.02):
            joints.send(JointMessage(time.time(), NAMES, np.zeros(3), np.zeros(3)))

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    yield commands
    ended.set()
    thread.join()
    node.close()


def connect(heard_s):
    free = (None,) * 3
    angles = Signal(name="angles", size=3, unit="rad", elements=NAMES, low=free, high=free)
    action = Signal(name="speeds", size=3, unit="rad/s", elements=NAMES, low=free, high=free)
    shipped = Session.load(shipped_models()["panda-satesac"]).contract
    contract = shipped.model_copy(update={"observation": (angles,), "action": action, "sheet": None})
    numbers = "std_msgs/msg/Float64MultiArray"
    table = {
        "backend": "cyclonedds",
        "domain": DOMAIN,
        "heard_s": heard_s,
        "topics": {"joints": {"topic": "/joint_states", "type": "sensor_msgs/msg/JointState"}},
        "signals": {"angles": {"of": "joints", "joints": list(NAMES)}},
        "command": {"topic": "/commands", "type": numbers, "action": "elements", "standing": 0.0},
    }
    return make(MonotonicClock(), contract, table)


def test_a_second_adapter_of_a_process_is_refused_and_leaves_the_watchdog_of_the_first_armed(robot):
    """The watchdog was told to leave the command's topic, and sent nothing when it fired."""
    with (
        Watchdog("sami_runtime.robots.ros2:emergency_stop", 60.0) as dog,
        closing(connect(heard_s=30.0)),
    ):
        with pytest.raises(AdapterError, match=r"/commands has [23] publishers"):
            connect(heard_s=2.0)
        dog.begin()
        assert dog.fire(wait_s=10.0)
        end = time.monotonic() + 10.0
        while not robot and time.monotonic() < end:
            time.sleep(0.02)
        assert robot[0] == [0.0, 0.0, 0.0]
        dog.rearm()
        dog.end()


def test_a_watchdog_that_died_is_reported_at_once_also_beside_another_publisher(robot):
    """The error was suppressed for as long as the other publisher stayed: to the end of heard_s."""
    with Watchdog("sami_runtime.robots.ros2:emergency_stop", 60.0) as dog, closing(connect(heard_s=30.0)) as first:
        release_watchdogs(first)  # as after its close, but it still publishes
        os.kill(dog.pid, signal.SIGKILL)
        with pytest.raises(AdapterError, match="the watchdog cannot stop the robot: its process"):
            connect(heard_s=30.0)
