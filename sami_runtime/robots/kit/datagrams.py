"""Messages of a robot or sensor over UDP, each with its time of receipt."""

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
"""Longest time [s] that `close` waits for the thread."""
LARGEST = 65536
"""Most bytes of a message; no datagram is larger."""


class Datagrams:
    """Receives and sends JSON over UDP, with a thread of its own, so that times of receipt do not depend on the loop.

    Only messages of one peer are accepted. A message of another sender, or one for which `hear` raises, is counted and
    dropped. If no valid messages arrive, observations become too old, which the gate detects.

    Anybody on the network can forge the sender of a UDP message: use a separate network.

    Args:
        local: Host and port at which messages arrive.
        peer: Host and port of the other side; messages are sent to it, and accepted from it only.
        hear: Called in the thread with each message, a JSON object, and its time of receipt [s]. If it raises, the
            message is dropped.
        clock: The loop's clock.

    Raises:
        AdapterError: `local` is in use or is no address of this machine, or `peer` is no valid address.
    """

    def __init__(
        self, local: Sequence[Any], peer: Sequence[Any], hear: Callable[[dict[str, Any], float], None], clock: Clock
    ) -> None:
        self.peer, self._hear, self._clock = tuple(peer), hear, clock
        self._open = True
        self.reset()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(WAKE_S)
        try:
            self._socket.bind(tuple(local))
        except (OSError, TypeError, OverflowError) as error:
            self._socket.close()
            raise AdapterError(
                f"messages to {tuple(local)} cannot be heard: {error}. Is another program there?"
            ) from error
        try:
            self._peer_address = _address(self.peer)
        except (OSError, TypeError, OverflowError, ValueError) as error:
            self._socket.close()
            raise AdapterError(
                f"{self.peer} is no peer to hear: {error}. Give its host, and its port from 1 to 65535."
            ) from error
        self._thread = threading.Thread(target=self._listen, name="sami-datagrams", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Number of messages dropped since the last reset, from other senders or invalid."""
        return self._strange + self._bad

    @property
    def fault(self) -> str:
        """How many messages were dropped since the last reset, and why the last; empty if none was."""
        return "; ".join(reason for reason in (self._why_bad, self._why_strange) if reason)

    def reset(self) -> None:
        """Reset the counts of dropped messages; for the adapter's reset."""
        self._strange, self._bad, self._why_strange, self._why_bad = 0, 0, "", ""

    def send(self, **message: Any) -> None:
        """Send a message; does nothing after `close`. AdapterError if the system refuses to send it."""
        if not self._open:
            return
        try:
            self._socket.sendto(json.dumps(message).encode(), self._peer_address)
        except OSError as error:
            raise AdapterError(f"{', '.join(message)} cannot be sent to {self.peer}: {error}.") from error

    def close(self) -> None:
        """End the thread, and close the socket. May be called twice."""
        self._open = False
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _listen(self) -> None:
        with self._socket:
            while self._open:
                # The system may report errors of an earlier send here, such as a closed port of the peer.
                with suppress(OSError):
                    message, sender = self._socket.recvfrom(LARGEST)
                    self._take(message, sender, self._clock.now())

    def _take(self, message: bytes, sender: tuple[Any, ...], receipt_time: float) -> None:
        """Pass a message to `hear`, or count it as dropped."""
        if sender != self._peer_address:
            self._strange += 1
            self._why_strange = (
                f"{self._strange} messages dropped of another sender than {self.peer}, lastly {sender[0]}:{sender[1]}"
            )
            return
        try:
            payload = json.loads(message)
            if not isinstance(payload, dict):
                raise TypeError(f"it is {type(payload).__name__}, no object")
            self._hear(payload, receipt_time)
        except Exception as error:  # a bad message must not end the thread
            self._bad += 1
            self._why_bad = (
                f"{self._bad} messages of {self.peer} dropped, lastly because of {type(error).__name__}: "
                f"{str(error)[:200]}"
            )


def _address(peer: tuple[Any, ...]) -> tuple[str, int]:
    """Return the numeric address and port of a peer, as the sender of a message is reported.

    Raises:
        OSError, TypeError, OverflowError, ValueError: The peer has no valid address.
    """
    host, port = peer
    if not 0 < port < 65536:
        raise ValueError(f"its port is {port}")
    addresses = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)
    address, number = addresses[0][4][:2]
    if address == "0.0.0.0":
        raise ValueError("it names no machine")
    return str(address), int(number)
