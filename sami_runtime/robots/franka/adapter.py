"""Adapter of a Franka FR3 with its hand, and a camera that reports the cube's pose, for policies of the Panda."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Executed, Observation
from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, SafetyStop
from sami_runtime.model.contract import Contract
from sami_runtime.robots.franka import link
from sami_runtime.robots.franka.control_process import ControlProcess
from sami_runtime.robots.franka.link import ArmPhase, ArmState, HandState
from sami_runtime.robots.franka.requirements import faults_of_contract, faults_of_home, faults_of_robot
from sami_runtime.robots.franka.settings import FrankaSettings
from sami_runtime.robots.kit import ClockSync, Datagrams, DifferentialIK, Differentiator, Frame, Latest, joint_signals
from sami_runtime.robots.kit.faults import refuse
from sami_runtime.safety.watchdog import instruct_watchdogs, release_watchdogs

MODEL = Path(__file__).with_name("fr3.urdf")
JOINTS = tuple(f"joint{number}" for number in range(1, 8))
FIRST_MESSAGE_S = 2.0
"""Longest wait [s] for the first messages of robot and camera."""
PLACED_S = 0.1
"""Time [s] for a placed cube to come to rest."""
HOME_S = 20.0
"""Longest time [s] for the motion home."""
REST_S = 2.0
"""Longest time [s] that the arm may take to come to rest."""
WALL_S = 0.15
"""The hand slows down so that it needs at least this time [s] to the edge of its workspace."""
TURN_S = 0.25
"""Time in which a wrong orientation of the hand is corrected [s]; the joints could not follow a much shorter one."""
HUNG_S = 1.0
"""A motion of the hand hangs if it takes this much longer [s] than its way at its speed."""
POLL_S = 0.005


class FrankaAdapter:
    """Drives an FR3 by joint positions within its limits, 1000 times a second, from a separate process.

    An action sets the velocity of the hand until the next action. If the robot stops, because of its reflexes, lost
    packets or a silent loop, each read and write raises SafetyStop with the reason, until `recover` is called.

    Raises:
        AdapterError: Contract, settings and robot do not match, in all points listed; nothing was moved.
    """

    def __init__(self, clock: Clock, contract: Contract, settings: FrankaSettings) -> None:
        self.observation, self.action = (*PANDA_OBSERVATION, *joint_signals(JOINTS)), PANDA_ACTION
        refuse(faults_of_contract(contract, settings))
        assert contract.sheet is not None
        numbers = contract.sheet.numbers
        self.settings, self.clock, self._period = settings, clock, 1.0 / contract.rate_hz
        self._base = Frame.of(numbers["arm_base"].values)
        self._home = np.array(numbers["home_joints"].values)
        self._reach = settings.motion.gain * np.array(numbers["reached_displacement"].values)
        self._ik = DifferentialIK(MODEL, "fingertips", JOINTS, self._home)
        camera = settings.camera
        self._camera = Frame.fit(camera.theirs, camera.ours) if camera.theirs else Frame.of()
        self._sync = ClockSync(delay_s=camera.delay_s)
        self._moves, self._turns = Differentiator(camera.smooth_s), Differentiator.of_rotations(camera.smooth_s)
        self._latest = Latest(self.observation, clock, note=lambda: self._link.fault)
        self._task = dict(camera.task)
        self._imaging, self._is_halted = threading.Lock(), False
        self._arm: ControlProcess[ArmState] | None = None
        self._hand: ControlProcess[HandState] | None = None
        self._link = Datagrams(camera.here, camera.there, self._see, clock)
        try:
            document = settings.model_dump(mode="json")
            ring, bell = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ring, bell:
                self._arm = ControlProcess("arm", document, link.unpack_arm, bell)
                instruct_watchdogs(self, link.KIND, {}, [ring.fileno()])
            self._hand = ControlProcess("hand", document, link.unpack_hand)
            refuse(faults_of_robot(settings, self._arm.facts, self._hand.facts, self._home))
            self._require_camera()
        except BaseException:
            self.close()
            raise
        self._values: dict[str, NDArray[np.float32]] = {}

    @property
    def arm(self) -> ArmState:
        """The arm's last state, even if it was stopped; it includes cycles, missed cycles and the longest cycle."""
        assert self._arm is not None
        assert self._arm.last is not None
        return self._arm.last

    @property
    def processes(self) -> dict[str, int]:
        """Ids of the processes that control arm and hand, by part."""
        return {process.part: process.pid for process in (self._arm, self._hand) if process is not None}

    def place_with(self, task: Mapping[str, Any]) -> None:
        """Set the task, such as mass and table, that a simulated camera receives at the next reset."""
        self._task = dict(task)

    def reset(self, seed: int | None = None) -> None:
        """Move home, close the hand, draw a goal, and ask the camera to have the cube placed.

        Raises:
            SafetyStop: The robot stopped on the way.
            AdapterError: The arm does not reach home, or is not there and may not move (`move_home`).
        """
        arm, _ = self._connected()
        self._is_halted = False
        if self.settings.move_home:
            self.home()
        else:
            since = link.now()  # a state that was sent in a pause may be minutes old
            self._wait(lambda: arm.state.measured >= since, FIRST_MESSAGE_S, "the arm reported nothing new")
            refuse(faults_of_home(arm.state.positions, self._home))
        goal = np.random.default_rng(seed).uniform(self.settings.goal.low, self.settings.goal.high)
        self._link.reset()
        self._link.send(place=0 if seed is None else seed, task=self._task)
        self.clock.sleep_until(self.clock.now() + PLACED_S + self.settings.camera.delay_s)
        with self._imaging:
            self._moves.reset()
            self._turns.reset()
            self._latest.reset()
        self._latest.always(desired_goal=goal)

    def home(self) -> None:
        """Move home within the limits of the joints, and close the hand.

        Raises:
            SafetyStop: The robot stopped on the way.
            AdapterError: The arm does not reach home, or may not move (`move_home`).
        """
        if not self.settings.move_home:
            raise AdapterError("the arm may not move home (move_home = false); it was not moved.")
        self._wait(self._homeward, HOME_S, "the arm did not come home")

    def read(self) -> Observation:
        """Return the newest observation of arm, hand and cube.

        Raises:
            SafetyStop: The robot was stopped, with the reason.
            AdapterError: Arm or hand reported nothing since the reset, or a signal never arrived.
        """
        arm, hand = self._connected()
        self._wait(lambda: self._update(arm, hand), FIRST_MESSAGE_S, "the robot reported nothing new")
        observation = self._latest.observation()
        self._values = dict(observation.values)
        return observation

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send the hand's velocity and the fingers' width of an action (4,); return the action that is executed.

        Raises:
            SafetyStop: The robot was stopped, with the reason; nothing was sent.
        """
        arm, hand = self._connected()
        arm_state, fingers = arm.state, hand.state
        place = self._base @ self._ik.pose(arm_state.positions)
        width = float(self._values["gripper_width"][0])
        change = float(np.clip(width + 0.2 * action[3], 0.0, 0.08)) - width
        pace = self.settings.hand.arm_waits if moves(change, fingers, self.settings.hand.least_change) else 1.0
        at, base = place.translation, self._base.translation
        step = pace * allowed(self._reach * action[:3], at, base, self.settings, self._period)
        ahead = TURN_S / self._period
        motion = self._ik.move(arm_state.positions, self._base.inverse.vectors(ahead * step), TURN_S)
        self._send(link.pack_joints(link.FOLLOW, motion.velocities), width + change)
        applied = np.append(self._base.vectors(motion.displacement) / (ahead * self._reach), action[3])
        applied = np.where(abs(applied - action) < 0.02, action, np.clip(applied, -1.0, 1.0)).astype(np.float32)
        off = np.linalg.norm(self._values["achieved_goal"] - self._values["desired_goal"])
        success = bool(off < self.settings.goal.within_m)
        return Executed(applied, success, {"is_success": success})

    def stop(self) -> None:
        """Bring the arm to rest within its limits, and wait for it; the hand keeps its grasp.

        Raises:
            AdapterError: The arm does not come to rest in time.
        """
        for part in (self._arm, self._hand):
            if part is not None:
                part.send(link.STOP)
        if self._arm is None or self._arm.fault:  # the arm is already stopped
            return
        arm = self._arm
        with_fault = (ArmPhase.IDLE, ArmPhase.FAULT)
        self._wait(lambda: bool(arm.fault) or arm.state.phase in with_fault, REST_S, "the arm did not come to rest")

    def emergency_stop(self) -> None:
        """Bring the arm to rest without waiting, from any thread; no command moves it until the next reset."""
        self._is_halted = True
        if self._arm is not None:
            self._arm.send(link.STOP)

    def recover(self) -> None:
        """Allow motions of a stopped robot again. Only for a person who knows why it stopped and that it may move.

        Raises:
            SafetyStop, AdapterError: The robot does not recover.
        """
        arm, hand = self._connected()
        for part in (arm, hand):
            part.forget_fault()
            part.send(link.RECOVER)
        self._wait(lambda: arm.state.phase is ArmPhase.IDLE, REST_S, "the arm did not recover")

    def close(self) -> None:
        """Bring the arm to rest, and close all connections."""
        release_watchdogs(self)
        for part in (self._arm, self._hand):
            if part is not None:
                part.close()
        self._link.close()

    def _send(self, command: bytes, width: float) -> tuple[ControlProcess[ArmState], ControlProcess[HandState]]:
        """Send a command to the arm and a width [m] to the hand, and return both."""
        if self._is_halted:
            raise SafetyStop("emergency_stop() was called; nothing is sent until the next reset.")
        arm, hand = self._connected()
        arm.send(command)
        hand.send(link.pack_width(width))
        return arm, hand

    def _homeward(self) -> bool:
        """Command arm and hand to their home positions; return whether both have reached them."""
        arm, hand = self._send(link.pack_joints(link.GO, self._home), 0.0)
        at_home = float(abs(arm.state.positions - self._home).max()) < 0.02
        return arm.state.phase is ArmPhase.POSITIONING and arm.state.arrived and at_home and hand.state.speed == 0.0

    def _update(self, arm: ControlProcess[ArmState], hand: ControlProcess[HandState]) -> bool:
        """Store the newest states of arm and hand; return whether both are from after the reset."""
        arm_state, offset = arm.state, self.clock.now() - link.now()
        place = self._base @ self._ik.pose(arm_state.positions)
        velocity = self._base.vectors(self._ik.velocity(arm_state.positions, arm_state.velocities))
        joints = {"joint_positions": arm_state.positions, "joint_velocities": arm_state.velocities}
        self._latest.put(arm_state.measured + offset, ee_position=place.translation, ee_velocity=velocity, **joints)
        width, measured = reckoned(hand.state, link.now())
        self._latest.put(measured + offset, gripper_width=[width])
        return not {"ee_position", "gripper_width"} & set(self._latest.missing)

    def _see(self, image: dict[str, object], received: float) -> None:
        """Store the cube's pose of a camera message; raise for an invalid message, which the link then drops."""
        measured = self._sync.local_time(float(str(image["time"])), received)
        cube = self._camera @ Frame.of(np.array(image["position"]), xyzw=np.array(image["xyzw"]))
        at = cube.translation
        with self._imaging:
            moves, turns = self._moves(at, measured), self._turns(cube.rotation, measured)
            self._latest.put(measured, cube_position=at, achieved_goal=at, cube_rotation=cube.rpy)
            self._latest.put(measured, cube_velocity=moves, cube_angular_velocity=turns)

    def _require_camera(self) -> None:
        """Ask the camera to start sending, and wait for its first message; AdapterError: none arrives in time."""
        camera = self.settings.camera
        self._link.send(hello=True)
        try:
            self._wait(lambda: "cube_position" not in self._latest.missing, FIRST_MESSAGE_S, "")
        except AdapterError:
            fault = self._link.fault and f" ({self._link.fault})"
            refuse([f"no camera at {camera.there} tells {camera.here} where the cube is{fault}"])

    def _wait(self, is_done: Callable[[], bool], longest_s: float, failure: str) -> None:
        end = time.monotonic() + longest_s
        while not is_done():
            if time.monotonic() > end:
                raise AdapterError(f"{failure} within {longest_s:g} s.")
            time.sleep(POLL_S)

    def _connected(self) -> tuple[ControlProcess[ArmState], ControlProcess[HandState]]:
        if self._arm is None or self._hand is None:
            raise AdapterError("the robot was closed; make a new adapter.")
        return self._arm, self._hand


