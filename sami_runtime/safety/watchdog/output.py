"""What the watchdog's process prints: it never waits for whoever should read it."""

from __future__ import annotations

import os
import queue
import select
import sys
import threading
import time
from contextlib import suppress

CHUNKS, CHUNK = 256, 4096
"""Most pieces that wait for a reader, and the bytes of each; what comes beyond that is dropped."""


class Output:
    """Takes the place of stdout and stderr, and passes on what is written there, as far as somebody reads it.

    Writes of this process, of a user's module and of the libraries that it loads go to a pipe that a thread empties, so
    that none of them blocks. Another thread writes to the stderr that the process began with. That one may block for
    ever: it is often a pipe, and the process that should read it may hang, as the loop does.
    """

    def __init__(self) -> None:
        self._waiting: queue.Queue[bytes] = queue.Queue(CHUNKS)
        self._reads, writes = os.pipe()
        theirs = os.dup(2)
        for descriptor in (1, 2):
            os.dup2(writes, descriptor)
        os.close(writes)
        for target, descriptor in ((self._drain, self._reads), (self._pass_on, theirs)):
            threading.Thread(target=target, args=(descriptor,), name="sami-output", daemon=True).start()

    def put(self, text: str) -> None:
        """Print a line, without a system call."""
        with suppress(queue.Full):
            self._waiting.put_nowait(text.encode())

    def flush(self, within_s: float) -> None:
        """Wait until all that was printed has been passed on, no longer than a time [s]."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            time.sleep(0.001)  # what was just read from the pipe is not in the queue yet
            if not self._waiting.unfinished_tasks and not select.select([self._reads], [], [], 0)[0]:
                return

    def _drain(self, descriptor: int) -> None:
        while chunk := os.read(descriptor, CHUNK):
            with suppress(queue.Full):
                self._waiting.put_nowait(chunk)

    def _pass_on(self, descriptor: int) -> None:
        while True:
            chunk = self._waiting.get()
            with suppress(OSError):  # nobody is there any more
                while chunk:
                    chunk = chunk[os.write(descriptor, chunk) :]
            self._waiting.task_done()
