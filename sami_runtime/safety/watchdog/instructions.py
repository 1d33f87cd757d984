"""What an adapter has to say to an emergency stop in the watchdog's process, such as where to send what.

It goes over a pair of sockets of which the watchdog's process inherits one. Neither has a name, so that no other
process can reach them, whoever runs it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from sami_runtime.errors import AdapterError

ANSWER_S = 6.0
"""Longest time [s] that an emergency stop may take to act on an instruction."""
LONGEST, MOST_DESCRIPTORS = 65536, 4

Take = Callable[[dict[str, Any], list[int]], object]
"""Acts on an instruction and the descriptors that came with it; raises where it cannot."""

_takers: dict[str, Take] = {}


def take_instructions(kind: str, take: Take) -> None:
    """Have the adapter instruct an emergency stop that is being made in a watchdog's process.

    Args:
        kind: Of adapter: `"ros2"`.
        take: Called in a thread of its own, once for each adapter that is made.
    """
    _takers[kind] = take


def kinds_taken() -> list[str]:
    """Return which kinds of adapters are expected to instruct this process's emergency stop."""
    return sorted(_takers)


def serve(line: socket.socket) -> None:
    """Pass on each instruction and answer it, in a thread of the watchdog's process, until the loop's process ends."""
    with line, suppress(OSError):
        while True:
            message, descriptors, *_ = socket.recv_fds(line, LONGEST, MOST_DESCRIPTORS)
            if not message:
                return
            number, kind, document = json.loads(message)
            try:
                _takers[kind](document, descriptors)
                why = ""
            except Exception as error:  # the adapter reports it
                why = str(error) or type(error).__name__
            line.send(json.dumps([number, why]).encode())


class Line:
    """The loop's end.

    Args:
        end: Of the pair of sockets.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end, self._lock, self._number = end, threading.Lock(), 0

    def instruct(self, kind: str, document: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Send an instruction, and wait until the emergency stop has acted on it.

        Raises:
            AdapterError: It cannot, and why.
        """
        with self._lock:
            self._number += 1
            end = time.monotonic() + ANSWER_S
            try:
                socket.send_fds(self._end, [json.dumps([self._number, kind, document]).encode()], descriptors)
                answer: list[Any] = [0, ""]
                while answer[0] != self._number:  # an earlier one may have come too late
                    self._end.settimeout(max(end - time.monotonic(), 1e-3))
                    if not (message := self._end.recv(LONGEST)):
                        raise AdapterError("its process ended.")
                    answer = json.loads(message)
            except TimeoutError:
                raise AdapterError(f"it did not answer within {ANSWER_S:g} s.") from None
            except OSError as error:
                raise AdapterError(f"its process is gone ({os.strerror(error.errno or 0)}).") from None
        if answer[1]:
            raise AdapterError(answer[1])

    def close(self) -> None:
        """Close the socket. Safe twice."""
        self._end.close()
