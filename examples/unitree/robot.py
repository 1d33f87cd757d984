"""A simulated Go2 with Unitree's low-level interface, to test the adapter on.

MuJoCo simulates the robot behind the message classes, the checksum and the service classes of Unitree's Python SDK.
`make unitree-sim` creates its environment and starts it there. It uses the file of CYCLONEDDS_URI, or loopback alone.
It prints one JSON object per line with the robot's state; times are those of CLOCK_MONOTONIC. Lines on stdin change it:
{"sticks": [lx, rx, ry, ly]}, {"buttons": 544} (L2 and B), {"roll": 1.5} [rad], {"mode": "normal"}, {"pose": [...]}
(a person lays it on its belly, with these angles of its 12 joints [rad]), and {"dead": 4}, a motor in Unitree's order
without torque ({"dead": null}: all motors work).
"""

import argparse
import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import ArrayLike
from unitree_sdk2py.core import channel
from unitree_sdk2py.idl.default import unitree_go_msg_dds__LowState_
from unitree_sdk2py.idl.unitree_go.msg.dds_ import LowCmd_, LowState_
from unitree_sdk2py.rpc.server import Server
from unitree_sdk2py.utils.crc import CRC

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "sami_train" / "envs" / "go2" / "go2.xml"
LOOPBACK = ROOT / "examples" / "ros2" / "loopback.xml"
LYING = np.array([0.0, 1.36, -2.65] * 4)
STANDING = np.array([0.0, 0.8, -1.5] * 4)
REPORT_S = 0.1


class Go2:
    """The physics, and the motors' last command, which applies for ever, as on a robot without a timeout.

    Args:
        hz: Simulation steps, and published states, per second.
        mode: Name of Unitree's active motion service, which makes the robot ignore low-level commands; empty for none.
    """

    def __init__(self, hz: float, mode: str) -> None:
        self.model = mujoco.MjModel.from_xml_path(str(MODEL))
        self.model.opt.timestep = 1.0 / hz
        self.model.actuator_ctrllimited[:] = 0
        self.data, self.mode, self.crc = mujoco.MjData(self.model), mode, CRC()
        self.good = self.bad = 0
        self.damped = not mode
        self.buttons, self.sticks = 0, [0.0] * 4
        self.dead: int | None = None
        self.state = unitree_go_msg_dds__LowState_()
        self._lie(LYING)
        if mode:
            self.data.qpos[2], self.data.qpos[7:] = 0.3, STANDING
            self._drive(STANDING, np.full(12, 60.0), np.full(12, 3.0))
        else:
            self._drive(LYING, np.zeros(12), np.zeros(12))

    def obey(self, command: LowCmd_) -> None:
        """Apply a command, if its checksum is right and no motion service drives."""
        if command.crc != self.crc.Crc(command):
            self.bad += 1
            return
        self.good += 1
        motors = command.motor_cmd[:12]
        if self.mode or any(motor.mode != 1 for motor in motors):
            return
        kp = np.array([motor.kp for motor in motors])
        damped = not kp.any()
        if damped != self.damped:
            self.damped = damped
            print_facts(event="damped" if damped else "driven", at=time.monotonic())
        self._drive(np.array([motor.q for motor in motors]), kp, np.array([motor.kd for motor in motors]))

    def change(self, facts: dict) -> None:
        """Apply a line of stdin: remote control, roll, pose, dead motor or motion service."""
        self.buttons, self.sticks = facts.get("buttons", self.buttons), facts.get("sticks", self.sticks)
        self.mode, self.dead = facts.get("mode", self.mode), facts.get("dead", self.dead)
        if "roll" in facts:
            self.data.qpos[3:7] = np.cos(0.5 * facts["roll"]), np.sin(0.5 * facts["roll"]), 0.0, 0.0
        if "pose" in facts:
            self._lie(facts["pose"])

    def release(self) -> None:
        """Lie down, turn the motion service off, and accept low-level commands."""
        if self.mode:
            self._drive(LYING, np.full(12, 40.0), np.full(12, 3.0))
            self.mode = ""
            print_facts(event="released", at=time.monotonic())

    def step(self) -> LowState_:
        """Simulate one step, and return the sensors' readings."""
        mujoco.mj_step(self.model, self.data)
        state, data = self.state, self.data
        state.tick = round(1e3 * data.time) % 2**32
        state.imu_state.quaternion = data.qpos[3:7].tolist()
        state.imu_state.gyroscope = data.qvel[3:6].tolist()
        for motor, angle, velocity in zip(state.motor_state, data.qpos[7:], data.qvel[6:], strict=False):
            motor.mode, motor.q, motor.dq = 1, float(angle), float(velocity)
        remote = np.zeros(40, np.uint8)
        remote[2:4] = np.frombuffer(np.uint16(self.buttons).tobytes(), np.uint8)
        for at, stick in zip((4, 8, 12, 20), self.sticks, strict=True):
            remote[at : at + 4] = np.frombuffer(np.float32(stick).tobytes(), np.uint8)
        state.wireless_remote = remote.tolist()
        state.crc = self.crc.Crc(state)
        return state

    def report(self) -> None:
        """Print height [m], z component of the trunk's z axis, velocity in its frame [m/s] and yaw rate [rad/s]."""
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, self.data.qpos[3:7])
        axes = turn.reshape(3, 3)
        velocity = axes.T @ self.data.qvel[:3]
        print_facts(
            time=round(self.data.time, 3),
            height=round(float(self.data.qpos[2]), 4),
            up=round(float(axes[2, 2]), 4),
            velocity=np.round([*velocity[:2], self.data.qvel[5]], 3).tolist(),
            good=self.good,
            bad=self.bad,
            damped=self.damped,
            mode=self.mode,
        )

    def _lie(self, angles: ArrayLike) -> None:
        self.data.qpos[:3], self.data.qpos[3:7], self.data.qpos[7:] = (0.0, 0.0, 0.11), (1.0, 0.0, 0.0, 0.0), angles
        self.data.qvel[:] = 0.0

    def _drive(self, angles: np.ndarray, kp: np.ndarray, kd: np.ndarray) -> None:
        self.data.ctrl[:] = angles
        if self.dead is not None:
            kp, kd = kp.copy(), kd.copy()
            kp[self.dead] = kd[self.dead] = 0.0
        self.model.actuator_gainprm[:, 0] = kp
        self.model.actuator_biasprm[:, 1], self.model.actuator_biasprm[:, 2] = -kp, -kd


