"""The simulated Go2 of examples/unitree in a child process with its own DDS domain, and adapters for it."""

import json
import os
import queue
import subprocess
import threading
import time
from pathlib import Path

import pytest

from sami_runtime import Session, shipped_models
from sami_runtime.signals import Signal

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "unitree"
LOOPBACK = f"file://{ROOT / 'examples' / 'ros2' / 'loopback.xml'}"
PYTHON = Path(os.environ.get("SAMI_UNITREE_SIM", ROOT / ".venv" / "unitree-sim" / "bin" / "python"))
"""Python of the simulated robot's environment, which `make unitree-sim` creates: 3.10, with cyclonedds 0.10."""
PATIENCE_S = 20.0
JOINTS = [f"{leg}_{part}" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")]
NUMBERS = {"kp": 20.0, "kd": 0.5, "stand": [0.0, 0.8, -1.5] * 4, "scale": 0.25, "offset": [0.0, 0.8, -1.5] * 4}
"""Settings for a policy whose file has no data sheet."""


def signal(name, unit, elements, **more):
    free = (None,) * len(elements)
    return Signal(name=name, size=len(elements), unit=unit, elements=tuple(elements), low=free, high=free, **more)


def contract_of(*observation, action=None):
    """Return the contract of a Go2's policy at 50 Hz, with these signals."""
    shipped = Session.load(shipped_models()["panda-satesac"]).contract
    changes = {"observation": observation, "action": action or signal("targets", "1", JOINTS), "rate_hz": 50.0}
    return shipped.model_copy(update={**changes, "sheet": None, "training_ranges": None, "training": {}})


STATE = (
    signal("angular_velocity", "rad/s", "xyz"),
    signal("gravity", "1", "xyz"),
    signal("commanded_velocity", "m/s", "xy", command=True),
    signal("commanded_yaw_rate", "rad/s", ["yaw"], command=True),
    signal("joint_angles", "rad", JOINTS),
    signal("joint_velocities", "rad/s", JOINTS),
    signal("last_action", "1", JOINTS, command=True),
)
"""Signals that a policy of `--env go2` observes."""


class SimulatedGo2:
    """The example's robot.

    Args:
        domain: DDS domain.
        options: command-line options of `examples/unitree/robot.py`.
    """

    def __init__(self, domain, *options, config=LOOPBACK):
        self.domain = domain
        environment = {"PATH": os.environ["PATH"], "CYCLONEDDS_URI": config}
        command = [PYTHON, EXAMPLE / "robot.py", "--domain", domain, *options]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen(list(map(str, command)), env=environment, **pipes)
        self.lines = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.until(lambda message: message.get("event") == "listening")

    def until(self, condition, seconds=60.0):
        """Return the robot's first message that meets the condition; fail the test after `seconds` without one."""
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0:
            try:
                message = self.lines.get(timeout=remaining)
            except queue.Empty:
                break
            if condition(message):
                return message
        raise AssertionError(f"the robot did not say in {seconds} s what was waited for")

    def event(self, name, seconds=PATIENCE_S):
        return self.until(lambda message: message.get("event") == name, seconds)

    def now(self):
        """Discard earlier messages, and return the robot's next report of its state."""
        while not self.lines.empty():
            self.lines.get()
        return self.until(lambda message: "height" in message)

    def change(self, **facts):
        self.process.stdin.write(json.dumps(facts) + "\n")
        self.process.stdin.flush()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def _listen(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))


needs_robot = pytest.mark.skipif(not PYTHON.exists(), reason=f"{PYTHON} is not there: make unitree-sim makes it")
