"""Adapter of a robot that is controlled and observed by ROS 2 topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Executed, Observation
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, SafetyStop
from sami_runtime.model.contract import Contract
from sami_runtime.robots.kit import DifferentialIK, Frame, joint_signals
from sami_runtime.robots.kit.faults import refuse
from sami_runtime.robots.kit.joints import JOINT_POSITIONS
from sami_runtime.robots.ros2.command import (
    Elements,
    Hand,
    RobotCommand,
    arm_watchdog,
    faults_of_command,
    missing_subscribers,
    standing,
)
from sami_runtime.robots.ros2.diagnostics import diagnose, stopped
from sami_runtime.robots.ros2.messages import Diagnostics, JointMessage, Message, Numbers, PoseMessage, Trajectory
from sami_runtime.robots.ros2.node import Publisher, Publishers, doubled, why_silent
from sami_runtime.robots.ros2.open_node import open_node
from sami_runtime.robots.ros2.settings import Qos, RosSettings
from sami_runtime.robots.ros2.sources import Joints, Sources, faults_of_signals
from sami_runtime.safety.watchdog import WatchdogConflictError, beat_watchdogs, release_watchdogs

if TYPE_CHECKING:
    from sami_runtime.loop.tick import StepRecord

KINDS: dict[str, type[Any]] = {kind.ros: kind for kind in (JointMessage, PoseMessage, Numbers, Trajectory)}
HOME_S, HOME_RAD, HOME_PERIOD_S, HOME_GAIN = 30.0, 0.02, 0.02, 3.0
"""The motion home: longest time [s], tolerance of a joint [rad], control period [s], gain [1/s]."""
CLOSE_S, CLOSED_M = 2.0, 0.01
"""Longest time [s] for the fingers to close at home, and the tolerance of their width [m]."""
NEAR_RAD = 0.05
"""Largest distance of a joint from home if the arm may not move there (`move_home = false`) [rad]."""
FRESH_S = 0.3
"""Largest age of the joints' state during the motion home [s]."""
BLIND_PERIODS = 15
"""Largest age of the joints' state that moves a hand by velocities [periods of the policy], or `FRESH_S` if that is
more. The gate stops earlier by default, but a person's pause reads nothing that it could judge."""
FLUSH_S = 0.2
"""Longest wait [s] until subscribers acknowledge the last command."""
POLL_S = 0.02


