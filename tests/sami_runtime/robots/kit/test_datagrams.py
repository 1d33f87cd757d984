"""Messages over UDP: heard when they come, and every fault told to whoever can end the episode."""

import socket
import threading
import time

import pytest

from sami_runtime.clock import ManualClock, MonotonicClock
from sami_runtime.errors import AdapterError
from sami_runtime.robots.kit import Datagrams


@pytest.fixture
def there():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.settimeout(10.0)
        yield made


@pytest.fixture
def here():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()


def test_messages_go_both_ways_and_are_stamped_when_they_come(there, here):
    came, heard = [], threading.Event()
    clock = MonotonicClock()
    link = Datagrams(here, there.getsockname(), lambda *each: (came.append(each), heard.set()), clock)
    link.send(velocities=[0.5])
    assert there.recv(100) == b'{"velocities": [0.5]}'
    sent = clock.now()
    there.sendto(b'{"time": 3.0}', here)
    assert heard.wait(10.0)
    (message, received), now = came[0], clock.now()
    assert message == {"time": 3.0}
    assert sent <= received <= now
    link.require_heard()
    link.close()


def test_a_message_that_cannot_be_taken_is_told_and_the_next_one_is_heard(there, here):
    came = []
    link = Datagrams(here, there.getsockname(), lambda told, _: came.append(told["position"]), ManualClock())
    there.sendto(b'{"pose": 1}', here)
    there.sendto(b'{"position": 2}', here)
    deadline = time.monotonic() + 10.0
    while not came and time.monotonic() < deadline:
        time.sleep(0.01)
    assert came == [2]
    with pytest.raises(AdapterError, match="could not be taken: KeyError: 'position'"):
        link.require_heard()
    link.close()


def test_a_closed_link_sends_nothing_gives_its_port_back_and_can_be_closed_again(there, here):
    link = Datagrams(here, there.getsockname(), lambda *_: None, ManualClock())
    with pytest.raises(AdapterError, match=r"cannot be heard.*Is another program there"):
        Datagrams(here, there.getsockname(), lambda *_: None, ManualClock())
    link.close()
    link.close()
    link.send(stop=True)
    there.settimeout(0.05)
    with pytest.raises(TimeoutError):
        there.recv(100)
    Datagrams(here, there.getsockname(), lambda *_: None, ManualClock()).close()
