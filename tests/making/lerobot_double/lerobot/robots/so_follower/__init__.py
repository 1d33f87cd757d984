"""The SO-101: names, units and manners of LeRobot's follower; its motors arrive at once."""

from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace

from lerobot.robots import RobotConfig

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")


class MotorNormMode(str, Enum):
    RANGE_0_100 = "range_0_100"
    RANGE_M100_100 = "range_m100_100"
    DEGREES = "degrees"


@RobotConfig.register_subclass("so101_follower")
@dataclass(kw_only=True)
class SOFollowerConfig(RobotConfig):
    port: str
    max_relative_target: float | None = None
    use_degrees: bool = True
    cameras: dict = field(default_factory=dict)
    calibrated: bool = True


class SOFollower:
    name = "so101_follower"

    def __init__(self, config):
        if config.port == "/dev/busy":
            raise ImportError("'feetech-servo-sdk' is required but not installed")
        self.config, self.is_connected, self.calls, self.positions = config, False, [], {}
        body = MotorNormMode.DEGREES if config.use_degrees else MotorNormMode.RANGE_M100_100
        modes = dict.fromkeys(JOINTS, body) | {"gripper": MotorNormMode.RANGE_0_100}
        self.bus = SimpleNamespace(motors={name: SimpleNamespace(norm_mode=mode) for name, mode in modes.items()})
        self.positions = {name: 10.0 for name in modes}

    @property
    def action_features(self):
        return {f"{name}.pos": float for name in self.bus.motors}

    @property
    def observation_features(self):
        return self.action_features | {name: (480, 640, 3) for name in self.config.cameras}

    @property
    def is_calibrated(self):
        return self.config.calibrated

    def connect(self, calibrate=True):
        self.calls.append(f"connect(calibrate={calibrate})")
        if self.config.port == "/dev/none":
            raise ConnectionError("Could not connect on port '/dev/none'")
        self.is_connected = True
        if calibrate and not self.is_calibrated:
            self.calibrate()

    def calibrate(self):
        raise AssertionError("LeRobot's calibration asks a person to move the arm")

    def get_observation(self):
        self.calls.append("get_observation")
        return {f"{name}.pos": place for name, place in self.positions.items()}

    def send_action(self, action):
        self.calls.append(dict(action))
        goals = {}
        for name, place in self.positions.items():
            step, most = action[f"{name}.pos"] - place, self.config.max_relative_target
            goals[name] = place + (step if most is None else max(-most, min(most, step)))
        self.positions = goals
        return {f"{name}.pos": goal for name, goal in goals.items()}

    def disconnect(self):
        self.calls.append("disconnect")
        self.is_connected = False