def print_facts(**facts: object) -> None:
    """Print the facts as one line of JSON."""
    print(json.dumps(facts), flush=True)


def listen(changes: list[dict]) -> None:
    """Append each line of stdin, parsed as JSON, to `changes` until stdin closes."""
    for line in sys.stdin:
        changes.append(json.loads(line))


class MotionServices:
    """Unitree's services `motion_switcher` and `sport`, built on its own server class."""

    def __init__(self, robot: Go2) -> None:
        self.switcher, self.sport = Server("motion_switcher"), Server("sport")
        self.switcher._RegistHandler(1001, lambda _: (0, json.dumps({"form": "0", "name": robot.mode})), False)
        self.switcher._RegistHandler(1003, lambda _: (robot.release(), (0, ""))[1], False)
        self.sport._RegistHandler(1005, lambda _: (0, ""), False)
        for server in (self.switcher, self.sport):
            server.Start()


def main() -> None:
    """Simulate a Go2 until the process ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domain", type=int, default=0, help="of DDS")
    parser.add_argument("--hz", type=float, default=200.0, help="states a second; the robot itself sends 500")
    parser.add_argument("--mode", default="", help="motion service that is on, such as normal")
    options = parser.parse_args()
    with suppress(OSError):  # for all threads; without permission, load slows the robot
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(40))
    sys.stdout, out = sys.stderr, sys.stdout  # because Unitree's classes print
    config = Path(os.environ.get("CYCLONEDDS_URI", str(LOOPBACK)).removeprefix("file://"))
    channel.ChannelConfigHasInterface = config.read_text()
    channel.ChannelFactoryInitialize(options.domain, "lo")
    robot = Go2(options.hz, options.mode)
    states = channel.ChannelPublisher("rt/lowstate", LowState_)
    states.Init()
    services = MotionServices(robot)
    commands = channel.ChannelSubscriber("rt/lowcmd", LowCmd_)
    messages: list[LowCmd_] = []
    changes: list[dict] = []
    commands.Init(messages.append)
    sys.stdout = out
    print_facts(event="listening", at=time.monotonic())
    threading.Thread(target=listen, args=(changes,), daemon=True).start()
    due = time.monotonic()
    reports = 0.0
    while services:
        while messages:
            robot.obey(messages.pop(0))
        while changes:
            robot.change(changes.pop(0))
        states.Write(robot.step())
        if robot.data.time >= reports:
            robot.report()
            reports += REPORT_S
        due += 1.0 / options.hz
        late = time.monotonic() - due
        if late < 0.0:
            time.sleep(-late)
        elif late > 0.05:  # on a busy machine simulated time runs slower
            due += late


if __name__ == "__main__":
    main()