def allowed(
    step: NDArray[np.float64],
    place: NDArray[np.float64],
    base: NDArray[np.float64],
    settings: FrankaSettings,
    period: float,
) -> NDArray[np.float64]:
    """Return the allowed displacement (3,) [m] in a period: limited in speed, and slower near an edge of the workspace.

    Args:
        step: (3,) displacement that was asked for [m].
        place: (3,) position of the hand [m].
        base: (3,) position of the arm's base [m].
        settings: Of the robot.
        period: [s].
    """
    limits, share = settings.workspace, period / WALL_S
    step = np.clip(step, (np.array(limits.low) - place) * share, (np.array(limits.high) - place) * share)
    way = (place - base)[:2]
    far = float(np.linalg.norm(way))
    outward, room = float(step[:2] @ way) / far, (limits.reach - far) * share
    step[:2] -= max(0.0, outward - room) * way / far
    speed = float(np.linalg.norm(step)) / period
    return np.asarray(step * min(1.0, settings.motion.hand_speed / max(speed, 1e-9)))


def moves(change: float, fingers: HandState, least: float) -> bool:
    """Return whether fingers move, or will move for a change of width [m]; changes up to `least` [m] are ignored."""
    return fingers.speed != 0.0 or change > least or (change < -least and not fingers.grasped)


def reckoned(hand: HandState, at: float) -> tuple[float, float]:
    """Return the width of a hand [m] and its time [s]; a moving hand's is extrapolated to `at`, unless it hangs."""
    way, distance = hand.speed * (at - hand.measured), hand.target - hand.width
    if not hand.speed or abs(way) > abs(distance) + HUNG_S * abs(hand.speed):
        return hand.width, hand.measured
    return hand.width + (way if abs(way) < abs(distance) else distance), at
