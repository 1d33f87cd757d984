"""Models and settings for robots of LeRobot, and a double of LeRobot's interface: the folder `lerobot_double`."""

import importlib
import sys
from pathlib import Path

import numpy as np
from onnx import helper

from sami_runtime.signals import Signal

DOUBLE = Path(__file__).parent / "lerobot_double"
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
"""Joints of an SO-101, in LeRobot's order."""
KEYS = [f"{joint}.pos" for joint in JOINTS]
DEGREE = np.pi / 180.0


def _joints(name, unit):
    return Signal(name=name, size=6, unit=unit, elements=JOINTS, low=(None,) * 6, high=(None,) * 6)


ANGLES, VELOCITIES, GOAL = _joints("angles", "rad"), _joints("velocities", "rad/s"), _joints("goal", "rad")
TARGETS = Signal(name="targets", size=6, unit="rad", elements=JOINTS, low=(-2.0,) * 6, high=(2.0,) * 6)


class Servo:
    """A policy for a model file: action = angles + (goal - angles) / 2."""

    name, state, context_size = "servo", (), 0

    def nodes(self):
        return [
            helper.make_node("Add", ["observation.angles", "observation.goal"], ["sum"]),
            helper.make_node("Mul", ["sum", "half"], ["action"]),
        ]

    def initializers(self):
        return {"half": np.array([0.5], np.float32)}


SERVO = {"observation": (ANGLES, VELOCITIES, GOAL), "action": TARGETS, "rate_hz": 30.0, "episode_steps": 20}
"""Fields of the contract of `Servo`: an SO-101 at 30 Hz."""


def so101(**changes):
    """Return settings of an SO-101 with changes by key, see `with_entries`."""
    document = {
        "type": "so101_follower",
        "config": {"port": "/dev/ttyACM0", "id": "white"},
        "observation": {
            "angles": {
                "keys": KEYS,
                "unit": ["deg"] * 5 + ["%"],
                "factor": [DEGREE] * 5 + [0.02],
                "offset": [0.0] * 5 + [-0.2],
            },
            "velocities": {"velocity_of": "angles"},
            "goal": {"constant": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]},
        },
        "action": {
            "keys": KEYS,
            "unit": ["deg"] * 5 + ["%"],
            "factor": [57.29578] * 5 + [50.0],
            "offset": [0.0] * 5 + [10.0],
            "standing": "hold",
        },
    }
    return with_entries(document, changes)


def with_entries(document, changes):
    """Return a document with entries replaced, named `table__key`; None removes an entry."""
    for path, value in changes.items():
        *tables, key = path.split("__")
        place = document
        for table in tables:
            place = place[table]
        if value is None:
            del place[key]
        else:
            place[key] = value
    return document


def install_double(monkeypatch):
    """Make `import lerobot` import the double until the test ends."""
    monkeypatch.syspath_prepend(str(DOUBLE))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("lerobot", "draccus") or "_robot_" in name]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()


def forget_double():
    """Remove the double's modules, so that the next test imports LeRobot anew."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(DOUBLE)):
            del sys.modules[name]
