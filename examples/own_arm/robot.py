"""A simulated arm to test `arm.py` on: PyBullet's Panda with a cube, in another process, behind UDP.

It receives joint velocities, and sends positions and velocities of its joints and counts of its gripper at 100 Hz,
stamped by its own clock. A camera sends the cube's pose at 30 Hz, in its own frame, 30 ms late, stamped by a third
clock with an offset and a drift. Neither uses the policy or the table's frame.

    python robot.py               # until Ctrl-C; 60 s with `python robot.py 60`

`--speed 0.5` slows its time down to half, for busy machines; the driving loop must use the same speed.
"""

from __future__ import annotations

import argparse
import json
import math
import select
import socket
import time
from collections import deque
from typing import Any

import gymnasium
import numpy as np

import sami_train.envs  # noqa: F401 - registers the world
from sami_runtime.robots.kit import Frame, Gripper

ROBOT, HOST = ("127.0.0.1", 47101), ("127.0.0.1", 47102)
TICK_S, STEP_S, FRAME_S, LATE_S, DEADMAN_S = 0.01, 0.002, 1 / 30, 0.03, 0.1
CAMERA = Frame.of([0.45, -0.5, 0.62], rpy=[-2.3, 0.15, 0.62])
"""Pose of the camera in the table's frame, which the adapter must calibrate."""
GRIPPER = Gripper(closed=255.0, open=0.0, widest_m=0.08)
STIFF = 2000.0
"""Load torque per velocity of yielding [N m s/rad]: the shoulder carries some 30 N m, so it sags at 0.015 rad/s."""
FORCES = [87.0, 87.0, 87.0, 87.0, 12.0, 120.0, 120.0]


def camera_clock(now: float) -> float:
    """Return the camera's time [s] at a time of the arm [s]: offset 1000 s, drift 0.3 ms per second."""
    return 1000.0 + 1.0003 * now


class Arm:
    """The simulated arm, its cube and its table.

    Args:
        task: Mass of the cube [kg] and friction of the table, as in `--env panda`.
    """

    def __init__(self, task: dict[str, float]) -> None:
        self.world: Any = gymnasium.make("sami/PandaSkill-v0", tasks=task).unwrapped
        self.engine, self.bodies = self.world.sim.physics_client, self.world.sim._bodies_idx
        self.now, self.commanded_at = 0.0, -math.inf
        self.home(0)

    def home(self, seed: int) -> None:
        """Move home, and place the cube on the table by the seed."""
        self.world.reset(seed=seed)
        self.go([0.0] * 7, 255.0)

    def go(self, velocities: list[float], gripper: float) -> None:
        """Set joint velocities (7,) [rad/s] and the gripper's counts, until the next command or the deadman."""
        self.commanded_at, (panda, engine) = self.now, (self.bodies["panda"], self.engine)
        angles = [state[0] for state in engine.getJointStates(panda, [*range(7), 9, 10])]
        load = engine.calculateInverseDynamics(panda, angles, [0.0] * 9, [0.0] * 9)
        sagging = [velocity - torque / STIFF for velocity, torque in zip(velocities, load, strict=False)]
        engine.setJointMotorControlArray(
            panda, range(7), engine.VELOCITY_CONTROL, targetVelocities=sagging, forces=FORCES
        )
        half = GRIPPER.width(gripper) / 2
        engine.setJointMotorControlArray(
            panda, (9, 10), engine.POSITION_CONTROL, targetPositions=[half] * 2, forces=[170.0] * 2
        )

    def step(self) -> None:
        """Simulate one tick of `TICK_S`; stop if the deadman's time has passed."""
        if self.now - self.commanded_at > DEADMAN_S:
            self.go([0.0] * 7, self.arm()["gripper"])
        for _ in range(round(TICK_S / STEP_S)):
            self.engine.stepSimulation()
        self.now += TICK_S

    def arm(self) -> dict[str, Any]:
        """Return the arm's message: joint positions [rad], velocities [rad/s] and gripper counts."""
        states = self.engine.getJointStates(self.bodies["panda"], [*range(7), 9, 10])
        positions, velocities = ([state[part] for state in states] for part in (0, 1))
        table = {
            "positions": positions[:7],
            "velocities": velocities[:7],
            "gripper": GRIPPER.command(sum(positions[7:])),
        }
        return {"from": "arm", "time": self.now, **table}

    def cube(self) -> Frame:
        """Return the cube's pose in the table's frame."""
        position, xyzw = self.engine.getBasePositionAndOrientation(self.bodies["object"])
        return Frame.of(position, xyzw=xyzw)

    def image(self) -> dict[str, Any]:
        """Return the camera's message: the cube's pose in the camera's frame."""
        transform = CAMERA.inverse @ self.cube()
        pose = {"position": transform.translation.tolist(), "xyzw": transform.xyzw.tolist()}
        return {"from": "camera", "time": camera_clock(self.now), **pose}


def serve(seconds: float, speed: float, task: dict[str, float]) -> None:
    """Simulate the arm and its camera, and print the cube's position whenever the arm is stopped."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(ROBOT)
    arm, images, next_image = Arm(task), deque[tuple[float, dict[str, Any]]](), 0.0
    print(f"listening at {ROBOT[0]}:{ROBOT[1]}", flush=True)
    start = time.monotonic()
    while arm.now < seconds:
        due = start + (arm.now + TICK_S) / speed
        while select.select([link], [], [], max(0.0, due - time.monotonic()))[0]:
            document = json.loads(link.recv(65536))
            if "home" in document:
                arm.home(document["home"])
            elif "velocities" in document:
                arm.go(document["velocities"], document["gripper"])
            else:
                arm.go([0.0] * 7, arm.arm()["gripper"])
                print(json.dumps({"cube": np.round(arm.cube().translation, 4).tolist()}), flush=True)
        arm.step()
        link.sendto(json.dumps(arm.arm()).encode(), HOST)
        if arm.now >= next_image:
            images.append((arm.now + LATE_S - TICK_S / 2, arm.image()))
            next_image += FRAME_S
        while images and images[0][0] < arm.now:
            link.sendto(json.dumps(images.popleft()[1]).encode(), HOST)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A simulated arm behind UDP, for arm.py to drive.")
    parser.add_argument("seconds", type=float, nargs="?", default=math.inf, help="how long it answers [s]")
    parser.add_argument("--speed", type=float, default=1.0, help="how fast its time passes (1)")
    parser.add_argument("--mass", type=float, default=1.0, help="of the cube [kg] (1)")
    parser.add_argument("--friction", type=float, default=1.0, help="of the table (1)")
    arguments = parser.parse_args()
    serve(arguments.seconds, arguments.speed, {"mass": arguments.mass, "friction": arguments.friction})
