"""The interface of both backends: publish, subscribe, and list the other publishers and subscribers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sami_runtime.robots.ros2.messages import Message
from sami_runtime.robots.ros2.settings import Qos

Publishers = Literal["all", "first", "in turn"]
"""Which publishers of a topic are heard; see `Node.subscribe`."""
Hear = Callable[[Any, float], None]
"""Called in the node's thread with a message (of `messages`) and its time of receipt [s], by the loop's clock."""


class Publisher(Protocol):
    """Sends messages of one type to one topic, from any thread."""

    def send(self, message: Message) -> None:
        """Send a message; a backend may wait briefly for a slow reliable subscriber."""

    def flush(self, seconds: float) -> None:
        """Wait until all reliable subscribers have acknowledged the messages, at most this long."""


@dataclass(frozen=True)
class Peer:
    """Another publisher or subscriber of a topic."""

    kind: str
    """ROS's name of the message type."""
    qos: Qos
    name: str = ""
    """Its node if that is known, else its GUID, as `ros2 topic info --verbose` prints it."""


class Node(Protocol):
    """A participant of ROS 2."""

    separates: bool
    """Whether it can distinguish the publishers of a topic; if not, a second publisher must end the episode."""

    def publisher(self, topic: str, kind: type[Any], qos: Qos) -> Publisher:
        """Return a new publisher of a topic."""

    def subscribe(self, topic: str, kind: type[Any], qos: Qos, hear: Hear, publishers: Publishers = "all") -> None:
        """Call a function with each message of a topic.

        Args:
            topic: Its name.
            kind: A class of `messages`.
            qos: Requested quality of service.
            hear: Called with each message, in the node's thread. If it raises, the message counts as dropped.
            publishers: "all" hears all publishers; "first" only the first to send after the reset; "in turn" the first
                until it is gone, and then the next, for example for a goal that is sent once.
        """

    def publishers(self, topic: str) -> list[Peer]:
        """Return the publishers of a topic that have been discovered so far."""

    def subscribers(self, topic: str) -> list[Peer]:
        """Return the subscribers of a topic that have been discovered so far."""

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for each topic with messages dropped since the reset, or, if known, whose publisher is gone."""

    def reset(self) -> None:
        """Reset the counts, and hear the publisher of each topic that sends first from now on."""

    def close(self) -> None:
        """Leave the domain. May be called twice."""


def doubled(topic: str, kind: str, qos: Qos, publishers: Iterable[Peer]) -> str:
    """Return a sentence that names the publishers of a topic, if more than one could be heard; else empty."""
    names = [
        peer.name or "one without a name"
        for peer in publishers
        if not _other_kind(kind, peer) and not _less(peer.qos, qos)
    ]
    if len(names) < 2:
        return ""
    return (
        f"{topic} has {len(names)} publishers, {' and '.join(names)}, and the robot can have one only. End all but "
        "one; one that was killed counts for as long as its lease lasts, 10 s or so"
    )


def why_silent(topic: str, kind: str, qos: Qos, publishers: Iterable[Peer]) -> str:
    """Return why a topic has no messages: it has no publisher, or types or qualities of service do not match."""
    peers = list(publishers)
    if not peers:
        return f"nobody publishes {topic} ({kind})"
    reasons = [reason for peer in peers if (reason := _other_kind(kind, peer) or _less(peer.qos, qos))]
    if len(reasons) < len(peers):
        return f"{topic} is published, and nothing came"
    return f"{topic} does not come: its publisher {'; another one '.join(reasons)}. Change the topic's settings"


def why_unmatched(topic: str, kind: str, qos: Qos, subscribers: Iterable[Peer]) -> str:
    """Return why a topic has no matching subscriber; empty if it has one."""
    peers = list(subscribers)
    if not peers:
        return f"nobody hears {topic} ({kind}): is its controller active?"
    reasons = [reason for peer in peers if (reason := _other_kind(kind, peer) or _less(qos, peer.qos, "wants"))]
    if len(reasons) < len(peers):
        return ""
    return f"nobody can hear {topic}: its subscriber {'; another one '.join(reasons)}. Change the topic's settings"


def _other_kind(kind: str, peer: Peer) -> str:
    return "" if peer.kind == kind else f"has {peer.kind}, and not {kind}"


def _less(offered: Qos, requested: Qos, verb: str = "offers") -> str:
    """Return the first quality of service that is offered below the request, from the peer's view; empty if none is."""
    if (offered.reliability, requested.reliability) == ("best_effort", "reliable"):
        return f"{verb} reliability {'reliable' if verb == 'wants' else 'best_effort'}"
    if (offered.durability, requested.durability) == ("volatile", "transient_local"):
        return f"{verb} durability {'transient_local' if verb == 'wants' else 'volatile'}"
    promised = float("inf") if offered.deadline_s is None else offered.deadline_s
    if requested.deadline_s is not None and promised > requested.deadline_s:
        seconds = requested.deadline_s if verb == "wants" else offered.deadline_s
        return f"{verb} {'no deadline' if seconds is None else f'a deadline of {seconds:g} s'}"
    return ""
