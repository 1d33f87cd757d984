"""An arm of one's own, by the kit: joint velocities 100 times a second, a late camera with a clock of its own.

    python robot.py &                                                             # the arm, simulated
    sami check-adapter arm:make --model panda-satesac --adapter-config arm.toml   # reads, and moves nothing
    sami run --adapter arm:make --model panda-satesac --adapter-config arm.toml --loop-hz 100 --episodes 12 --pause 0

What is known of the arm stands in `arm.toml`; where an episode begins and where the base stands, in the model file.
"""

import json
import socket
import threading
from contextlib import suppress

import numpy as np
import pybullet_data

from sami_runtime import Executed
from sami_runtime.kit import ClockSync, DifferentialIK, Differentiator, Frame, Gripper, Latest

URDF, HAND = f"{pybullet_data.getDataPath()}/franka_panda/panda.urdf", "panda_grasptarget"
JOINTS = [f"panda_joint{number}" for number in range(1, 8)]
DOWN = Frame.of(rpy=[np.pi, 0.0, 0.0]).rotation


class OwnArm:
    def __init__(self, clock, contract, config):
        self.clock, self.observation, self.action = clock, contract.observation, contract.action
        sheet, self.period = contract.sheet.numbers, 1.0 / contract.rate_hz
        self.base, self.camera = Frame.of(sheet["arm_base"].values), Frame.fit(**config["camera"])
        self.ik = DifferentialIK(URDF, HAND, JOINTS, home=sheet["home_joints"].values)
        self.gripper, self.latest = Gripper(**config["gripper"]), Latest(self.observation, clock)
        self.goal, self.reach = None, np.array(config["reach_m"])
        self.clocks = {"arm": ClockSync(), "camera": ClockSync(delay_s=config["camera_delay_s"])}
        self.moves, self.turns = Differentiator(), Differentiator.of_rotations()
        self.link, self.robot, self.open = socket.socket(type=socket.SOCK_DGRAM), tuple(config["robot"]), True
        self.link.bind(tuple(config["here"]))
        self.link.settimeout(0.1)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while self.open:
            with suppress(TimeoutError):
                told = json.loads(self.link.recv(65536))
                self.hear(told, self.clocks[told["from"]].ours(told["time"], self.clock.now()))
        self.link.close()

    def hear(self, told, measured):
        if told["from"] == "camera":
            cube = self.camera @ Frame.of(told["position"], xyzw=told["xyzw"])
            self.latest.put(measured, cube_position=cube.translation, achieved_goal=cube.translation)
            self.latest.put(measured, cube_rotation=cube.rpy, cube_velocity=self.moves(cube.translation, measured))
            self.latest.put(measured, cube_angular_velocity=self.turns(cube.rotation, measured))
        else:
            self.joints, hand = told["positions"], self.base @ self.ik.pose(told["positions"])
            speed = self.base.vectors(self.ik.velocity(told["positions"], told["velocities"]))
            width = self.gripper.width(told["gripper"])
            self.latest.put(measured, ee_position=hand.translation, ee_velocity=speed, gripper_width=[width])

    def reset(self, seed=None):
        self.tell(home=seed or 0)
        self.clock.sleep_until(self.clock.now() + 0.2)
        self.latest.reset()
        self.goal = [*np.random.default_rng(seed).uniform(-0.15, 0.15, 2), 0.02]
        self.latest.always(desired_goal=self.goal)

    def read(self):
        self.seen = self.latest.observation()
        return self.seen

    def write(self, action):
        wanted = self.reach * action[:3]
        wanted[2] = max(wanted[2], -self.seen.values["ee_position"][2])
        motion = self.ik.move(self.joints, self.base.inverse.vectors(wanted), self.period, DOWN)
        width = self.seen.values["gripper_width"][0] + 0.2 * action[3]
        self.tell(velocities=motion.velocities.tolist(), gripper=self.gripper.command(width))
        done = bool(np.linalg.norm(self.seen.values["achieved_goal"] - self.goal) < 0.05)
        sent = np.append(self.base.vectors(motion.displacement) / self.reach, action[3])
        return Executed(np.clip(sent, -1.0, 1.0).astype(np.float32), done, {"is_success": done})

    def stop(self):
        self.tell(stop=True)

    def close(self):
        self.open = False

    def tell(self, **message):
        if self.open:  # after close() there is nobody to tell
            self.link.sendto(json.dumps(message).encode(), self.robot)


make = OwnArm
