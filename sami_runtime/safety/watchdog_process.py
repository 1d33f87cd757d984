"""The watchdog's own process: it checks the loop's heartbeat, and stops the robot when one is late.

Its output never blocks it, even if nobody reads stderr. An adapter may send instructions to its emergency stop, such as
an address and a message to send, over a pair of sockets. This process inherits one of them; they have no names, so that
no other process can connect to them.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from inspect import isfunction, signature
from typing import Any

from sami_runtime.errors import SamiError
from sami_runtime.factories import call_factory, load_factory
from sami_runtime.safety.watchdog import (
    ALIVE_AT,
    DUE,
    FIRED,
    LONGEST,
    MOST_DESCRIPTORS,
    QUIT,
    READY,
    STOP_NOW,
    STOPPED,
    STOPPING,
    clock_of,
    now,
    shared_numbers,
    why_fired,
)

CHUNKS, CHUNK = 256, 4096
"""Most chunks of output that wait for a reader, and the bytes of each; further output is dropped."""


class Output:
    """Replaces stdout and stderr, so that writing to them never blocks this process.

    All writes, also those of a user's module and of libraries, go to a pipe that one thread empties. A second thread
    writes them to the original stderr. That thread may block for ever: stderr is often a pipe, and its reader may hang
    as the loop does.
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[bytes] = queue.Queue(CHUNKS)
        self._reads, writes = os.pipe()
        original = os.dup(2)
        for descriptor in (1, 2):
            os.dup2(writes, descriptor)
        os.close(writes)
        for target, descriptor in ((self._drain, self._reads), (self._pass_on, original)):
            threading.Thread(target=target, args=(descriptor,), name="sami-output", daemon=True).start()

    def put(self, text: str) -> None:
        """Print a line, without a system call."""
        with suppress(queue.Full):
            self._queue.put_nowait(text.encode())

    def flush(self, within_s: float) -> None:
        """Wait until all output has reached the original stderr, but no longer than `within_s` [s]."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            time.sleep(0.001)  # a chunk may have left the pipe and not be in the queue yet
            if not self._queue.unfinished_tasks and not select.select([self._reads], [], [], 0)[0]:
                return

    def _drain(self, descriptor: int) -> None:
        while chunk := os.read(descriptor, CHUNK):
            with suppress(queue.Full):
                self._queue.put_nowait(chunk)

    def _pass_on(self, descriptor: int) -> None:
        while True:
            chunk = self._queue.get()
            with suppress(OSError):  # the reader is gone
                while chunk:
                    chunk = chunk[os.write(descriptor, chunk) :]
            self._queue.task_done()


Take = Callable[[dict[str, Any], list[int]], object]
"""Acts on an instruction and its file descriptors; raises if it cannot."""

_takers: dict[str, Take] = {}


def take_instructions(kind: str, take: Take) -> None:
    """Expect instructions from an adapter; a factory of an emergency stop calls this in a watchdog's process.

    Args:
        kind: Of adapter: `"ros2"`.
        take: Called in another thread, once for each adapter that is made.
    """
    _takers[kind] = take


def serve(line: socket.socket) -> None:
    """Pass each instruction to its `take`, and answer it, until the loop's process ends; runs in a thread."""
    with line, suppress(OSError):
        while True:
            message, descriptors, *_ = socket.recv_fds(line, LONGEST, MOST_DESCRIPTORS)
            if not message:
                return
            number, kind, document = json.loads(message)
            try:
                _takers[kind](document, descriptors)
                reason = ""
            except Exception as error:  # the adapter reports it
                reason = str(error) or type(error).__name__
            line.send(json.dumps([number, reason]).encode())


FLUSH_S = 0.5
"""Longest time [s] that the process waits at its end until its output has been read."""
LOOKS = 4
"""Least number of checks within `within_s`."""
REPEATS, REPEAT_S = 20, 0.05
"""Number of emergency stops after the loop's process died, and longest time [s] between two. While the loop's process
lives, they are repeated until it calls `end` or `rearm`."""


def build_stop(name: str) -> Callable[[], object]:
    """Call `FACTORY()` of `MODULE`, and return the function that stops the robot.

    Raises:
        SamiError: The factory cannot be found, failed, or returned something that cannot be called.
    """
    example = "my_arm:emergency_stop for emergency_stop() in my_arm.py"
    stop = call_factory(name, load_factory(name, "emergency stop", example, _needs_nothing))
    if not callable(stop):
        raise SamiError(
            f"{name}() returned {stop!r}, which cannot be called. It connects to the robot and returns a function "
            "that stops it; see docs/reference/watchdog.md."
        )
    return stop


def _needs_nothing(value: Any) -> bool:
    """Whether a value is a function that can be called without arguments, unlike the adapters beside it."""
    if not isfunction(value):
        return False
    with suppress(TypeError):
        signature(value).bind()
        return True
    return False


