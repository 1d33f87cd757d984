"""A simulated robot on ROS 2 to test the adapter on: PyBullet's Panda with a cube, in another process, behind topics.

It has the topics of ros2_control, without ROS: `/joint_states` at 100 Hz, with the joints in its own order; a
controller of joint velocities, which repeats the last command for ever; one of joint trajectories, which holds their
end; one of the gripper's position. A camera publishes the cube's pose at 30 Hz, late, in its own frame and by its own
clock. The goal of the cube is published when an episode begins. The robot uses no policy. It requests real-time
priority if that is permitted, because a robot's timing does not depend on load.

    export CYCLONEDDS_URI=file://$PWD/loopback.xml
    python robot.py               # until Ctrl-C; 60 s with `python robot.py 60`

`--speed 0.5` slows its time down to half, for busy machines; the driving loop must use the same speed.
"""

from __future__ import annotations

import argparse
import json
import math
import queue
import time
from collections import deque
from typing import Any

import gymnasium
import numpy as np

import sami_train.envs  # noqa: F401 - registers the world
from sami_runtime import MonotonicClock, real_time
from sami_runtime.realtime import highest_priority
from sami_runtime.robots.kit import Frame
from sami_runtime.robots.ros2.messages import JointMessage, Numbers, PoseMessage, Trajectory
from sami_runtime.robots.ros2.open_node import open_node
from sami_runtime.robots.ros2.settings import Qos

TICK_S, STEP_S, FRAME_S = 0.01, 0.002, 1 / 30
CAMERA = Frame.of([0.45, -0.5, 0.62], rpy=[-2.3, 0.15, 0.62])
"""Pose of the camera in the table's frame; arm.toml contains its calibration."""
FORCES = [87.0, 87.0, 87.0, 87.0, 12.0, 120.0, 120.0]
ARM, FINGERS = tuple(f"panda_joint{number}" for number in range(1, 8)), ("panda_finger_joint1", "panda_finger_joint2")
JOINT_ORDER = (*FINGERS, *ARM[::-1])
"""Order of the joints in `/joint_states`."""


def camera_clock(now: float) -> float:
    """Return the camera's time [s] at a time of the arm [s]: offset 1000 s, drift 0.3 ms per second."""
    return 1000.0 + 1.0003 * now


class Arm:
    """The simulated arm, its cube and its table."""

    def __init__(self) -> None:
        task = {"mass": 1.0, "friction": 1.0}
        self.world: Any = gymnasium.make("sami/PandaSkill-v0", tasks=task).unwrapped
        self.engine, self.bodies, self.now = self.world.sim.physics_client, self.world.sim._bodies_idx, 0.0
        self.world.reset(seed=0)
        self.aim: tuple[float, float, Any] | None = None
        self.goal = self.place([0.0])
        self.go(np.zeros(7))
        self.grip(0.0)

    def place(self, message: list[float]) -> Any:
        """Place the cube; return its goal (3,) [m]. The message: a seed, then optionally mass [kg] and friction."""
        seed, *task = message
        if task:
            self.world.set_dynamics(dict(zip(("mass", "friction"), task, strict=True)))
        draw, place, self.goal = np.random.default_rng(int(seed)), [0.0] * 3, [0.0] * 3
        while math.dist(place, self.goal) < 0.05:  # else the cube would begin at its goal
            place, self.goal = ([*draw.uniform(-0.15, 0.15, 2), 0.02] for _ in range(2))
        self.engine.resetBasePositionAndOrientation(self.bodies["object"], place, (0.0, 0.0, 0.0, 1.0))
        self.engine.resetBaseVelocity(self.bodies["object"], [0.0] * 3, [0.0] * 3)
        return self.goal

    def follow(self, message: Trajectory) -> None:
        """Move to the joint positions [rad] of a trajectory within its time."""
        states = self.engine.getJointStates(self.bodies["panda"], range(7))
        position = dict(zip(message.names, message.position, strict=True))
        ends = np.array([[state[0] for state in states], [position[name] for name in ARM]])
        self.aim = (self.now, message.within_s, ends)

    def go(self, velocities: Any) -> None:
        """Set joint velocities (7,) [rad/s], which apply until the next command; there is no timeout."""
        self.aim = None
        self.engine.setJointMotorControlArray(
            self.bodies["panda"],
            range(7),
            self.engine.VELOCITY_CONTROL,
            targetVelocities=list(velocities),
            forces=FORCES,
        )

    def grip(self, position: float) -> None:
        """Set the position of each finger [m]."""
        self.engine.setJointMotorControlArray(
            self.bodies["panda"],
            (9, 10),
            self.engine.POSITION_CONTROL,
            targetPositions=[position] * 2,
            forces=[170.0] * 2,
        )

    def step(self) -> None:
        """Simulate one tick of `TICK_S`."""
        if self.aim:
            start_time, within, (start, end) = self.aim
            share = min(1.0, (self.now + TICK_S - start_time) / within)
            self.engine.setJointMotorControlArray(
                self.bodies["panda"],
                range(7),
                self.engine.POSITION_CONTROL,
                targetPositions=list(start + share * (end - start)),
                forces=FORCES,
            )
        for _ in range(round(TICK_S / STEP_S)):
            self.engine.stepSimulation()
        self.now += TICK_S

    def joints(self) -> JointMessage:
        """Return the message of `/joint_states`: positions and velocities in `JOINT_ORDER`."""
        states = self.engine.getJointStates(self.bodies["panda"], [*range(7), 9, 10])
        state_of = dict(zip((*ARM, *FINGERS), states, strict=True))
        position, velocity = (np.array([state_of[name][part] for name in JOINT_ORDER]) for part in (0, 1))
        return JointMessage(1.0 + self.now, JOINT_ORDER, position, velocity)

    def cube(self) -> Frame:
        """Return the cube's pose in the table's frame."""
        position, xyzw = self.engine.getBasePositionAndOrientation(self.bodies["object"])
        return Frame.of(position, xyzw=xyzw)

    def image(self) -> PoseMessage:
        """Return the camera's message: the cube's pose in the camera's frame."""
        pose = CAMERA.inverse @ self.cube()
        return PoseMessage(camera_clock(self.now), "camera", pose.translation, pose.xyzw)


