"""The other backend: rclpy, ROS 2's own Python library, from a sourced workspace. PyPI does not have it."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from sami_runtime.clock import Clock
from sami_runtime.robots.ros2.messages import Message
from sami_runtime.robots.ros2.node import Hear, Peer, Publisher, Publishers
from sami_runtime.robots.ros2.settings import Qos


class RosTypes:
    """The workspace's message classes."""

    def __call__(self, name: str) -> Any:
        """Return the class of a message, `"sensor_msgs/msg/JointState"`."""
        package, part, kind = name.split("/")
        return getattr(importlib.import_module(f"{package}.{part}"), kind)

    def octet(self, value: int) -> bytes:
        """Return a byte of the type that the message classes expect."""
        return bytes([value])


class RclpyPublisher:
    """Sends to one topic."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher

    def send(self, message: Message) -> None:
        """Send a message."""
        self._publisher.publish(message.to(RosTypes()))

    def flush(self, seconds: float) -> None:
        """Wait until all reliable subscribers have acknowledged the messages, at most this long."""
        duration = importlib.import_module("rclpy.duration").Duration(seconds=seconds)
        self._publisher.wait_for_all_acked(duration)


class RclpyNode:
    """A node with its own context, and a thread that spins it."""

    separates = False  # rclpy does not report a message's publisher

    def __init__(self, domain: int, clock: Clock) -> None:
        rclpy, executors = importlib.import_module("rclpy"), importlib.import_module("rclpy.executors")
        self._clock, self._open, self._bad = clock, True, dict[str, tuple[int, str]]()
        self._context = rclpy.context.Context()
        # The loop handles signals: rclpy would shut down before the last command is sent.
        no_handlers = importlib.import_module("rclpy.signals").SignalHandlerOptions.NO
        rclpy.init(context=self._context, domain_id=domain, signal_handler_options=no_handlers)
        self._node = rclpy.create_node("sami", context=self._context)
        self._executor = executors.SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name="sami-ros2", daemon=True)
        self._thread.start()

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for each topic with messages that could not be read since the reset."""
        return tuple(
            f"{topic}: {number} messages that could not be read were dropped, lastly {reason}"
            for topic, (number, reason) in list(self._bad.items())
        )

    def reset(self) -> None:
        """Reset the counts of dropped messages."""
        self._bad = {}

    def publisher(self, topic: str, kind: type[Any], qos: Qos) -> Publisher:
        """Return a new publisher of a topic."""
        return RclpyPublisher(self._node.create_publisher(RosTypes()(kind.ros), topic, profile(qos)))

    def subscribe(self, topic: str, kind: type[Any], qos: Qos, hear: Hear, publishers: Publishers = "all") -> None:
        """Call a function with each message of a topic."""

        def receive(message: Any) -> None:
            receipt_time = self._clock.now()
            try:
                hear(kind.of(message), receipt_time)
            except Exception as error:  # a bad message must not end the thread
                number = self._bad.get(topic, (0, ""))[0] + 1
                self._bad[topic] = number, f"a {kind.ros}: {type(error).__name__}: {str(error)[:200]}"

        self._node.create_subscription(RosTypes()(kind.ros), topic, receive, profile(qos))

    def publishers(self, topic: str) -> list[Peer]:
        """Return the publishers of a topic that have been discovered so far."""
        return [_peer(endpoint) for endpoint in self._node.get_publishers_info_by_topic(topic)]

    def subscribers(self, topic: str) -> list[Peer]:
        """Return the subscribers of a topic that have been discovered so far."""
        return [_peer(endpoint) for endpoint in self._node.get_subscriptions_info_by_topic(topic)]

    def close(self) -> None:
        """Leave the domain. May be called twice."""
        if not self._open:
            return
        self._open = False
        self._thread.join()
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()

    def _spin(self) -> None:
        while self._open:
            self._executor.spin_once(timeout_sec=0.1)


def profile(qos: Qos) -> Any:
    """Return a quality of service as rclpy's QoSProfile."""
    rclpy, duration = importlib.import_module("rclpy.qos"), importlib.import_module("rclpy.duration")
    deadline = {} if qos.deadline_s is None else {"deadline": duration.Duration(seconds=qos.deadline_s)}
    return rclpy.QoSProfile(
        depth=qos.depth,
        history=rclpy.HistoryPolicy.KEEP_LAST,
        reliability=getattr(rclpy.ReliabilityPolicy, qos.reliability.upper()),
        durability=getattr(rclpy.DurabilityPolicy, qos.durability.upper()),
        **deadline,
    )


def _peer(endpoint: Any) -> Peer:
    """Return the peer of an endpoint that rclpy reports."""
    profile = endpoint.qos_profile
    deadline = 1e-9 * profile.deadline.nanoseconds
    qos = Qos(
        reliability="best_effort" if profile.reliability.name == "BEST_EFFORT" else "reliable",
        durability="transient_local" if profile.durability.name == "TRANSIENT_LOCAL" else "volatile",
        deadline_s=deadline if 0.0 < deadline < 1e9 else None,
    )
    return Peer(endpoint.topic_type, qos, f"{endpoint.node_namespace.rstrip('/')}/{endpoint.node_name}")