class Ros2Adapter:
    """Drives a robot by commands to its ROS 2 controller, and observes it by its topics.

    Raises:
        AdapterError: Contract, settings and topics do not match, in all points listed; nothing was sent.
    """

    def __init__(self, clock: Clock, contract: Contract, settings: RosSettings) -> None:
        self.observation, self.action = contract.observation, contract.action
        self.settings, self.contract, self.clock = settings, contract, clock
        refuse([*faults_of_signals(settings, contract.observation), *faults_of_command(settings, contract)], "sent")
        sheet = contract.sheet.numbers if contract.sheet else {}
        ik, base = None, Frame.of(sheet["arm_base"].values if "arm_base" in sheet else (0.0, 0.0, 0.0))
        if arm := settings.kinematics:
            self._home, self._width = (np.array(sheet[name].values) for name in ("home_joints", "home_gripper_width"))
            ik = DifferentialIK(arm.file, arm.hand, arm.joints, self._home, arm.speed)
            beyond = np.array(arm.joints)[(self._home < ik.low) | (self._home > ik.high)]
            refuse([f"the model's home pose is beyond the end of {joint} in {arm.file}" for joint in beyond], "sent")
            names = [signal.name for signal in contract.observation]
            self.observation += tuple(signal for signal in joint_signals(arm.joints) if signal.name not in names)
        self.sources = Sources(settings, self.observation, clock, ik, base)
        self._hand = Hand(settings, contract, ik, base) if ik and settings.command.action == "hand" else None
        self.basis = (JOINT_POSITIONS,) if self._hand else ()
        self._commander = self._hand or Elements(settings, 1.0 / contract.rate_hz)
        self._last = standing(settings, contract)
        self._values: Mapping[str, NDArray[np.float32]] = {}
        self._messages: dict[str, Message] = {}
        self._task = settings.task
        self._observed_topics = [(topic.topic, topic.type, topic) for topic in settings.topics.values()]
        self._open, self._in_episode, self._is_halted = True, False, False
        self._node = open_node(settings.backend, settings.domain, clock)
        self.sources.dropped = lambda: self._node.faults
        try:
            self._publishers: dict[str, Publisher] = {}
            commands: dict[str, tuple[type[Any], Qos]] = {}
            commands[settings.command.topic] = (KINDS[settings.command.type], settings.command)
            for command in (settings.gripper, settings.episode):
                commands |= {command.topic: (Numbers, command)} if command else {}
            for topic, (kind, qos) in commands.items():
                self._publishers[topic] = self._node.publisher(topic, kind, qos)
            if watched := settings.diagnostics:
                self._publishers[watched.topic] = self._node.publisher(watched.topic, Diagnostics, watched)
            for name, observed in settings.topics.items():
                hear = partial(self.sources.hear, name)
                publishers: Publishers = "in turn" if observed.standing else "first"
                self._node.subscribe(observed.topic, KINDS[observed.type], observed, hear, publishers)
            deadline = time.monotonic() + settings.heard_s
            faults = [*self._silent_topics(deadline), *missing_subscribers(self._node, commands, deadline)]
            sent_topics = [(topic, kind.ros, qos) for topic, (kind, qos) in commands.items()]
            while (rivals := self._doubled(sent_topics)) and time.monotonic() < deadline:
                with suppress(WatchdogConflictError):  # the watchdog of another adapter stays as it is
                    arm_watchdog(self, settings, None)  # it may be the publisher, for an adapter that is closed
                time.sleep(POLL_S)
            refuse([*faults, *self._doubled(self._observed_topics), *rivals], "sent")
            refuse(self._faults_of_home() if settings.kinematics and not settings.kinematics.move_home else [], "sent")
            arm_watchdog(self, settings, self._last)
        except BaseException:
            self.close()
            raise

    @property
    def command_delay_s(self) -> float:
        """Delay [s] from a command to its effect, as set in the settings."""
        return self.settings.command.delay_s

    def place_with(self, task: Sequence[float]) -> None:
        """Set what a simulation is asked to place at the next reset, see `task` in the settings."""
        self._task = tuple(task)

    def reset(self, seed: int | None = None) -> None:
        """Move home, and announce the episode. From now on, only the first publisher of each topic is heard.

        Raises:
            AdapterError, SafetyStop: A topic has two publishers; see `home`; or the arm is not home and may not move.
        """
        self._require_open()
        refuse(self._doubled(self._observed_topics), "sent")
        self._node.reset()
        self._in_episode, self._is_halted = True, False
        if self._hand and self.settings.kinematics:
            if self.settings.kinematics.move_home:
                self.home()
            else:
                refuse(self._faults_of_home(), "sent")
        forget = self.settings.episode is not None
        self.sources.reset(forget)
        if self.settings.episode:
            beginning = Numbers(np.array([0 if seed is None else seed, *self._task], np.float64))
            self._publishers[self.settings.episode.topic].send(beginning)
            # Messages that were on their way describe the world before the new episode.
            self.clock.sleep_until(self.clock.now() + self.settings.settle_s)
            self.sources.reset(False)

    def home(self) -> None:
        """Open the fingers, whose object may be too heavy to carry; move the joints home; close the fingers.

        Raises:
            AdapterError, SafetyStop: The arm may not or cannot move, its joints' messages cease, or it was stopped.
        """
        self._require_open()
        if self._hand is None or self.settings.kinematics is None or not self.settings.kinematics.move_home:
            raise AdapterError(
                "the arm cannot move home: it has no kinematics whose hand it commands, or move_home = false."
            )
        speed, deadline = self.settings.kinematics.home_speed, self.clock.now() + HOME_S
        while True:
            joints = self._fresh()
            off = self._home - joints.positions
            if abs(off).max() < HOME_RAD:
                break
            if self.clock.now() > deadline:
                self.emergency_stop()
                raise AdapterError(
                    f"the arm did not come home within {HOME_S:g} s: joints are {np.round(off, 3).tolist()} rad off. "
                    "Does its controller take these commands, and is the way free?"
                )
            velocities = np.clip(HOME_GAIN * off, -speed, speed)
            beat_watchdogs(HOME_PERIOD_S)
            self._send(self._hand.motion_messages(joints, velocities, np.inf))
            self.clock.sleep_until(self.clock.now() + HOME_PERIOD_S)
        home, closing = float(self._width[0]), self.clock.now() + CLOSE_S
        self._send(self._hand.motion_messages(joints, np.zeros_like(off), home))
        beat_watchdogs(np.inf)
        while self.settings.gripper and self.clock.now() < closing:
            if abs(self.sources.latest.observation().values["gripper_width"][0] - home) < CLOSED_M:
                break
            self.clock.sleep_until(self.clock.now() + HOME_PERIOD_S)

    def read(self) -> Observation:
        """Return the newest value of each signal, with the time of its measurement.

        Raises:
            AdapterError: A signal never arrived; or a topic has two publishers, which rclpy cannot distinguish.
        """
        self._require_open()
        if not self._node.separates and (faults := self._doubled(self._observed_topics)):
            raise AdapterError("; ".join(faults) + ".")
        observation = self.sources.latest.observation()
        self._values = observation.values
        return observation

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send the commands of an action (A,), and return the action that they execute.

        Raises:
            SafetyStop: `emergency_stop` was called since the last reset; nothing was sent.
            AdapterError: The joints whose velocities are to be sent were silent for too long; the arm is stopped.
        """
        self._require_open()
        if self._hand and self._last is not None:
            self._fresh(max(FRESH_S, BLIND_PERIODS / self.contract.rate_hz))
        command, self._in_episode = self._command_of(action), True
        self._send(command.messages)
        self._messages = command.messages
        faults, is_success = self.sources.faults, False
        info: dict[str, Any] = {"refused": faults} if faults else {}
        if (success := self.settings.success) and self._values:
            off = np.linalg.norm(self._values[success.achieved] - self._values[success.desired])
            info["is_success"] = is_success = bool(off < success.within_m)
        return Executed(command.executed, is_success, info)

    def stop(self) -> None:
        """Send the message that stops the robot, and wait briefly for its delivery; the gripper keeps its grasp."""
        if not self._open:
            return
        if self._last is not None:
            self._publishers[self.settings.command.topic].send(self._last)
        self._publishers[self.settings.command.topic].flush(FLUSH_S)
        self._in_episode = False
        if diagnostics := self.settings.diagnostics:
            with suppress(AdapterError):
                self._publishers[diagnostics.topic].send(stopped(self.contract, time.time()))

    def emergency_stop(self) -> None:
        """Send the message that stops the robot, from any thread, without waiting; no command until the next reset."""
        self._is_halted = True
        if self._open and self._last is not None:
            self._publishers[self.settings.command.topic].send(self._last)

    def watch(self, record: StepRecord) -> None:
        """Publish the diagnostics of a tick."""
        diagnostics = self.settings.diagnostics
        if diagnostics is None or not self._open:
            return
        commands, live = self._messages, bool(self._messages)
        if not live and record.executed is not None and self._values:  # a dry run
            commands = self._command_of(record.executed).messages
        self._messages = {}
        with suppress(AdapterError):  # those who look on do not end a run
            self._publishers[diagnostics.topic].send(
                diagnose(record, self.contract, self.sources.topics, commands, live, time.time())
            )

    def close(self) -> None:
        """Stop the robot if an episode has begun, and leave the domain. May be called twice."""
        if self._open:
            try:
                if self._in_episode:
                    self.stop()
            finally:
                self._open = False
                release_watchdogs(self)
                self._node.close()

    def _command_of(self, action: NDArray[np.float32]) -> RobotCommand:
        if self._hand and not self._values:
            raise AdapterError("nothing was read yet, so nobody knows how wide the gripper is. Call read() first.")
        width = float(self._values["gripper_width"][0]) if self._hand else 0.0
        return self._commander.of(action, self.sources.joints, width)

    def _silent_topics(self, deadline: float) -> list[str]:
        """Return a sentence for each topic that had no valid message until the deadline [s]."""
        topics = self.sources.topics.values()
        while (silent := [topic for topic in topics if not topic.accepted]) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        publishers = self._node.publishers
        return [
            topic.fault
            or why_silent(topic.settings.topic, topic.settings.type, topic.settings, publishers(topic.settings.topic))
            for topic in silent
        ]

    def _doubled(self, topics: Iterable[tuple[str, str, Qos]]) -> list[str]:
        """Return a sentence for each topic (name, type, quality of service) that has more than one publisher."""
        return [fault for topic in topics if (fault := doubled(*topic, self._node.publishers(topic[0])))]

    def _faults_of_home(self) -> list[str]:
        assert self.sources.joints is not None
        off = abs(self.sources.joints.positions - self._home)
        if off.max() <= NEAR_RAD:
            return []
        arm = self.settings.kinematics
        assert arm is not None
        return [
            f"{arm.joints[int(off.argmax())]} is {off.max():.3g} rad from home, and the arm may not move there "
            f"(move_home = false). Bring it to {np.round(self._home, 3).tolist()} rad, or set move_home"
        ]

    def _send(self, messages: Mapping[str, Message]) -> None:
        if self._is_halted:
            raise SafetyStop("emergency_stop() was called; nothing is sent until the next reset.")
        for topic, message in messages.items():
            self._publishers[topic].send(message)

    def _fresh(self, longest_s: float = FRESH_S) -> Joints:
        joints = self.sources.joints
        if joints is None or self.clock.now() - joints.measured > longest_s:
            self.emergency_stop()
            faults = "; ".join(self.sources.faults) or "no message came"
            raise AdapterError(f"the joints are no longer reported, so the arm was not moved on: {faults}.")
        return joints

    def _require_open(self) -> None:
        if not self._open:
            raise AdapterError("the adapter was closed. Make a new one.")