def serve(seconds: float, speed: float, late: float, domain: int | None) -> None:
    """Simulate the arm, its controllers and its camera; print seed and goal when an episode begins."""
    node, arm = open_node("cyclonedds", domain, MonotonicClock()), Arm()
    rest = Qos(durability="transient_local")
    joints, camera = (
        node.publisher("/joint_states", JointMessage, Qos()),
        node.publisher("/camera/cube", PoseMessage, Qos()),
    )
    goal, commands = node.publisher("/goal", PoseMessage, rest), queue.SimpleQueue[tuple[str, Any]]()
    for topic in ("/arm_velocity_controller/commands", "/gripper_controller/commands", "/episode"):
        node.subscribe(
            topic, Numbers, Qos(depth=10), lambda message, _, topic=topic: commands.put((topic, message.data))
        )

    trajectories = "/arm_trajectory_controller/joint_trajectory"
    node.subscribe(trajectories, Trajectory, Qos(), lambda message, _: commands.put((trajectories, message)))

    def publish_goal() -> None:
        goal.send(PoseMessage(1.0 + arm.now, "table", np.array(arm.goal), np.array([0.0, 0.0, 0.0, 1.0])))

    images, next_image = deque[tuple[float, PoseMessage]](), 0.0
    publish_goal()
    print("listening", flush=True)
    start = time.monotonic()
    while arm.now < seconds:
        time.sleep(max(0.0, start + (arm.now + TICK_S) / speed - time.monotonic()))
        while not commands.empty():
            topic, data = commands.get()
            if isinstance(data, Trajectory):
                arm.follow(data)
            elif topic == "/episode":
                arm.place(data.tolist())
                publish_goal()
                print(json.dumps({"episode": data.tolist(), "goal": np.round(arm.goal, 4).tolist()}), flush=True)
            elif topic.startswith("/gripper"):
                arm.grip(float(data[0]))
            elif len(data) == 7:
                arm.go(data)
        arm.step()
        joints.send(arm.joints())
        if arm.now >= next_image:
            images.append((arm.now + late - TICK_S / 2, arm.image()))
            next_image += FRAME_S
        while images and images[0][0] < arm.now:
            camera.send(images.popleft()[1])
    node.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A simulated arm behind ROS 2's topics.")
    parser.add_argument("seconds", type=float, nargs="?", default=math.inf, help="how long it answers [s]")
    parser.add_argument("--speed", type=float, default=1.0, help="how fast its time passes (1)")
    parser.add_argument("--late", type=float, default=0.03, help="of the camera [s] (0.03)")
    parser.add_argument("--domain", type=int, help="of ROS (ROS_DOMAIN_ID, or 0)")
    arguments = parser.parse_args()
    with real_time(min(highest_priority(), 50) or None):
        serve(arguments.seconds, arguments.speed, arguments.late, arguments.domain)
