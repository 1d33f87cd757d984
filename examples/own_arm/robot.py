"""An arm to try `arm.py` on: PyBullet's Panda with a cube, in a process of its own, behind UDP.

It takes joint velocities, and answers 100 times a second with positions and velocities of its joints and counts of its
gripper, stamped by its own clock. A camera beside it tells the cube's pose 30 times a second, in its own frame, 30 ms
late, stamped by another clock yet, with an offset and a drift. Both know nothing of a policy or of the table's frame.

    python robot.py               # until Ctrl-C; 60 s with `python robot.py 60`

`--speed 0.5` lets its time pass half as fast, for machines that are busy; whoever drives it then has to do so, too.
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
"""Where the camera hangs: nobody tells, it is to be calibrated."""
GRIPPER = Gripper(closed=255.0, open=0.0, widest_m=0.08)
STIFF = 2000.0
"""Torque under which a joint gives way at 1 rad/s [N m s/rad]: the shoulder carries some 30 N m, and sags."""
FORCES = [87.0, 87.0, 87.0, 87.0, 12.0, 120.0, 120.0]


def camera_clock(now: float) -> float:
    """Return the camera's time by the arm's [s]: it began long before, and gains 0.3 ms in a second."""
    return 1000.0 + 1.0003 * now


class Arm:
    """The simulated arm, its cube and its table.

    Args:
        task: Mass of the cube and friction of the table, as of `--env panda`.
    """

    def __init__(self, task: dict[str, float]) -> None:
        self.world: Any = gymnasium.make("sami/PandaSkill-v0", tasks=task).unwrapped
        self.engine, self.bodies = self.world.sim.physics_client, self.world.sim._bodies_idx
        self.now, self.told_at = 0.0, -math.inf
        self.home(0)

    def home(self, seed: int) -> None:
        """Go home; somebody puts the cube on the table."""
        self.world.reset(seed=seed)
        self.go([0.0] * 7, 255.0)

    def go(self, velocities: list[float], gripper: float) -> None:
        """Take joint velocities [rad/s] and the gripper's command, until the next ones or the deadman."""
        self.told_at, (panda, engine) = self.now, (self.bodies["panda"], self.engine)
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
        """Let a tick pass."""
        if self.now - self.told_at > DEADMAN_S:
            self.go([0.0] * 7, self.arm()["gripper"])
        for _ in range(round(TICK_S / STEP_S)):
            self.engine.stepSimulation()
        self.now += TICK_S

    def arm(self) -> dict[str, Any]:
        """Return what the arm tells."""
        states = self.engine.getJointStates(self.bodies["panda"], [*range(7), 9, 10])
        positions, velocities = ([state[part] for state in states] for part in (0, 1))
        table = {
            "positions": positions[:7],
            "velocities": velocities[:7],
            "gripper": GRIPPER.command(sum(positions[7:])),
        }
        return {"from": "arm", "time": self.now, **table}

    def cube(self) -> Frame:
        """Return where the cube is, by the table."""
        position, xyzw = self.engine.getBasePositionAndOrientation(self.bodies["object"])
        return Frame.of(position, xyzw=xyzw)

    def image(self) -> dict[str, Any]:
        """Return what the camera sees."""
        transform = CAMERA.inverse @ self.cube()
        pose = {"position": transform.translation.tolist(), "xyzw": transform.xyzw.tolist()}
        return {"from": "camera", "time": camera_clock(self.now), **pose}


def serve(seconds: float, speed: float, task: dict[str, float]) -> None:
    """Play the arm and its camera, and print where the cube is whenever the arm is stopped."""
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
