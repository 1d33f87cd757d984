"""Converts actions to commands for controllers, including the last command, which stops the robot."""

from __future__ import annotations

import atexit
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.adapters.panda import PANDA_ACTION
from sami_runtime.clock import MonotonicClock
from sami_runtime.errors import AdapterError
from sami_runtime.model.contract import Contract
from sami_runtime.robots.kit import DifferentialIK, Frame
from sami_runtime.robots.ros2.messages import Message, Numbers, Trajectory
from sami_runtime.robots.ros2.node import Node, Publisher, why_unmatched
from sami_runtime.robots.ros2.open_node import open_node
from sami_runtime.robots.ros2.settings import Qos, RosCommand, RosSettings
from sami_runtime.robots.ros2.sources import Joints
from sami_runtime.safety.watchdog import ANSWER_S, instruct_watchdogs
from sami_runtime.safety.watchdog_process import take_instructions

Array = NDArray[np.float64]
NEEDED = ("arm_base", "home_joints", "home_gripper_width", "reached_displacement")
"""Entries of the data sheet that kinematics need."""
WIDTH_M = 0.2
"""Change of the gripper's width [m] for an action of 1."""
POLL_S = 0.02
KIND = "ros2"
"""Name by which the adapter addresses its emergency stop in a watchdog's process."""


class RobotCommand(NamedTuple):
    """The commands of an action."""

    messages: dict[str, Message]
    """Messages by topic."""
    executed: NDArray[np.float32]
    """(A,): the action that these messages execute."""


class Elements:
    """Sends the elements of the action, converted to the controller's units."""

    def __init__(self, settings: RosSettings, period: float) -> None:
        self._command, self._period = settings.command, period

    def of(self, action: NDArray[np.float32], joints: Joints | None, width: float) -> RobotCommand:
        """Return the commands of an action (A,); joints and gripper have no effect."""
        numbers = np.asarray(self._command.factor) * action.astype(np.float64)
        return RobotCommand({self._command.topic: _message(self._command, numbers, self._period)}, action)


class Hand:
    """Moves the hand by the joints: an action sets the hand's velocity until the next action.

    The contract has a data sheet, and `base` is the pose of the arm's base in the policy's frame.
    """

    def __init__(self, settings: RosSettings, contract: Contract, ik: DifferentialIK, base: Frame) -> None:
        assert contract.sheet is not None
        self._command, self._gripper, self._ik, self._base = settings.command, settings.gripper, ik, base
        self._period = 1.0 / contract.rate_hz
        self._reach = settings.command.gain * np.array(contract.sheet.numbers["reached_displacement"].values)
        names = settings.command.joints or ik.joints
        self._order = [ik.joints.index(name) for name in names]

    def of(self, action: NDArray[np.float32], joints: Joints | None, width: float) -> RobotCommand:
        """Return the commands of an action (A,), given the joints' state and the width of the gripper [m]."""
        assert joints is not None
        shift = self._reach * action[:3]
        height = self._base.points(self._ik.pose(joints.positions).translation)[2]
        shift[2] = max(shift[2], min(-height, 0.0))  # not below the table; nor up from there unless the action says so
        motion = self._ik.move(joints.positions, self._base.inverse.vectors(shift), self._period)
        messages = self.motion_messages(joints, motion.velocities, width + WIDTH_M * float(action[3]))
        applied = np.append(self._base.vectors(motion.displacement) / self._reach, action[3])
        applied = np.where(abs(applied - action) < 0.01, action, np.clip(applied, -1.0, 1.0))
        return RobotCommand(messages, applied.astype(np.float32))

    def motion_messages(self, joints: Joints, velocities: Array, width: float) -> dict[str, Message]:
        """Return the messages, by topic, for joint velocities (J,) [rad/s] and a width of the gripper [m]."""
        trajectory = self._command.type == Trajectory.ros
        numbers = joints.positions + velocities * self._period if trajectory else velocities
        numbers = np.asarray(self._command.factor) * numbers[self._order]
        names = tuple(self._ik.joints[at] for at in self._order)
        messages = {self._command.topic: _message(self._command, numbers, self._period, names)}
        if self._gripper:
            clipped = min(max(width, 0.0), self._gripper.widest_m)
            messages[self._gripper.topic] = Numbers(np.array([self._gripper.factor * clipped]))
        return messages


def standing(settings: RosSettings, contract: Contract) -> Numbers | None:
    """Return the last message to the controller, which stops the robot; None if the last command stays in force."""
    if settings.command.standing == "last":
        return None
    joints = settings.kinematics.joints if settings.kinematics else ()
    size = contract.action.size if settings.command.action == "elements" else len(settings.command.joints or joints)
    return Numbers(np.broadcast_to(np.asarray(settings.command.standing, np.float64), (size,)).copy())


