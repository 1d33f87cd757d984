"""Converts messages to the signals of a policy, by names, frames, units and clocks; refuses invalid messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, SamiError
from sami_runtime.robots.kit import ClockSync, DifferentialIK, Differentiator, Frame, Latest
from sami_runtime.robots.kit.joints import JOINT_POSITIONS, JOINT_VELOCITIES
from sami_runtime.robots.ros2.messages import JointMessage, PoseMessage
from sami_runtime.robots.ros2.settings import ObservedTopic, RosSettings, RosSource
from sami_runtime.signals import Signal

Array = NDArray[np.float64]
OF_POSE = {"position": 3, "rpy": 3, "velocity": 3, "angular_velocity": 3}
OF_JOINTS = ("position", "velocity", "effort")
OF_HAND = ("hand_position", "hand_velocity")


class Joints(NamedTuple):
    """The state of the arm's joints, (J,) each, in the order of the kinematics."""

    measured: float
    """Time of the measurement [s], by the loop's clock."""
    positions: Array
    velocities: Array


@dataclass
class TopicFilter:
    """A topic that is heard, its filters, and the count of its messages."""

    settings: ObservedTopic
    sync: ClockSync
    frame: Frame
    moves: Differentiator
    turns: Differentiator
    signals: list[tuple[Signal, RosSource]] = field(default_factory=list)
    accepted: int = 0
    refused: int = 0
    text: str = ""
    """Why the last message was refused; empty if it was accepted."""

    @property
    def fault(self) -> str:
        """A sentence about refused messages; empty if the last message was accepted."""
        return self.text and f"{self.settings.topic}: {self.refused} messages refused, the last one because {self.text}"


class Sources:
    """Receives messages in a node's thread, and provides observations to the loop.

    The policy reads the `signals`, and `base` is the pose of the arm's base in the policy's frame.
    """

    def __init__(
        self, settings: RosSettings, signals: tuple[Signal, ...], clock: Clock, ik: DifferentialIK | None, base: Frame
    ) -> None:
        self.clock, self._ik, self._base = clock, ik, base
        self._arm = settings.kinematics.of if settings.kinematics else None  # the topic with the state of its joints
        self.dropped: Callable[[], Iterable[str]] = tuple
        """Returns a sentence for each problem of the node, such as messages that it dropped."""
        self.latest = Latest(signals, clock, settings.heard_s, lambda: "; ".join(self.faults))
        self.topics = {name: _topic_filter(topic) for name, topic in settings.topics.items()}
        for signal in signals:
            source = settings.signals.get(signal.name)
            if source is not None and source.of in self.topics:
                self.topics[source.of].signals.append((signal, source))
        self.joints: Joints | None = None
        """The newest state of the arm's joints."""
        self._joint_signals = {signal.name for signal in signals} - set(settings.signals)
        """Names of the signals for which the settings have no source: the arm's joints."""
        self._standing: dict[str, Array] = {}
        self._lock = threading.Lock()

    def hear(self, name: str, message: JointMessage | PoseMessage, received: float) -> None:
        """Store the signals of a message that was received at a time [s]; count an invalid message as refused."""
        topic = self.topics[name]
        with self._lock:
            try:
                measured = self._measured(topic, message.stamp, received)
                values = (
                    self._of_pose(topic, message, measured)
                    if isinstance(message, PoseMessage)
                    else self._of_joints(topic, message)
                )
                if topic.settings.standing:
                    self._standing |= values
                    self.latest.always(**values)
                elif values:
                    self.latest.put(measured, **values)
                if isinstance(message, JointMessage) and self._ik and self._arm == name:
                    positions = _picked(message, "position", self._ik.joints)
                    velocities = _picked(message, "velocity", self._ik.joints)
                    self.joints = Joints(measured, positions, velocities)
                    parts = zip((JOINT_POSITIONS, JOINT_VELOCITIES), (positions, velocities), strict=True)
                    self.latest.put(measured, **{part: value for part, value in parts if part in self._joint_signals})
            except SamiError as error:
                topic.refused, topic.text = topic.refused + 1, str(error).rstrip(".")
            else:
                topic.accepted, topic.text = topic.accepted + 1, ""

    def reset(self, forget: bool) -> None:
        """Forget all measurements; if `forget`, also values of `standing` topics, which are then sent again."""
        with self._lock:
            for topic in self.topics.values():
                topic.text = ""
                topic.moves.reset()
                topic.turns.reset()
            self.latest.reset()
            self._standing = {} if forget else self._standing
            self.latest.always(**self._standing)

    @property
    def faults(self) -> list[str]:
        """A sentence for each topic with refused messages, and for each problem of the node."""
        return [*(topic.fault for topic in self.topics.values() if topic.fault), *self.dropped()]

    def _measured(self, topic: TopicFilter, stamp: float, received: float) -> float:
        """Return the time of a measurement [s], by the loop's clock. AdapterError: no stamp, or one in the future."""
        if not stamp > 0.0:
            raise AdapterError(f"its stamp is {stamp:g} s: whoever sends it does not stamp it")
        if topic.settings.clock == "theirs":
            return topic.sync.local_time(stamp, received)
        measured = stamp + self.clock.now() - time.time()
        if measured > received + topic.settings.future_s:
            raise AdapterError(
                f"its stamp lies {measured - received:.3g} s in the future: have both machines keep one time (chrony, "
                "PTP), or say clock = 'theirs'"
            )
        return min(measured, received) - topic.settings.delay_s

    def _of_pose(self, topic: TopicFilter, message: PoseMessage, measured: float) -> dict[str, Array]:
        expected = topic.settings.frame_id
        if expected is not None and message.frame_id != expected:
            raise AdapterError(f"its frame is {message.frame_id!r}, and {expected!r} was expected (frame_id)")
        pose = topic.frame @ Frame.of(message.position, xyzw=message.xyzw)
        readers = {
            "position": lambda: pose.translation,
            "rpy": lambda: pose.rpy,
            "velocity": lambda: topic.moves(pose.translation, measured),
            "angular_velocity": lambda: topic.turns(pose.rotation, measured),
        }
        return {signal.name: np.asarray(source.factor) * readers[source.field]() for signal, source in topic.signals}

    def _of_joints(self, topic: TopicFilter, message: JointMessage) -> dict[str, Array]:
        values = {}
        for signal, source in topic.signals:
            if source.field in OF_HAND and self._ik:
                positions = _picked(message, "position", self._ik.joints)
                if source.field == "hand_position":
                    value = self._base.points(self._ik.pose(positions).translation)
                else:
                    speeds = _picked(message, "velocity", self._ik.joints)
                    value = self._base.vectors(self._ik.velocity(positions, speeds))
            else:
                value = _picked(message, source.field, source.joints)
            values[signal.name] = np.asarray(source.factor) * value
        return values


