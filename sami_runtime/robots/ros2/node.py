"""What both backends offer: topics to publish and to hear, and who else is at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sami_runtime.robots.ros2.messages import Message
from sami_runtime.robots.ros2.settings import Qos

Publishers = Literal["all", "first", "in turn"]
"""Which publishers of a topic are heard."""
Hear = Callable[[Any, float], None]
"""Takes a message (one of `messages`), and when it came [s] by the loop's clock; from a thread of the node's."""


class Publisher(Protocol):
    """Sends messages of one kind to one topic; from any thread."""

    def send(self, message: Message) -> None:
        """Send one, without waiting for anybody."""

    def flush(self, seconds: float) -> None:
        """Wait, so long at most, until all who are reliably to hear them have."""


@dataclass(frozen=True)
class Peer:
    """Somebody else who publishes or hears a topic."""

    kind: str
    """ROS's name of the messages."""
    qos: Qos
    name: str = ""
    """Its node where that is known, else its GUID, as `ros2 topic info --verbose` prints it."""


class Node(Protocol):
    """A participant."""

    separates: bool
    """Whether it hears one publisher of a topic alone; if not, a second one has to end the episode."""

    def publisher(self, topic: str, kind: type[Any], qos: Qos) -> Publisher:
        """Return what publishes a topic."""

    def subscribe(self, topic: str, kind: type[Any], qos: Qos, hear: Hear, publishers: Publishers = "all") -> None:
        """Have a function hear each message of a topic.

        Args:
            topic: Its name.
            kind: One of `messages`.
            qos: What is asked for.
            hear: Called with each message, from a thread of the node's. What it raises drops the message.
            publishers: Which are heard: all; the one that comes first, until the reset; or that one until it is gone
                and then the next, as of a goal that is said once.
        """

    def publishers(self, topic: str) -> list[Peer]:
        """Return who publishes a topic, as far as is known by now."""

    def subscribers(self, topic: str) -> list[Peer]:
        """Return who hears it."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What was dropped since the last reset, and which publishers are gone, a sentence each."""

    def reset(self) -> None:
        """Forget what was dropped, and hear of each topic whichever publisher comes first from now on."""

    def close(self) -> None:
        """Leave; also twice."""


def doubled(topic: str, kind: str, qos: Qos, publishers: Iterable[Peer]) -> str:
    """Return that more than one publisher of a topic could be heard, by their names; empty where none or one can."""
    names = [
        peer.name or "one without a name"
        for peer in publishers
        if not _other_kind(kind, peer) and not _less(peer.qos, qos)
    ]
    if len(names) < 2:
        return ""
    return (
        f"{topic} has {len(names)} publishers, {' and '.join(names)}, and the robot can be in one place only. End all "
        "but one; one that was killed counts for as long as its lease lasts, 10 s or so"
    )


def why_silent(topic: str, kind: str, qos: Qos, publishers: Iterable[Peer]) -> str:
    """Return why nothing of a topic comes: nobody is there, or offers what is not asked for."""
    peers = list(publishers)
    if not peers:
        return f"nobody publishes {topic} ({kind})"
    reasons = [reason for peer in peers if (reason := _other_kind(kind, peer) or _less(peer.qos, qos))]
    if len(reasons) < len(peers):
        return f"{topic} is published, and nothing came"
    return f"{topic} does not come: its publisher {'; another one '.join(reasons)}. Change the topic's settings"


def why_unheard(topic: str, kind: str, qos: Qos, subscribers: Iterable[Peer]) -> str:
    """Return why nobody hears what is sent to a topic; empty where somebody does."""
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
    """Return what of quality of service is offered below what is wanted, as the one tells of itself."""
    if (offered.reliability, requested.reliability) == ("best_effort", "reliable"):
        return f"{verb} reliability {'reliable' if verb == 'wants' else 'best_effort'}"
    if (offered.durability, requested.durability) == ("volatile", "transient_local"):
        return f"{verb} durability {'transient_local' if verb == 'wants' else 'volatile'}"
    promised = float("inf") if offered.deadline_s is None else offered.deadline_s
    if requested.deadline_s is not None and promised > requested.deadline_s:
        shown = requested.deadline_s if verb == "wants" else offered.deadline_s
        return f"{verb} {'no deadline' if shown is None else f'a deadline of {shown:g} s'}"
    return ""