def faults_of_command(settings: RosSettings, contract: Contract) -> list[str]:
    """Return one sentence for each point in which these settings do not fit the policy's actions."""
    command, action, faults = settings.command, contract.action, []
    count = action.size
    sheet_numbers = contract.sheet.numbers if contract.sheet else {}
    if settings.kinematics and (missing := [name for name in NEEDED if name not in sheet_numbers]):
        faults.append(f"the model's data sheet lacks {', '.join(missing)}; see sami inspect")
    elif settings.kinematics and (size := len(sheet_numbers["home_joints"].values)) != len(settings.kinematics.joints):
        faults.append(f"the model's arm has {size} joints, kinematics.joints {len(settings.kinematics.joints)}")
    if command.action == "hand":
        if (action.name, action.elements) != (PANDA_ACTION.name, PANDA_ACTION.elements):
            faults.append(f"command.action is 'hand', the model writes {action.name} ({', '.join(action.elements)})")
        if settings.kinematics is None:
            return [*faults, "command.action is 'hand', which needs kinematics"]
        if command.joints and sorted(command.joints) != sorted(settings.kinematics.joints):
            faults.append(f"command.joints are {', '.join(command.joints)}, and not those of the kinematics")
        if {"ee_position", "gripper_width"} - {signal.name for signal in contract.observation}:
            faults.append("the model does not read ee_position and gripper_width, by which the hand is moved")
        count = len(command.joints or settings.kinematics.joints)
    elif command.type == Trajectory.ros and len(command.joints) != count:
        faults.append(f"command.joints has {len(command.joints)} names, and the model writes {count} numbers")
    for key in ("factor", "standing"):
        numbers = getattr(command, key)
        if isinstance(numbers, tuple) and len(numbers) != count:
            faults.append(f"command.{key} has {len(numbers)} numbers for {count}")
    if command.type == Trajectory.ros and command.standing != "last":
        faults.append("command.standing of a JointTrajectory is 'last': its controller holds positions")
    if command.deadline_s is not None and command.deadline_s < 1.5 / contract.rate_hz:
        faults.append(
            f"the model acts every {1.0 / contract.rate_hz:g} s, and command.deadline_s promises {command.deadline_s:g}"
        )
    return faults


def _message(command: RosCommand, numbers: ArrayLike, period: float, names: tuple[str, ...] = ()) -> Message:
    values = np.asarray(numbers, np.float64)
    if command.type == Trajectory.ros:
        return Trajectory(names or command.joints, values, period)
    return Numbers(values)


def missing_subscribers(node: Node, topics: Mapping[str, tuple[type[Any], Qos]], deadline: float) -> list[str]:
    """Wait for subscribers until the deadline [s]; return a sentence for each topic without a matching one."""
    while True:
        reasons = (why_unmatched(name, kind.ros, qos, node.subscribers(name)) for name, (kind, qos) in topics.items())
        faults = [reason for reason in reasons if reason]
        if not faults or time.monotonic() > deadline:
            return faults
        time.sleep(POLL_S)


def arm_watchdog(adapter: object, settings: RosSettings, last: Numbers | None) -> None:
    """Pass the last message, which stops the robot, to this process's watchdogs; wait until they can send it.

    Raises:
        WatchdogConflictError, AdapterError: As of `instruct_watchdogs`.
    """
    document: dict[str, Any] = {"backend": settings.backend, "domain": settings.domain, "topic": settings.command.topic}
    document |= {"qos": settings.command.model_dump(include=set(Qos.model_fields)), "data": last and last.data.tolist()}
    instruct_watchdogs(adapter, KIND, document)


class LastStand:
    """Emergency stop in a watchdog's process: a call sends the message that the adapter has passed to it."""

    def __init__(self) -> None:
        self._node: Node | None = None
        self._send = self._unarmed
        take_instructions(KIND, self._take)
        atexit.register(self._leave)  # otherwise it counts as another commander until its lease ends

    def __call__(self) -> None:
        """Send the message that stops the robot.

        Raises:
            AdapterError: Nothing was sent; the message gives the reason.
        """
        self._send()

    def _unarmed(self) -> None:
        raise AdapterError("nothing was sent: no adapter has declared what brings the robot to rest.")

    def _no_message(self) -> None:
        raise AdapterError("nothing was sent: command.standing is 'last', so the controller stays at the last command.")

    def _leave(self) -> None:
        if self._node:
            self._node.close()
            self._node = None

    def _take(self, document: dict[str, Any], _: list[int]) -> None:
        """Join the command's topic; until this has succeeded, a call raises AdapterError."""
        self._send = self._unarmed
        self._leave()
        if document["data"] is None:
            self._send = self._no_message
            return
        self._node = open_node(document["backend"], document["domain"], MonotonicClock())
        qos = Qos(**document["qos"])
        publisher: Publisher = self._node.publisher(document["topic"], Numbers, qos)
        topics = {document["topic"]: (Numbers, qos)}
        if faults := missing_subscribers(self._node, topics, time.monotonic() + 0.5 * ANSWER_S):
            raise AdapterError("; ".join(faults))
        last = Numbers(np.array(document["data"]))
        self._send = lambda: publisher.send(last)
