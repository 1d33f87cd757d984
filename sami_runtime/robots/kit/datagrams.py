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


class Datagrams:
    """JSON over UDP, heard by a thread of its own: a message that waited for the loop would seem late.

    Args:
        here: Host and port that messages come to.
        there: Host and port that messages are sent to.
        hear: Called with each message, and when it came [s], from the thread.
        clock: The loop's.

    Raises:
        AdapterError: Another program listens there, or it is no address of this machine.
    """

    def __init__(
        self,
        here: Sequence[Any],
        there: Sequence[Any],
        hear: Callable[[dict[str, Any], float], None],
        clock: Clock,
    ) -> None:
        self.there, self._hear, self._clock = tuple(there), hear, clock
        self._open, self._fault = True, ""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(WAKE_S)
        try:
            self._socket.bind(tuple(here))
        except OSError as error:
            self._socket.close()
            raise AdapterError(
                f"messages to {tuple(here)} cannot be heard: {error}. Is another program there?"
            ) from error
        self._thread = threading.Thread(target=self._listen, name="sami-datagrams", daemon=True)
        self._thread.start()

    def send(self, **message: Any) -> None:
        """Send a message; nothing after `close`.

        Raises:
            AdapterError: The system refuses to send it.
        """
        if not self._open:
            return
        try:
            self._socket.sendto(json.dumps(message).encode(), self.there)
        except OSError as error:
            raise AdapterError(f"{', '.join(message)} cannot be sent to {self.there}: {error}.") from error

    def require_heard(self) -> None:
        """Refuse to go on where a message could not be understood.

        Raises:
            AdapterError: One could not, and why.
        """
        if self._fault:
            raise AdapterError(f"a message from {self.there} could not be taken: {self._fault}.")

    def close(self) -> None:
        """End the thread; also twice."""
        self._open = False
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _listen(self) -> None:
        with self._socket:
            while self._open:
                with suppress(TimeoutError):
                    message, came = self._socket.recv(65536), self._clock.now()
                    try:
                        self._hear(json.loads(message), came)
                    except Exception as error:  # told by require_heard, in the thread that can end the episode
                        self._fault = f"{type(error).__name__}: {error}"
