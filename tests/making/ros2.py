"""Settings of the ROS 2 example with changes, and its robot in a child process on the loopback interface."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from sami_runtime import MonotonicClock, Pilot, Request, Session, real_time, shipped_models
from sami_runtime.files import read_document
from sami_runtime.realtime import highest_priority
from sami_runtime.robots.ros2 import make
from sami_runtime.robots.ros2.open_node import open_node
from sami_runtime.robots.ros2.settings import Qos, RosSettings
from tests.making.lerobot import with_entries

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "ros2"
LOOPBACK = f"file://{EXAMPLE / 'loopback.xml'}"


def document(**changes):
    """Return the adapter's settings with entries replaced, named `table__key`; None removes an entry."""
    if not EXAMPLE.is_dir():
        pytest.skip("examples/ros2 is not here, where a wheel is tested")
    example = read_document(EXAMPLE / "arm.toml", "settings")
    return with_entries(example, changes)


def settings(**changes):
    return RosSettings.of(document(**changes))


def environment(domain):
    """Return environment variables of a child process, for a ROS domain on this machine only."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "CYCLONEDDS_URI": LOOPBACK, "ROS_DOMAIN_ID": str(domain)}


class SlowClock:
    """A loop's clock with the simulated robot's slow time, so that the test does not depend on the machine's load."""

    def __init__(self, speed):
        self.speed = speed

    def now(self):
        return time.monotonic() * self.speed

    def sleep_until(self, deadline):
        time.sleep(max(0.0, deadline / self.speed - time.monotonic()))


class Ear:
    """Subscribes to a topic beside the adapter, as another node would.

    Args:
        domain: ROS domain.
        topic: name of the topic.
        kind: type of its messages.
    """

    def __init__(self, domain, topic, kind):
        self.messages, self._news = [], threading.Event()
        self._node = open_node("cyclonedds", domain, MonotonicClock())
        self._node.subscribe(topic, kind, Qos(reliability="best_effort", depth=100), self._hear)

    def _hear(self, message, _):
        self.messages.append(message)
        self._news.set()

    def until(self, condition, seconds):
        """Return whether a message that meets the condition arrives within `seconds`."""
        end, at = time.monotonic() + seconds, len(self.messages)
        while time.monotonic() < end:
            self._news.wait(0.05)
            self._news.clear()
            if any(condition(message) for message in self.messages[at:]):
                return True
        return False

    def close(self):
        self._node.close()


class SimulatedRobot:
    """The example's robot in its own domain, so that parallel tests do not interfere.

    Args:
        domain: ROS domain.
        options: command-line options of `examples/ros2/robot.py`.
    """

    def __init__(self, domain, *options):
        self.domain = domain
        command = [sys.executable, str(EXAMPLE / "robot.py"), *map(str, options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(domain))
        assert self.process.stdout.readline().startswith("listening")

    @contextmanager
    def adapter(self, clock=None, **changes):
        session = Session.load(shipped_models()["panda-satesac"])
        changes = {"heard_s": 20.0, **changes}
        report = document(domain=self.domain, backend="cyclonedds", **changes)
        with (
            real_time(min(highest_priority(), 50) or None),
            closing(make(clock or MonotonicClock(), session.contract, report)) as instance,
        ):
            yield instance

    def published(self):
        """Return the next message that the robot prints."""
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Up(Pilot):
    """A pilot that moves up slowly, independent of the policy."""

    def reset(self):
        pass

    def request(self, standing):
        return Request(command=np.float32([0.0, 0.0, 0.3, 0.0]))


HOST = """
import json, sys
from contextlib import closing, nullcontext
from sami_runtime import Limits, Run, Session, Watchdog, shipped_models
from sami_runtime.robots.ros2 import make
from tests.making.ros2 import EXAMPLE, SlowClock, Up, document
if __name__ == "__main__":
    domain, speed, within = json.loads(sys.argv[1])
    session, clock = Session.load(shipped_models()["panda-satesac"]), SlowClock(speed)
    dog = Watchdog("sami_runtime.robots.ros2:emergency_stop", within) if within else None
    with dog or nullcontext():
        told = document(domain=domain, backend="cyclonedds", heard_s=20.0, success=None)
        with closing(make(clock, session.contract, told)) as robot:
            limits = Limits.load(EXAMPLE / "limits.toml")
            with Run(session, robot, clock, limits=limits, watchdog=dog, pilot=Up()) as run:
                run.episode(0, 2000, lambda record: print("ticked", flush=True) if record.step == 8 else None)
"""
"""A program that drives the robot for up to 2000 steps, for tests that kill it."""
