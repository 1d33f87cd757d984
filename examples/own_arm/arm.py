"""An adapter built from the kit, for an arm with joint velocities at 100 Hz and a late camera with its own clock.

    python robot.py &                                 # the simulated arm
    set="--model panda-satesac --adapter-config arm.toml --limits limits.toml"
    sami check-adapter arm:OwnArm $set --excite       # reads, and moves each element of the action a little
    sami drive robot.toml --check                     # everything but motion
    sami drive robot.toml

`arm.toml` contains the constants of the arm. The model file defines the pose of its base, its home pose and the
displacement that the hand reaches.
"""

import numpy as np
import pybullet_data

from sami_runtime import AdapterError, Executed
from sami_runtime.robots.kit import ClockSync, Datagrams, DifferentialIK, Differentiator, Frame, Gripper, Latest

URDF = f"{pybullet_data.getDataPath()}/franka_panda/panda.urdf"


class OwnArm:
    def __init__(self, clock, contract, config):
        self.observation, self.action, sheet = contract.observation, contract.action, contract.sheet.numbers
        self.gripper, self.reach = Gripper(**config["gripper"]), np.array(sheet["reached_displacement"].values)
        self.base, self.camera = Frame.of(sheet["arm_base"].values), Frame.fit(**config["camera"])
        self.ik = DifferentialIK(URDF, **config["kinematics"], home=sheet["home_joints"].values)
        self.period, self.latest = 1.0 / contract.rate_hz, Latest(self.observation, clock, note=lambda: self.link.fault)
        self.clocks = {name: ClockSync(**settings) for name, settings in config["clocks"].items()}
        self.moves, self.turns = Differentiator(), Differentiator.of_rotations()
        self.link = Datagrams(config["here"], config["robot"], self.hear, clock)

    def hear(self, data, received):
        measured = self.clocks[data["from"]].local_time(data["time"], received)
        if data["from"] == "camera":
            cube = self.camera @ Frame.of(data["position"], xyzw=data["xyzw"])
            self.latest.put(measured, cube_position=cube.translation, achieved_goal=cube.translation)
            self.latest.put(measured, cube_rotation=cube.rpy, cube_velocity=self.moves(cube.translation, measured))
            self.latest.put(measured, cube_angular_velocity=self.turns(cube.rotation, measured))
        else:
            self.measured, self.joints, hand = measured, data["positions"], self.base @ self.ik.pose(data["positions"])
            self.latest.put(measured, ee_position=hand.translation, gripper_width=[self.gripper.width(data["gripper"])])
            self.latest.put(measured, ee_velocity=self.base.vectors(self.ik.velocity(self.joints, data["velocities"])))

    def reset(self, seed=None):
        self.link.reset()
        self.link.send(home=seed or 0)  # the arm moves home, and the cube is placed by the seed
        self.latest.clock.sleep_until(self.latest.clock.now() + 0.2)
        self.latest.reset()
        self.latest.always(desired_goal=[*np.random.default_rng(seed).uniform(-0.15, 0.15, 2), 0.02])

    def read(self):
        self.values = (observation := self.latest.observation()).values
        return observation

    def write(self, action):
        if self.latest.clock.now() - self.measured > 0.3:  # a person's pause reads nothing that the gate could judge
            raise AdapterError("the joints fell silent, so no velocities are computed from where they were.")
        shift = np.maximum(self.reach * action[:3], [-1, -1, min(-self.values["ee_position"][2], 0)])  # above the table
        motion = self.ik.move(self.joints, self.base.inverse.vectors(shift), self.period)
        width = self.gripper.command(self.values["gripper_width"][0] + 0.2 * action[3])
        self.link.send(velocities=motion.velocities.tolist(), gripper=width)
        applied = np.append(self.base.vectors(motion.displacement) / self.reach, action[3]).clip(-1.0, 1.0)
        done = bool(np.linalg.norm(self.values["achieved_goal"] - self.values["desired_goal"]) < 0.05)
        return Executed(np.float32(np.where(abs(applied - action) < 0.01, action, applied)), done, {"is_success": done})

    def stop(self):
        self.link.send(stop=True)

    def close(self):
        self.link.close()
