"""Messages over UDP: of one peer, heard when they come; what else comes is dropped, counted and ends nothing."""

import re
import socket
import threading
import time

import pytest

from sami_runtime.clock import ManualClock, MonotonicClock
from sami_runtime.errors import AdapterError
from sami_runtime.robots.kit import Datagrams, Latest
from sami_runtime.signals import Signal

FREE = (None, None)
POSITION = Signal(name="position", size=2, unit="m", elements=("x", "y"), low=FREE, high=FREE)


@pytest.fixture
def robot():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        peer.settimeout(10.0)
        yield peer


@pytest.fixture
def local():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()


def test_messages_go_both_ways_and_are_stamped_when_they_come(robot, local):
    inbox, event = [], threading.Event()
    clock = MonotonicClock()
    link = Datagrams(local, robot.getsockname(), lambda *item: (inbox.append(item), event.set()), clock)
    link.send(velocities=[0.5])
    assert robot.recv(100) == b'{"velocities": [0.5]}'
    start = clock.now()
    robot.sendto(b'{"time": 3.0}', local)
    assert event.wait(10.0)
    (message, received), now = inbox[0], clock.now()
    assert message == {"time": 3.0}
    assert start <= received <= now
    assert (link.dropped, link.fault) == (0, "")
    link.close()


BAD = [b"\xff", b"", b"[1]", b"null", b"{", b'{"pose": 1}', b"[" * 60000, b'{"position": "far"}']


def after(link, messages):
    """Wait until so many messages were dropped."""
    deadline = time.monotonic() + 10.0
    while link.dropped < messages and time.monotonic() < deadline:
        time.sleep(0.005)
    assert link.dropped == messages


def test_a_message_that_cannot_be_taken_is_dropped_and_counted_and_the_next_one_is_heard(robot, local):
    inbox, event, clock = [], threading.Event(), ManualClock(5.0)
    latest = Latest([POSITION], clock, note=lambda: link.fault)

    def hear(text, received):
        latest.put(received, position=[float(text["position"]), 0.0])
        inbox.append(text)
        event.set()

    link = Datagrams(local, robot.getsockname(), hear, clock)
    for message in BAD:
        robot.sendto(message, local)
    robot.sendto(b'{"position": 2}', local)
    assert event.wait(10.0)
    assert inbox == [{"position": 2}]
    assert link.dropped == len(BAD)
    text = rf"8 messages of \('127.0.0.1', {robot.getsockname()[1]}\) dropped, lastly because of ValueError: could not"
    assert re.match(text, link.fault)
    assert latest.observation().note == link.fault
    link.reset()
    assert (link.dropped, link.fault, latest.observation().note) == (0, "", "")
    link.close()


def test_only_the_peer_is_heard(robot, local):
    inbox, event = [], threading.Event()
    link = Datagrams(local, robot.getsockname(), lambda message, _: (inbox.append(message), event.set()), ManualClock())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.sendto(b'{"position": 1}', local)
        stranger.sendto(b"\xff", local)
        after(link, 2)
        port = stranger.getsockname()[1]
    robot.sendto(b'{"position": 2}', local)
    assert event.wait(10.0)
    assert inbox == [{"position": 2}]
    assert re.match(rf"2 messages dropped of another sender than .*, lastly 127.0.0.1:{port}", link.fault)
    link.close()


def test_why_nothing_new_came_is_part_of_the_reason_for_which_the_gate_holds(robot, local, gate):
    clock = ManualClock(5.0)
    latest = Latest([POSITION], clock, 0.01, note=lambda: link.fault)
    link = Datagrams(local, robot.getsockname(), lambda message, stamp: latest.put(stamp, **message), clock)
    robot.sendto(b"\xff", local)
    after(link, 1)
    with pytest.raises(AdapterError, match=r"position never came.*1 messages of .* dropped"):
        latest.observation()
    latest.put(5.0, position=[0.0, 0.0])
    clock.advance(1.0)
    assert re.search(r"^age: .*max_age_s.*; 1 messages of .* dropped", gate().fault(latest.observation(), 6.0))
    link.close()


@pytest.mark.parametrize(
    "peer", [("127.0.0.1", 0), ("0.0.0.0", 9), ("no.such.host.invalid", 9), ("127.0.0.1",), (1, 2)]
)
def test_a_peer_that_is_none_is_refused_and_the_port_given_back(local, peer):
    for _ in range(2):
        with pytest.raises(AdapterError, match=r"is no peer to hear: .*Give its host, and its port from 1 to 65535"):
            Datagrams(local, peer, lambda *_: None, ManualClock())


def test_a_closed_link_sends_nothing_gives_its_port_back_and_can_be_closed_again(robot, local):
    link = Datagrams(local, robot.getsockname(), lambda *_: None, ManualClock())
    with pytest.raises(AdapterError, match=r"cannot be heard.*Is another program there"):
        Datagrams(local, robot.getsockname(), lambda *_: None, ManualClock())
    link.close()
    link.close()
    link.send(stop=True)
    robot.settimeout(0.05)
    with pytest.raises(TimeoutError):
        robot.recv(100)
    Datagrams(local, robot.getsockname(), lambda *_: None, ManualClock()).close()
