"""The default backend: Cyclone DDS, which is compatible on the wire with ROS 2's nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
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
from sami_runtime.robots.ros2.node import Hear, Peer, Publisher, Publishers
from sami_runtime.robots.ros2.settings import Qos

WAKE_NS = 100_000_000
"""Longest time that `close` waits for the thread [ns]."""
BLOCK_NS = 20_000_000
"""Longest time that a write waits for a slow reliable reader [ns]."""
MANY = 1000
TYPES = IdlTypes()
NEW = ViewState.Any | InstanceState.Any | SampleState.NotRead
DEADLINE = 0xFFFFFFFF * 10**9
"""Times from here on count as no deadline [ns]."""


class DdsPublisher:
    """Sends to one topic."""

    def __init__(self, writer: DataWriter[Any]) -> None:
        self._writer = writer

    def send(self, message: Message) -> None:
        """Send a message; AdapterError if it cannot be sent."""
        try:
            self._writer.write(message.to(TYPES))
        except DDSException as error:
            raise AdapterError(f"{message.ros} cannot be sent: {error}.") from error

    def flush(self, seconds: float) -> None:
        """Wait until all reliable subscribers have acknowledged the messages, at most this long."""
        with suppress(DDSException, AttributeError):  # cyclonedds 11.0.1 raises AttributeError at a timeout
            self._writer.wait_for_acks(round(1e9 * seconds))


@dataclass
class Subscription:
    """A topic that is heard, and the count of its dropped messages since the reset."""

    topic: str
    reader: DataReader[Any]
    condition: ReadCondition
    kind: type[Any]
    hear: Hear
    publishers: Publishers
    writer: int | None = None
    """Handle of the publisher that is heard; None until a message arrives."""
    bad: int = 0
    strange: int = 0
    text: str = ""
    """Why the last unreadable message could not be read."""

    def reset(self) -> None:
        """Reset the counts, and forget the publisher that is heard."""
        self.writer, self.bad, self.strange, self.text = None, 0, 0, ""

    @property
    def writer_gone(self) -> bool:
        """Whether the publisher that was heard is gone."""
        return self.writer is not None and self.writer not in self.reader.get_matched_publications()

    @property
    def faults(self) -> list[str]:
        """A sentence for each problem of the topic."""
        faults = []
        if self.bad:
            faults.append(f"{self.topic}: {self.bad} messages that could not be read were dropped, lastly {self.text}")
        if self.strange:
            faults.append(f"{self.topic}: {self.strange} messages of another publisher were dropped")
        if self.publishers == "first" and self.writer_gone:
            faults.append(f"{self.topic}: the publisher that was heard is gone (liveliness lost)")
        return faults

    def take(self, now: Callable[[], float]) -> None:
        """Pass on all messages that arrived, one by one, so that an unreadable message affects no other."""
        for _ in range(MANY):
            try:
                samples = self.reader.take(1, self.condition)
                if not samples:
                    return
                if samples[0].sample_info.valid_data and self._of_writer(samples[0].sample_info.publication_handle):
                    self.hear(self.kind.of(samples[0]), now())
            except DDSException as error:
                self.bad, self.text = self.bad + 1, f"{error}"
                return
            except Exception as error:  # a bad message must not end the thread
                self.bad, self.text = self.bad + 1, f"a {self.kind.ros}: {type(error).__name__}: {str(error)[:200]}"

    def _of_writer(self, handle: int) -> bool:
        if self.publishers == "all":
            return True
        if self.writer is None or (self.publishers == "in turn" and self.writer != handle and self.writer_gone):
            self.writer = handle
        self.strange += handle != self.writer
        return handle == self.writer


class DdsNode:
    """A participant of a domain, with one thread that receives all of its topics.

    Raises:
        AdapterError: The domain cannot be entered.
    """

    separates = True

    def __init__(self, domain: int, clock: Clock) -> None:
        self._clock = clock
        try:
            self._participant = DomainParticipant(domain)
        except DDSException as error:
            raise AdapterError(
                f"domain {domain} cannot be entered: {error}. Is CYCLONEDDS_URI right, and a network there?"
            ) from error
        self._published = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)
        self._readers = BuiltinDataReader(self._participant, BuiltinTopicDcpsSubscription)
        self._waits = WaitSet(self._participant)
        self._inputs: list[Subscription] = []
        self._writers: list[DataWriter[Any]] = []
        self._topics: dict[str, Topic[Any]] = {}
        self._lock, self._open = threading.Lock(), True
        self._thread = threading.Thread(target=self._listen, name="sami-ros2", daemon=True)
        self._thread.start()

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for each topic with messages dropped since the reset, or whose publisher is gone."""
        return tuple(fault for topic in self._inputs for fault in topic.faults)

    def reset(self) -> None:
        """Reset the counts, and hear the publisher of each topic that sends first from now on."""
        for topic in self._inputs:
            topic.reset()

    def publisher(self, topic: str, kind: type[Any], qos: Qos) -> Publisher:
        """Return a new publisher of a topic."""
        writer = DataWriter(self._participant, self._topic(topic, kind), _policies(qos, kind))
        self._writers.append(writer)
        return DdsPublisher(writer)

    def subscribe(self, topic: str, kind: type[Any], qos: Qos, hear: Hear, publishers: Publishers = "all") -> None:
        """Call a function with each message of a topic."""
        reader = DataReader(self._participant, self._topic(topic, kind), _policies(qos, kind))
        condition = ReadCondition(reader, NEW)
        with self._lock:
            self._inputs.append(Subscription(topic, reader, condition, kind, hear, publishers))
            self._waits.attach(condition)

    def publishers(self, topic: str) -> list[Peer]:
        """Return the publishers of a topic that have been discovered so far."""
        return self._peers(self._published, topic)

    def subscribers(self, topic: str) -> list[Peer]:
        """Return the subscribers of a topic that have been discovered so far."""
        return self._peers(self._readers, topic)

    def close(self) -> None:
        """Leave the domain. May be called twice."""
        if not self._open:
            return
        self._open = False
        if self._thread is not threading.current_thread():
            self._thread.join()
        # Delete each entity now: each is part of reference cycles, which Python may collect much later, and until then
        # other nodes still see this node. The participant is last, as it owns the rest. Deleting twice does nothing.
        self._waits.__del__()
        self._waits.attached = []
        pairs = [part for topic in self._inputs for part in (topic.condition, topic.reader)]
        for part in (*self._writers, *pairs, self._published, self._readers, *self._topics.values(), self._participant):
            part.__del__()
        self._inputs, self._writers, self._topics = [], [], {}

    def _topic(self, name: str, kind: type[Any]) -> Topic[Any]:
        if name not in self._topics:
            self._topics[name] = Topic(self._participant, _mangled(name), TYPES(kind.ros))
        return self._topics[name]

    def _peers(self, reader: Any, topic: str) -> list[Peer]:
        return [
            Peer(_ros_name(endpoint.type_name), _qos_of(endpoint.qos), f"{endpoint.key}")
            for endpoint in reader.read(MANY)
            if endpoint.sample_info.instance_state == InstanceState.Alive and endpoint.topic_name == _mangled(topic)
        ]

    def _listen(self) -> None:
        while self._open:
            with self._lock:
                inputs = list(self._inputs)
            for topic in inputs:
                topic.take(self._clock.now)
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
    """Return the DDS name of a ROS topic."""
    return f"rt/{topic.lstrip('/')}"


def _ros_name(dds: str) -> str:
    """Return the ROS name of a DDS type, such as `sensor_msgs::msg::dds_::JointState_`."""
    return dds.replace("::dds_::", "::").replace("::", "/").removesuffix("_")
