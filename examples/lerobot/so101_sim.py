"""A simulated SO-101 behind LeRobot's interface, with a cube and a camera's measurement of it: `type = "so101_sim"`.

Like a robot, it advances with the wall clock, independent of calls. It uses LeRobot's degrees and percent. It shares
the model of the arm with the training environment of the policy, but no code.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from lerobot.robots import RobotConfig

ARM = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")
CLOSED, OPEN = -0.174533, 1.745329
"""Angles of the gripper [rad] at 0 and 100 %."""
START = (0.0, -43.0, 48.0, 64.0, 0.0)
"""Angles of the five joints when the arm connects [degrees]."""
COUNT = 360.0 / 4096.0
"""Resolution of an STS3215's encoder [degrees]."""
LONGEST_S = 0.1
"""Largest simulated time [s] per call: after a longer pause the machine was busy, and the rest is skipped."""
MODEL = Path(__file__).parents[2] / "sami_train" / "envs" / "so101" / "so101.xml"


@RobotConfig.register_subclass("so101_sim")
@dataclass(kw_only=True)
class SO101SimConfig(RobotConfig):
    """Cube [m, rad, kg] and joints; `model` is an MJCF file with LeRobot's names of joints and motors, and a `cube`."""

    model: str | None = None
    cube_x: float = 0.22
    cube_y: float = 0.06
    cube_yaw: float = 0.3
    mass: float = 0.1
    friction: float = 0.5
    play: float = 0.0175
    camera_noise_m: float = 0.001
    seed: int = 0


class SO101Sim:
    """The simulation, with the interface of LeRobot's robots."""

    name = "so101_sim"

    def __init__(self, config):
        self.config, self.is_connected, self.is_calibrated = config, False, True
        self.model = mujoco.MjModel.from_xml_path(config.model or str(MODEL))
        self.data, self._noise = mujoco.MjData(self.model), np.random.default_rng(config.seed)

    @property
    def action_features(self):
        return {f"{name}.pos": float for name in (*ARM, "gripper")}

    @property
    def observation_features(self):
        return self.action_features | dict.fromkeys(("cube.x", "cube.y", "cube.cos", "cube.sin"), float)

    def connect(self, calibrate=True):
        config, model, data = self.config, self.model, self.data
        cube, geom = model.body("cube"), model.geom("cube")
        cube.inertia[:] *= config.mass / cube.mass[0]
        cube.mass[0], geom.friction[0], geom.priority[0] = config.mass, config.friction, 2
        for name in ARM:
            if (joint := mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, f"{name}_play")) >= 0:
                model.jnt_range[joint] = -config.play / 2.0, config.play / 2.0
        mujoco.mj_setConst(model, data)
        mujoco.mj_resetData(model, data)
        for name, angle in zip(ARM, START, strict=True):
            data.joint(name).qpos[0] = math.radians(angle)
        data.joint("gripper").qpos[0] = CLOSED
        self.send_action(dict(zip(self.action_features, (*START, 0.0), strict=True)), advance=False)
        turn = math.cos(config.cube_yaw / 2.0), 0.0, 0.0, math.sin(config.cube_yaw / 2.0)
        data.qpos[model.jnt_qposadr[cube.jntadr[0]] :][:7] = config.cube_x, config.cube_y, 0.02, *turn
        mujoco.mj_forward(model, data)
        self.is_connected, self._went_on = True, time.monotonic()

    def get_observation(self):
        self._go_on()
        values = {}
        for name in ARM:
            values[f"{name}.pos"] = COUNT * round(math.degrees(self.data.joint(name).qpos[0]) / COUNT)
        values["gripper.pos"] = 100.0 * (self.data.joint("gripper").qpos[0] - CLOSED) / (OPEN - CLOSED)
        cube = self.data.body("cube")
        x, y = cube.xpos[:2] + self._noise.normal(0.0, self.config.camera_noise_m, 2)
        yaw = math.atan2(cube.xmat[3], cube.xmat[0])
        return values | {"cube.x": x, "cube.y": y, "cube.cos": math.cos(yaw), "cube.sin": math.sin(yaw)}

    def send_action(self, action, advance=True):
        if advance:
            self._go_on()
        for name in ARM:
            motor = self.model.actuator(name)
            motor_range = self.model.actuator_ctrlrange[motor.id]
            self.data.ctrl[motor.id] = np.clip(math.radians(action[f"{name}.pos"]), *motor_range)
        gripper = CLOSED + action["gripper.pos"] / 100.0 * (OPEN - CLOSED)
        self.data.ctrl[self.model.actuator("gripper").id] = gripper
        return dict(action)

    def disconnect(self):
        self.is_connected = False

    def _go_on(self):
        """Simulate up to the current time, by at most `LONGEST_S`."""
        now, step = time.monotonic(), self.model.opt.timestep
        self._went_on = max(self._went_on, now - LONGEST_S)
        steps = int((now - self._went_on) / step)
        self._went_on += steps * step
        mujoco.mj_step(self.model, self.data, nstep=steps)
