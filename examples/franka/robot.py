"""A simulated Franka FR3 with hand, table, cube and camera to test the adapter on: franka-sim with the FR3's protocol.

It needs its own environment, which `make franka-sim` creates and starts this in. Franka's library connects to it
as to a robot (TCP 1337 and UDP for the arm, 1338 for the hand); one MuJoCo model contains arm, hand and cube. The
camera sends the cube's pose as JSON over UDP, in the table's frame, to the last sender of `{"place": SEED}`, which
also places the cube on the table, as a person would between two episodes.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import franka_sim
import mujoco
import numpy as np
from franka_sim.control_modes import ControlMode
from franka_sim.franka_sim_server import FrankaSimServer
from franka_sim.gripper.backend import GripperBackend, GripperStateData, validate_width
from franka_sim.mujoco_franka_sim import ARM_INITIAL_Q, MujocoFrankaSim
from franka_sim.sim_common import FR3_FORCE_LIMITS
from numpy.typing import NDArray

BASE = np.array([-0.6, 0.0, 0.0])
"""Position of the arm's base in the table's frame [m]."""
ARMATURE = 0.195
"""Armature of the arm's joints [kg m2]: without the inertia of motors and gears, the arm drifts."""
CUBE, FINGERS, HAND, TABLE = "cube", ("finger1", "finger2"), "hand", "table"
WIDEST = 0.08
RADIUS = {"finger": 0.5, "hand": 0.25}
"""Friction of the cube against the arm's parts; against the table it is half of the table's, as in training."""
KP, KD = np.array([4500.0] * 2 + [3500.0] * 2 + [2000.0] * 3), np.array([200.0] * 2 + [160.0] * 2 + [80.0] * 3)
"""Gains of the arm's servos [Nm/rad, Nm s/rad]."""
LAG = 0.2
"""Fraction of the error that the servos' target moves in each cycle: a lag of 5 ms, which smooths irregular packets."""
STIFF, DAMPED = 4000.0, 45.0
"""Gains of the fingers' servos [N/m, N s/m]."""


def arm_urdf() -> str:
    """Return franka-sim's URDF of the arm, without its meshes."""
    text = (Path(franka_sim.__file__).parent / "models" / "fr3.urdf").read_text()
    text = re.sub(r"<(visual|collision)\b.*?</\1>", "", text, flags=re.DOTALL)
    compiler = (
        '<mujoco><compiler fusestatic="false" boundmass="0.001" boundinertia="1e-5" balanceinertia="true"/></mujoco>'
    )
    return re.sub(r"(<robot [^>]*>)", rf"\1{compiler}", text, count=1)


def build_model() -> Any:
    """Return the scene (`mujoco.MjModel`): arm, hand, table, cube, and their contact pairs."""
    spec = mujoco.MjSpec.from_string(arm_urdf())
    spec.option.timestep = 0.001
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    box = mujoco.mjtGeom.mjGEOM_BOX
    ghost = {"contype": 0, "conaffinity": 0}  # only the pairs below collide
    for joint in spec.joints:
        joint.armature = ARMATURE
    hand = spec.find_body("link8").add_body(name=HAND, quat=[np.cos(np.pi / 8), 0.0, 0.0, -np.sin(np.pi / 8)])
    hand.add_geom(name=HAND, type=box, size=[0.0316, 0.102, 0.033], pos=[0.0, 0.0, 0.033], mass=0.7, **ghost)
    for name, side in zip(FINGERS, (1.0, -1.0), strict=True):
        finger = hand.add_body(name=name, pos=[0.0, 0.0, 0.0584])
        finger.add_joint(
            name=f"finger_joint{name[-1]}",
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=[0.0, side, 0.0],
            range=[0.0, WIDEST / 2],
            limited=True,
            armature=0.1,
        )
        finger.add_geom(
            name=name, type=box, size=[0.0088, 0.0071, 0.0114], pos=[0.0, side * 0.0071, 0.0425], mass=0.02, **ghost
        )
        finger.add_geom(type=box, size=[0.0105, 0.006, 0.0155], pos=[0.0, side * 0.0195, 0.0155], mass=0.05, **ghost)
    coupled = spec.add_equality(type=mujoco.mjtEq.mjEQ_JOINT, name1="finger_joint1", name2="finger_joint2")
    coupled.objtype = mujoco.mjtObj.mjOBJ_JOINT
    coupled.data[:5] = [0.0, 1.0, 0.0, 0.0, 0.0]
    for body in spec.bodies:
        body.gravcomp = 1.0
    # The table: 1.1 x 0.7 m, its surface at 0.
    spec.worldbody.add_geom(name=TABLE, type=box, size=[0.55, 0.35, 0.2], pos=[0.3, 0.0, -0.2], **ghost)
    cube = spec.worldbody.add_body(name=CUBE, pos=[0.6, 0.0, 0.02])
    cube.add_freejoint()
    cube.add_geom(name=CUBE, type=box, size=[0.02] * 3, mass=1.0, **ghost)
    for geom, other, slides in (
        (CUBE, TABLE, 0.5),
        *((CUBE, finger, RADIUS["finger"]) for finger in FINGERS),
        (CUBE, HAND, RADIUS["hand"]),
        *((part, TABLE, 0.5) for part in (*FINGERS, HAND)),
    ):
        spec.add_pair(
            name=f"{geom}-{other}",
            geomname1=geom,
            geomname2=other,
            condim=4,
            friction=[slides, slides, 0.002, 0.0, 0.0],
            solref=[0.005, 1.0],
            solimp=[0.95, 0.99, 0.001, 0.5, 2.0],
        )
    return spec.compile()


