"""A plugin as they are: `connect` without `calibrate`, a `send_action` that returns nothing, and keys of its own."""

from dataclasses import dataclass

from lerobot.robots import RobotConfig


@RobotConfig.register_subclass("bare_base")
@dataclass(kw_only=True)
class BareBaseConfig(RobotConfig):
    calibrated: bool = True


class BareBase:
    name = "bare_base"
    observation_features = {"x.pos": float, "x.vel": float, "tilt.pos": float}  # noqa: RUF012
    action_features = {"x.vel": float, "tilt.pos": float, "lamp": float}  # noqa: RUF012

    def __init__(self, config):
        self.config, self.is_connected, self.actions, self.was_calibrated = config, False, [], False
        self.observation = {"x.pos": 1.0, "x.vel": 0.0, "tilt.pos": 0.3}

    @property
    def is_calibrated(self):
        return self.config.calibrated

    def connect(self):
        self.is_connected = True
        self.calibrate()

    def calibrate(self):
        self.was_calibrated = True

    def get_observation(self):
        return dict(self.observation)

    def send_action(self, action):
        self.actions.append({key: action[key] for key in self.action_features})

    def disconnect(self):
        self.is_connected = False