def faults_of_signals(settings: RosSettings, signals: tuple[Signal, ...]) -> list[str]:
    """Return one sentence for each point in which these settings do not fit the policy's signals."""
    faults, topics = [], settings.topics
    by_name = {signal.name: signal for signal in signals}
    faults += [f"signals.{name}: the model reads no such signal" for name in settings.signals if name not in by_name]
    for name, signal in by_name.items():
        source = settings.signals.get(name)
        if source is None:
            faults.append(f"signals.{name} is missing, and the model reads it: {signal.size} number(s) [{signal.unit}]")
        elif source.of not in topics:
            faults.append(f"signals.{name}.of is {source.of!r}; the topics are {', '.join(topics)}")
        else:
            faults += [f"signals.{name}: {fault}" for fault in _faults_of(source, signal, topics[source.of], settings)]
    ends = (settings.success.achieved, settings.success.desired) if settings.success else ()
    faults += [f"success: the model reads no signal {name}" for name in ends if name not in by_name]
    if (arm := settings.kinematics) and (arm.of not in topics or "Joint" not in topics[arm.of].type):
        faults.append(f"kinematics.of is {arm.of!r}, which is no topic of sensor_msgs/msg/JointState")
    return faults


def _faults_of(source: RosSource, signal: Signal, topic: ObservedTopic, settings: RosSettings) -> list[str]:
    pose = topic.type.endswith("PoseStamped")
    valid = tuple(OF_POSE) if pose else (*OF_JOINTS, *(OF_HAND if settings.kinematics else ()))
    if source.field not in valid:
        return [f"{topic.topic} has no {source.field}; it has {', '.join(valid)}"]
    faults, by_joint = [], not pose and source.field in OF_JOINTS
    size = len(source.joints) if by_joint else 3
    if size != signal.size:
        size_text = f"joints has {size}" if by_joint else f"{source.field} has {size} numbers"
        faults.append(f"{size_text}, and the model reads {signal.size} ({', '.join(signal.elements)})")
    if isinstance(source.factor, tuple) and len(source.factor) != signal.size:
        faults.append(f"factor has {len(source.factor)} numbers for {signal.size} elements")
    return faults


def _topic_filter(settings: ObservedTopic) -> TopicFilter:
    return TopicFilter(
        settings,
        ClockSync(delay_s=settings.delay_s),
        Frame.of(settings.translation, rpy=settings.rpy),
        Differentiator(settings.smooth_s),
        Differentiator.of_rotations(settings.smooth_s),
    )


def _picked(message: JointMessage, part: str, joints: tuple[str, ...]) -> Array:
    """Return position, velocity or effort (J,) of these joints, in their order.

    Raises:
        AdapterError: A value is missing or not finite.
    """
    values: Array = getattr(message, part)
    if len(values) != len(message.names):
        raise AdapterError(f"it has {len(message.names)} names and {len(values)} numbers of {part}")
    at = {name: index for index, name in enumerate(message.names)}
    if missing := [name for name in joints if name not in at]:
        raise AdapterError(f"it lacks {', '.join(missing)}; it has {', '.join(message.names) or 'no joints'}")
    picked = values[[at[name] for name in joints]]
    if not np.isfinite(picked).all():
        raise AdapterError(f"{part} of {', '.join(joints)} is {picked.tolist()}, which are not all finite")
    return picked