class Scene(MujocoFrankaSim):
    """The physics of franka-sim, with a cube that the hand can push and lift.

    Args:
        camera: Host and port at which the camera listens.
        images_hz: Rate of the cube's poses [Hz].
        late_s: Delay [s] from an image to its message.
        task: Mass of the cube [kg] and friction of the table, until a message sets others.
    """

    def __init__(self, camera: tuple[str, int], images_hz: float, late_s: float, task: dict[str, float]) -> None:
        super().__init__(enable_vis=False, enable_hand=True)
        self._camera = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._camera.bind(camera)
        self._camera.setblocking(False)
        self._sender: Any = None
        self._every, self._late_s, self._steps = round(1000 / images_hz), late_s, 0
        self._images: deque[tuple[float, bytes]] = deque()
        self._task, self._target = task, ARM_INITIAL_Q.copy()
        self.pull = np.zeros(2)
        """Largest force of each finger [N]."""

    def initialize_simulation(self) -> None:
        """Compile the scene and let it settle."""
        self.model, self.prefix = build_model(), ""
        self.data = mujoco.MjData(self.model)
        self._bind_model()
        # The protocol's flange frame; franka-sim uses link 7, which is 107 mm before it.
        self.ee_body_id = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, "link8")
        self.model.body_gravcomp[self.model.body(CUBE).id] = 0.0
        self.cube = self.model.body(CUBE).jntadr[0]
        self.data.qpos[self.arm_qpos_adr] = self.latest_joint_positions
        self.latest_finger_positions = np.zeros(2)
        self.place(0, **self._task)
        mujoco.mj_forward(self.model, self.data)
        for _ in range(100):
            self._apply_control()
            mujoco.mj_step(self.model, self.data)
        self._read_and_publish_state()

    def place(self, seed: int, mass: float, friction: float) -> None:
        """Place the cube at rest, x and y drawn within 0.15 m of the table's origin; set mass [kg] and friction."""
        body, rng = self.model.body(CUBE), np.random.default_rng([seed, 1])
        body.mass[0], body.inertia[:] = mass, mass * 0.04**2 / 6
        self.model.pair_friction[self.model.pair(f"{CUBE}-{TABLE}").id, :2] = 0.5 * friction
        mujoco.mj_setConst(self.model, mujoco.MjData(self.model))
        at, dof = self.model.jnt_qposadr[self.cube], self.model.jnt_dofadr[self.cube]
        where = np.append(rng.uniform(-0.15, 0.15, 2), 0.02) - BASE
        self.data.qpos[at : at + 7] = [*where, 1.0, 0.0, 0.0, 0.0]
        self.data.qvel[dof : dof + 6] = 0.0

    def finger_control_force(self) -> NDArray[np.float64]:
        """Return the force of each finger [N]."""
        error = self.latest_finger_positions - self.data.qpos[self.finger_qpos_adr]
        force = STIFF * error - DAMPED * self.data.qvel[self.finger_dofs_idx]
        clipped: NDArray[np.float64] = np.clip(force, -self.pull, self.pull)
        return clipped

    def arm_control_torque(self) -> NDArray[np.float64]:
        """Return the torques of the arm's joints [Nm]: position servos with a lag, as a robot's own controller has."""
        if self.control_mode is not ControlMode.POSITION:
            self._target = np.array(self.data.qpos[self.arm_qpos_adr])
            torques: NDArray[np.float64] = super().arm_control_torque()
            return torques
        before, self._target = self._target, self._target + (self.latest_joint_positions - self._target) * LAG
        speed, dq = (self._target - before) / self.dt, self.data.qvel[self.arm_dofs_idx]
        torques = KP * (self._target - self.data.qpos[self.arm_qpos_adr]) + KD * (speed - dq)
        return np.clip(torques, -FR3_FORCE_LIMITS, FR3_FORCE_LIMITS)

    def _apply_control(self) -> None:
        super()._apply_control()
        self._steps += 1
        if self._steps % 4 == 0:
            self._listen()
        if self._sender is not None and self._steps % self._every == 0:
            self._images.append((time.monotonic() + self._late_s, self._image()))
        while self._images and self._images[0][0] <= time.monotonic():
            self._camera.sendto(self._images.popleft()[1], self._sender)

    def _listen(self) -> None:
        try:
            message, self._sender = self._camera.recvfrom(4096)
        except BlockingIOError:
            return
        document = json.loads(message)
        if "place" in document:
            self._task = {**self._task, **document.get("task", {})}
            self.place(int(document["place"]), **self._task)

    def _image(self) -> bytes:
        at = self.model.jnt_qposadr[self.cube]
        pose = self.data.qpos[at : at + 7]
        xyzw = [*pose[4:7], pose[3]]
        document = {"time": time.monotonic(), "position": (pose[:3] + BASE).tolist(), "xyzw": [float(x) for x in xyzw]}
        return json.dumps(document).encode()


