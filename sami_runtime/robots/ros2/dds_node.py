"""The default backend: Cyclone DDS, on the wire what ROS 2's nodes speak."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription
from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy
from cyclonedds.qos import Qos as DdsQos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError
from sami_runtime.robots.ros2.idl import HASHES, IdlTypes
from sami_runtime.robots.ros2.messages import Message
from sami_runtime.robots.ros2.node import Hear, Peer, Publisher
from sami_runtime.robots.ros2.settings import Qos

WAKE_NS = 100_000_000
"""How long `close` may wait for the thread."""
BLOCK_NS = 20_000_000
"""How long a write may wait for a reader that is reliably to hear, and does not."""
MANY = 1000
TYPES = IdlTypes()
NEW = ViewState.Any | InstanceState.Any | SampleState.NotRead
ALIVE = ViewState.Any | InstanceState.Alive | SampleState.Any
DEADLINE = 0xFFFFFFFF * 10**9
"""From which on a time is none [ns]."""


class DdsPublisher:
    """Sends to one topic."""

    def __init__(self, writer: DataWriter[Any]) -> None:
        self._writer = writer

    def send(self, message: Message) -> None:
        """Send one.

        Raises:
            AdapterError: It cannot be sent.
        """
        try:
            self._writer.write(message.to(TYPES))
        except DDSException as error:
            raise AdapterError(f"{message.ros} cannot be sent: {error}.") from error

    def flush(self, seconds: float) -> None:
        """Wait, so long at most, until all who are reliably to hear have."""
        with suppress(DDSException, AttributeError):  # cyclonedds 11.0.1 trips over its own name where time runs out
            self._writer.wait_for_acks(round(1e9 * seconds))


class DdsNode:
    """A participant of a domain; one thread hears for all of its topics.

    Args:
        domain: Of ROS.
        clock: The loop's.

    Raises:
        AdapterError: It cannot begin.
    """

    def __init__(self, domain: int, clock: Clock) -> None:
        self._clock = clock
        try:
            self._participant = DomainParticipant(domain)
        except DDSException as error:
            raise AdapterError(
                f"domain {domain} cannot be entered: {error}. Is CYCLONEDDS_URI right, and a network there?"
            ) from error
        self._published = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)
        self._heard = BuiltinDataReader(self._participant, BuiltinTopicDcpsSubscription)
        self._waits = WaitSet(self._participant)
        self._readers: list[tuple[DataReader[Any], ReadCondition, type[Any], Hear]] = []
        self._writers: list[DataWriter[Any]] = []
        self._topics: dict[str, Topic[Any]] = {}
        self._lock, self._open, self._faults = threading.Lock(), True, dict[str, str]()
        self._thread = threading.Thread(target=self._listen, name="sami-ros2", daemon=True)
        self._thread.start()

    @property
    def faults(self) -> tuple[str, ...]:
        """What could not be read."""
        return tuple(self._faults.values())

    def publisher(self, topic: str, kind: type[Any], qos: Qos) -> Publisher:
        """Return what publishes a topic."""
        writer = DataWriter(self._participant, self._topic(topic, kind), _policies(qos, kind))
        self._writers.append(writer)
        return DdsPublisher(writer)

    def subscribe(self, topic: str, kind: type[Any], qos: Qos, hear: Hear) -> None:
        """Have a function hear each message of a topic."""
        reader = DataReader(self._participant, self._topic(topic, kind), _policies(qos, kind))
        condition = ReadCondition(reader, NEW)
        with self._lock:
            self._readers.append((reader, condition, kind, hear))
            self._waits.attach(condition)

    def publishers(self, topic: str) -> list[Peer]:
        """Return who publishes a topic, as far as is known by now."""
        return self._peers(self._published, topic)

    def subscribers(self, topic: str) -> list[Peer]:
        """Return who hears it."""
        return self._peers(self._heard, topic)

    def close(self) -> None:
        """Leave; also twice."""
        if not self._open:
            return
        self._open = False
        if self._thread is not threading.current_thread():
            self._thread.join()
        # The participant's own goes last: what it deletes must not be deleted again by whoever holds it.
        self._readers, self._writers, self._topics = [], [], {}
        del self._waits, self._published, self._heard, self._participant

    def _topic(self, name: str, kind: type[Any]) -> Topic[Any]:
        if name not in self._topics:
            self._topics[name] = Topic(self._participant, _mangled(name), TYPES(kind.ros))
        return self._topics[name]

    def _peers(self, reader: Any, topic: str) -> list[Peer]:
        known = reader.read(MANY)
        alive = [each for each in known if each.sample_info.instance_state == InstanceState.Alive]
        return [
            Peer(_ros_name(each.type_name), _qos_of(each.qos)) for each in alive if each.topic_name == _mangled(topic)
        ]

    def _listen(self) -> None:
        while self._open:
            with self._lock:
                readers = list(self._readers)
            for reader, condition, kind, hear in readers:
                try:
                    for said in reader.take(MANY, condition):
                        if said.sample_info.valid_data:
                            hear(kind.of(said), self._clock.now())
                except Exception as error:  # told by `faults`, in a thread that can do something about it
                    self._faults[kind.ros] = f"a {kind.ros} could not be read: {type(error).__name__}: {error}"
            self._waits.wait(WAKE_NS)


def _policies(qos: Qos, kind: type[Any]) -> DdsQos:
    reliable = qos.reliability == "reliable"
    policies = [
        Policy.Reliability.Reliable(BLOCK_NS) if reliable else Policy.Reliability.BestEffort,
        Policy.History.KeepLast(qos.depth),
        Policy.Durability.TransientLocal if qos.durability == "transient_local" else Policy.Durability.Volatile,
        Policy.DataRepresentation(use_cdrv0_representation=True),
        Policy.Userdata(f"typehash=RIHS01_{HASHES[kind.ros]};".encode()),
    ]
    if qos.deadline_s is not None:
        policies.append(Policy.Deadline(round(1e9 * qos.deadline_s)))
    return DdsQos(*policies)


def _qos_of(policies: Any) -> Qos:
    reliability, durability = policies[Policy.Reliability], policies[Policy.Durability]
    deadline = policies[Policy.Deadline].deadline if Policy.Deadline in policies else DEADLINE
    return Qos(
        reliability="best_effort" if reliability == Policy.Reliability.BestEffort else "reliable",
        durability="volatile" if durability == Policy.Durability.Volatile else "transient_local",
        deadline_s=None if deadline >= DEADLINE else 1e-9 * deadline,
    )


def _mangled(topic: str) -> str:
    """Return what DDS calls a topic of ROS."""
    return f"rt/{topic.lstrip('/')}"


def _ros_name(dds: str) -> str:
    """Return what ROS calls a type of DDS, `sensor_msgs::msg::dds_::JointState_`."""
    return dds.replace("::dds_::", "::").replace("::", "/").removesuffix("_")
