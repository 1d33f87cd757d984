"""The settings of the example of ROS 2, changed; and its robot, in a process of its own on loopback."""

import json
import os
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

from sami_runtime import MonotonicClock, Session, shipped_models
from sami_runtime.adapters.ros2 import make
from sami_runtime.adapters.ros2.settings import Settings
from sami_runtime.documents import read_document

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "ros2"
LOOPBACK = f"file://{EXAMPLE / 'loopback.xml'}"


def document(**changed):
    """What `--adapter-config` holds, with entries replaced by `table__key=value`; None takes one away."""
    known = read_document(EXAMPLE / "robot.toml", "settings")
    for path, value in changed.items():
        *tables, key = path.split("__")
        place = known
        for table in tables:
            place = place[table]
        if value is None:
            del place[key]
        else:
            place[key] = value
    return known


def settings(**changed):
    return Settings.of(document(**changed))


def environment(domain):
    """For a process of its own: this machine alone, a domain of its own."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "CYCLONEDDS_URI": LOOPBACK, "ROS_DOMAIN_ID": str(domain)}


class SimulatedRobot:
    """The example's robot in a domain of its own, so that tests do not meet others.

    Args:
        domain: of ROS.
        options: of `examples/ros2/robot.py`.
    """

    def __init__(self, domain, *options):
        self.domain = domain
        command = [sys.executable, str(EXAMPLE / "robot.py"), *map(str, options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(domain))
        assert self.process.stdout.readline().startswith("listening")

    @contextmanager
    def adapter(self, clock=None, **changed):
        session = Session.load(shipped_models()["panda-satesac"])
        told = document(domain=self.domain, backend="cyclonedds", heard_s=20.0, **changed)
        with closing(make(clock or MonotonicClock(), session.contract, told)) as made:
            yield made

    def said(self):
        """What it printed next."""
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