class Hand(GripperBackend):
    """A hand whose commands return when they are done, as Franka's do.

    Args:
        scene: The physics that contain its fingers.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene, self._grasped = scene, False

    def homing(self) -> bool:
        """Open; return whether the hand reached its full width."""
        return self.move(WIDEST, 0.1)

    def move(self, width: float, speed: float) -> bool:
        """Move to a width [m] at a speed [m/s]; return whether the hand reached it within 5 mm."""
        validate_width(width, WIDEST, "move")
        self._grasped = False
        self._scene.pull = np.full(2, 70.0)
        return self._go(width, speed)

    def grasp(self, width: float, epsilon_inner: float, epsilon_outer: float, speed: float, force: float) -> bool:
        """Close until the fingers are blocked, and keep the force [N]; return whether the width is as expected."""
        validate_width(width, WIDEST)
        self._scene.pull = np.full(2, force)
        self._go(0.0, speed)
        self._scene.latest_finger_positions = np.full(2, -0.05)  # keeps pressing
        self._grasped = width - epsilon_inner < self._width() < width + epsilon_outer
        return self._grasped

    def stop(self) -> bool:
        """Stop at the current width."""
        self._scene.latest_finger_positions = np.full(2, self._width() / 2)
        return True

    def get_state(self) -> GripperStateData:
        """Return width, largest width, whether something is grasped, and temperature."""
        return GripperStateData(self._width(), WIDEST, self._grasped, 30)

    def _width(self) -> float:
        return float(np.clip(sum(self._scene.get_finger_state()["q"]), 0.0, WIDEST))

    def _go(self, width: float, speed: float) -> bool:
        target, last, still = self._width(), self._width(), 0
        while still < 4:
            step = np.clip(width - target, -0.005 * speed, 0.005 * speed)
            target += step
            self._scene.latest_finger_positions = np.full(2, target / 2)
            time.sleep(0.005)
            change, last = abs(self._width() - last), self._width()
            blocked = abs(target - last) > 0.004  # 2 mm per finger, at which each presses with 8 N
            still = still + 1 if change < 1e-4 and (step == 0.0 or blocked) else 0
        return abs(last - width) < 0.005


class Server(FrankaSimServer):
    """Drops a command that misses its cycle, as Franka's interface does: the robot keeps its extrapolation.

    franka-sim would revert the extrapolation and move late, and then detect a discontinuity in the next commands.
    """

    def _absorb_within_motion_limits(self, command: dict[str, Any], *, fresh: bool) -> bool:
        dropped = self.comm.enforce and not fresh
        return not dropped and bool(super()._absorb_within_motion_limits(command, fresh=fresh))


def main() -> None:
    """Serve the robot until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="A simulated Franka FR3 with a cube, behind the robot's own protocol.")
    parser.add_argument("--host", default="127.0.0.1", help="address of arm and hand, ports 1337 and 1338 (127.0.0.1)")
    parser.add_argument("--camera", type=int, default=47201, help="port that the camera listens at (47201)")
    parser.add_argument("--images-hz", type=float, default=60.0, help="the camera's rate (60)")
    parser.add_argument("--late", type=float, default=0.0, help="how late its images are [s] (0)")
    parser.add_argument("--mass", type=float, default=1.0, help="of the cube [kg] (1)")
    parser.add_argument("--friction", type=float, default=1.0, help="of the table (1)")
    parser.add_argument("--lenient", action="store_true", help="no reflexes by lost packets and broken limits")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    sys.setswitchinterval(2e-4)  # shorter waits between its threads
    with suppress(OSError):  # a robot's timing does not depend on load; ignored without permission
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))
    task = {"mass": arguments.mass, "friction": arguments.friction}
    scene = Scene((arguments.host, arguments.camera), arguments.images_hz, arguments.late, task)
    strict = not arguments.lenient
    server = Server(
        host=arguments.host,
        physics_sim=scene,
        gripper_backend=Hand(scene),
        enforce_comm_constraints=strict,
        enforce_motion_limits=strict,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop())
    print(f"listening at {arguments.host}: arm 1337, hand 1338, camera {arguments.camera}", flush=True)
    server.start()


if __name__ == "__main__":
    main()