class Watcher:
    """Checks the heartbeat of a loop, in the watchdog's process.

    Args:
        numbers: (5,), shared with the loop; see `watchdog`.
        link, loop_process: Socket to the loop's process, and its id.
        stop, name: Stops the robot; its MODULE:FACTORY, for messages.
        within_s, stop_s: As of `Watchdog`; it checks `LOOKS` times within `within_s`.
        output: Prints messages.
    """

    def __init__(
        self,
        numbers: memoryview,
        link: socket.socket,
        loop_process: int,
        stop: Callable[[], object],
        name: str,
        within_s: float,
        stop_s: float,
        output: Output,
    ) -> None:
        self._numbers, self._link, self._loop_process, self._stop = numbers, link, loop_process, stop
        self._name, self._within_s, self._stop_s, self._output = name, within_s, stop_s, output
        self._pause_ms = 1e3 * within_s / LOOKS
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)
        with suppress(AttributeError, OSError):  # an old kernel, or a container that forbids it
            # Wakes this process when the loop's process ends; without it, the next check sees that.
            self._poll.register(os.pidfd_open(loop_process), select.POLLIN)
        self._quit = False
        numbers[ALIVE_AT] = now()

    def run(self) -> None:
        """Check the heartbeat until the loop's process sends `QUIT` or ends."""
        while not self._quit:
            self._numbers[ALIVE_AT] = moment = now()
            due, loop_ended = self._numbers[DUE], self._loop_ended()
            if due and (loop_ended or moment >= due):
                self._fire(moment)
            elif loop_ended:
                return
            else:
                self._wait(min(self._pause_ms, (due - moment) / 1e6) if due else self._pause_ms)

    def _fire(self, moment: int) -> None:
        """Stop the robot repeatedly, because a write of the loop that hung may still reach it."""
        instructed, stopping = self._numbers[DUE] == STOP_NOW, self._numbers[STOPPING] != 0
        loop_ended = self._loop_ended()
        self._numbers[FIRED] = moment  # first, so that a loop that runs on writes nothing more
        reason = why_fired(instructed, loop_ended, stopping, self._within_s, self._stop_s)
        self._output.put(f"sami: {clock_of(moment)} the watchdog {reason}, and stops the robot by {self._name}.\n")
        after_death, failed = 0, False
        while self._numbers[DUE] and self._numbers[FIRED] and after_death < REPEATS:
            self._numbers[ALIVE_AT] = now()
            try:
                self._stop()
                self._numbers[STOPPED] = self._numbers[STOPPED] or now()
            except BaseException as error:  # the next try may work
                if not failed:
                    self._output.put(f"sami: the emergency stop failed: {type(error).__name__}: {error}\n")
                failed = True
            after_death += self._loop_ended()
            self._wait(min(self._pause_ms, 1e3 * REPEAT_S))
        if self._loop_ended():
            self._quit = True

    def _loop_ended(self) -> bool:
        return os.getppid() != self._loop_process

    def _wait(self, milliseconds: float) -> None:
        """Sleep until the time is over, the loop's process sends a message, or it ends."""
        for descriptor, _ in self._poll.poll(max(milliseconds, 0.0)):
            if descriptor == self._link.fileno() and self._link.recv(64) in (QUIT, b""):
                self._poll.unregister(self._link)
                self._quit = not self._numbers[DUE]
            elif descriptor != self._link.fileno():
                self._poll.unregister(descriptor)


def main(
    name: str, within_s: float, stop_s: float, loop_process: int, link_end: int, line_end: int, shared: int
) -> None:
    """Build the emergency stop, report to the loop's process whether that worked, and watch its heartbeat.

    Args as of `Watcher`, and the descriptors of the link, of the line for instructions and of the shared numbers.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # this process ends by QUIT, or after the loop's process has died
    link, line = socket.socket(fileno=link_end), socket.socket(fileno=line_end)
    try:
        stop = build_stop(name)
    except SamiError as error:
        link.sendall(str(error).encode())
        sys.exit(error.exit_code)
    threading.Thread(target=serve, args=(line,), name="sami-instructions", daemon=True).start()
    come_first()
    # From here on output cannot block this process. The threads of `Output` inherit the priority: a thread that waits
    # for a core while it holds Python's lock would block the watcher.
    output = Output()
    watcher = Watcher(shared_numbers(shared), link, loop_process, stop, name, within_s, stop_s, output)
    link.sendall(READY + json.dumps(sorted(_takers)).encode())
    watcher.run()
    output.flush(FLUSH_S)


def come_first() -> None:
    """Take a real-time priority if that is permitted, to run even on a busy machine; the process mostly sleeps."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO) - 1))
