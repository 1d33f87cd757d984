"""Messages of a robot or a sensor, each with the moment when it came."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError

WAKE_S = 0.1
"""How long [s] `close` may wait for the thread."""
LARGEST = 65536
"""Bytes of a message; no datagram is larger."""


class Datagrams:
    """JSON over UDP, heard by a thread of its own: a message that waited for the loop would seem late.

    Only messages of the one peer are heard. One of another sender, or one that `hear` cannot use, is counted, dropped
    and ends nothing: a peer of which nothing good comes any more is too old to act on, which the gate notices.

    A UDP sender can be forged by whoever reaches this network; keep it apart from others.

    Args:
        here: Host and port that messages come to.
        there: Host and port of the peer: messages are sent to it, and heard from it alone.
        hear: Called with each message, a JSON object, and when it came [s], from the thread. What it raises drops the
            message.
        clock: The loop's.

    Raises:
        AdapterError: Another program listens there, it is no address of this machine, or no peer is there to be named.
    """

    def __init__(
        self,
        here: Sequence[Any],
        there: Sequence[Any],
        hear: Callable[[dict[str, Any], float], None],
        clock: Clock,
    ) -> None:
        self.there, self._hear, self._clock = tuple(there), hear, clock
        self._open = True
        self.reset()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(WAKE_S)
        try:
            self._socket.bind(tuple(here))
        except (OSError, TypeError, OverflowError) as error:
            self._socket.close()
            raise AdapterError(
                f"messages to {tuple(here)} cannot be heard: {error}. Is another program there?"
            ) from error
        try:
            self._peer = _address(self.there)
        except (OSError, TypeError, OverflowError, ValueError) as error:
            self._socket.close()
            raise AdapterError(
                f"{self.there} is no peer to hear: {error}. Give its host, and its port from 1 to 65535."
            ) from error
        self._thread = threading.Thread(target=self._listen, name="sami-datagrams", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """How many messages were dropped since the last reset: of other senders, and those that cannot be used."""
        return self._strange + self._bad

    @property
    def fault(self) -> str:
        """What was dropped since the last reset, and why the last one; empty where nothing was."""
        return "; ".join(why for why in (self._why_bad, self._why_strange) if why)

    def reset(self) -> None:
        """Forget what was dropped; for the adapter's reset."""
        self._strange, self._bad, self._why_strange, self._why_bad = 0, 0, "", ""

    def send(self, **message: Any) -> None:
        """Send a message; nothing after `close`.

        Raises:
            AdapterError: The system refuses to send it.
        """
        if not self._open:
            return
        try:
            self._socket.sendto(json.dumps(message).encode(), self._peer)
        except OSError as error:
            raise AdapterError(f"{', '.join(message)} cannot be sent to {self.there}: {error}.") from error

    def close(self) -> None:
        """End the thread; also twice."""
        self._open = False
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _listen(self) -> None:
        with self._socket:
            while self._open:
                # What the system reports of an earlier send, such as a port that nobody listens to, is no message.
                with suppress(OSError):
                    message, sender = self._socket.recvfrom(LARGEST)
                    self._take(message, sender, self._clock.now())

    def _take(self, message: bytes, sender: tuple[Any, ...], receipt_time: float) -> None:
        """Have a message heard; count one that is dropped."""
        if sender != self._peer:
            self._strange += 1
            self._why_strange = (
                f"{self._strange} messages dropped of another sender than {self.there}, lastly {sender[0]}:{sender[1]}"
            )
            return
        try:
            payload = json.loads(message)
            if not isinstance(payload, dict):
                raise TypeError(f"it is {type(payload).__name__}, no object")
            self._hear(payload, receipt_time)
        except Exception as error:  # whatever a message causes, the next one is heard
            self._bad += 1
            self._why_bad = (
                f"{self._bad} messages of {self.there} dropped, lastly because of {type(error).__name__}: "
                f"{str(error)[:200]}"
            )


def _address(peer: tuple[Any, ...]) -> tuple[str, int]:
    """Return the numeric address of a peer, as the senders of messages have it.

    Raises:
        OSError, TypeError, OverflowError, ValueError: It has none.
    """
    host, port = peer
    if not 0 < port < 65536:
        raise ValueError(f"its port is {port}")
    addresses = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)
    address, number = addresses[0][4][:2]
    if address == "0.0.0.0":
        raise ValueError("it names no machine")
    return str(address), int(number)
