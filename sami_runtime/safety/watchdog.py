"""The loop's side of a watchdog: it starts the process, beats, and learns when that has fired.

`sami_runtime.safety.watchdog_process` is the other side. Both share five numbers and two pairs of sockets.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from sami_runtime.child import python_command
from sami_runtime.errors import AdapterError, SafetyStop, SamiError

DUE, FIRED, STOPPED, SEEN, STOPPING = range(5)
"""Index of each number, a time [ns] by `now`. The loop writes the first and the last, the watchdog the others:

when the next beat is due, `NEVER` in an episode that has not beaten yet, `STOP_NOW` where somebody asks for the
emergency stop, and 0 while nothing is watched; when the watchdog fired, 0 if it did not; when its emergency stop first
came back, 0 if it did not; when it last looked; when the robot's own `stop()` was called, 0 while it was not.
"""
NEVER, STOP_NOW = 2**62, 1
SIZE = 5 * 8
READY, QUIT, WAKE = b"\0", b"q", b"!"
"""What goes over the link: the first comes from the watchdog, with the kinds of adapters that are to instruct what
stops the robot, as JSON; where it cannot stop the robot, it sends why."""
ANSWER_S = 6.0
"""Longest time [s] that an emergency stop may take to act on an instruction."""
LONGEST, MOST_DESCRIPTORS = 65536, 4


def shared_numbers(descriptor: int) -> memoryview:
    """Return the int64 numbers that lie in a file's memory, without copying them.

    Each is read and written as one aligned word, so that nobody sees half of one.
    """
    return memoryview(mmap.mmap(descriptor, SIZE)).cast("q")


def now() -> int:
    """Return the time [ns] that all processes of this machine share; it goes on while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def clock_of(moment: int) -> str:
    """Return what a clock on the wall said at a time [ns] by `now`: `14:03:22.125`."""
    at = time.time() - 1e-9 * (now() - moment)
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(1e3 * (at % 1.0)):03d}"


def why_fired(instructed: bool, loop_ended: bool, stopping: bool, within_s: float, stop_s: float) -> str:
    """Return why a watchdog fired, for both processes.

    Args:
        instructed: Whether somebody asked for the stop.
        loop_ended: Whether the loop's process had ended.
        stopping: Whether the robot's own `stop()` was under way.
        within_s: Longest time [s] between two beats.
        stop_s: Longest time [s] of the robot's own `stop()`.
    """
    if loop_ended:
        return "lost the loop's process"
    if instructed:
        return "was told to"
    return f"saw stop() take longer than {stop_s:g} s" if stopping else f"got no beat within {within_s:g} s"


START_S = 30.0
"""Longest time [s] that the process may take to connect to the robot."""
QUIT_S = 2.0
"""Longest time [s] that it may take to end."""
_running: list[Watchdog] = []
"""Those of this process."""


def instruct_watchdogs(kind: str, document: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send what an adapter has to say to each running watchdog; arguments and errors as `Watchdog.instruct`."""
    for watchdog in list(_running):
        watchdog.instruct(kind, document, descriptors)


class Watchdog:
    """A process that stops the robot when this one does not beat in time, whatever keeps it from that.

    It connects to the robot by itself and before anything moves: `MODULE:FACTORY` names a function that makes the
    connection and returns a function that stops the robot. That one may be called more than once.

        with Watchdog("my_arm:emergency_stop", within_s=0.12) as dog:
            while driving:
                command = policy(robot.read())
                dog.beat()
                robot.write(command)
            robot.stop()
            dog.end()

    The right moment to beat is just before a write: then no command stands for longer than `within_s`, whether the
    process is killed, stopped or hangs. From `begin` on, or the first beat, the end of this process stops the robot as
    well; `end` ends both. So does the block's end, but where an error leaves it in between, the robot is stopped.

    Once it fired it stops the robot again and again, until `end`, so that a command that hung cannot move it later;
    every beat raises, until somebody calls `rearm`. A watchdog that was itself killed or stopped is noticed by the next
    beat that comes `within_s` after its last sign of life.

    Args:
        emergency_stop: MODULE:FACTORY, e.g. `my_arm:emergency_stop`; the module lies in the current folder, or where
            this process finds its modules.
        within_s: Longest time [s] from one beat to the next.
        stop_s: Longest time [s] that the adapter's own `stop()` may take at an episode's end.

    Raises:
        SamiError: A time is none.
    """

    def __init__(self, emergency_stop: str, within_s: float, stop_s: float = 2.0) -> None:
        for name, value in (("within_s", within_s), ("stop_s", stop_s)):
            if not 0.0 < value < math.inf:
                raise SamiError(f"{name} of the watchdog is {value}; it must be a number of seconds, more than 0.")
        self.name, self.within_s, self.stop_s = emergency_stop, within_s, stop_s
        self._within = round(1e9 * within_s)
        self._numbers = _unshared()
        self._stop_is_requested = False
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._line: socket.socket | None = None
        self._lock, self._instructions = threading.Lock(), 0
        self._expected: set[str] = set()
        self._waits: set[str] = set()

    @property
    def pid(self) -> int | None:
        """The id of its process; None where there is none."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> Watchdog:
        """Start the process, and wait until it is able to stop the robot.

        Raises:
            AdapterError: It is not, with the reason; nothing was moved.
        """
        if sys.platform != "linux":
            raise AdapterError(
                f"a watchdog needs Linux, this is {sys.platform}. Leave it out, and rely on the robot's."
            )
        shared = os.memfd_create("sami-watchdog")  # memory without a name: gone with the last process that holds it
        os.ftruncate(shared, SIZE)
        self._numbers = shared_numbers(shared)
        self._link, peer = socket.socketpair()
        self._line, their_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        passed = (peer.fileno(), their_line.fileno(), shared)
        try:
            self._process = subprocess.Popen(
                python_command(f"{__name__}_process", self.name, self.within_s, self.stop_s, os.getpid(), *passed),
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a user's module prints does not mix with what this process prints
                pass_fds=passed,
                start_new_session=True,  # keys that stop or end this process do not reach it
            )
            peer.close()
            their_line.close()
            self._expected = self._require_ready(self._link, self._process)
            self._waits = set(self._expected)
            _running.append(self)
        except BaseException:
            self.close()
            raise
        finally:
            peer.close()
            their_line.close()
            os.close(shared)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the watch; left by an error while it watches, stop the robot first."""
        if error is not None and self._numbers[DUE]:
            self.fire(self.stop_s)
        self.close()

    def require_rate(self, loop_hz: float) -> None:
        """Refuse a loop that beats too seldom, so that the watchdog would fire between two ticks.

        Raises:
            SamiError: With a time that leaves room for a late tick.
        """
        if self.within_s <= 1.0 / loop_hz:
            raise SamiError(
                f"the watchdog wants a beat every {self.within_s:g} s, and the loop beats every {1.0 / loop_hz:g} s. "
                f"Give it more, such as three periods, {3.0 / loop_hz:g} s."
            )

    def instruct(self, kind: str, document: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send what an adapter has to say to the emergency stop, if that waits for such an adapter.

        Args:
            kind: Of adapter, as the emergency stop calls it in `take_instructions`.
            document: What JSON can hold.
            descriptors: Of files or sockets, which the watchdog's process receives copies of.

        Raises:
            AdapterError: It cannot act on it, and why; it must not be relied on then.
        """
        if self._line is None or kind not in self._expected:
            return
        self._waits.add(kind)
        with self._lock:
            self._instructions += 1
            message = json.dumps([self._instructions, kind, document]).encode()
            if refusal := _answer(self._line, message, descriptors, self._instructions):
                raise AdapterError(refusal)
        self._waits.discard(kind)

    def begin(self) -> None:
        """Watch from now on: this process must not end, and from the first beat on the next one must come in time.

        Raises:
            SafetyStop: It fired and nobody called `rearm`, or its process is gone.
            SamiError: It was not started, or its emergency stop waits for an adapter.
        """
        self._require_usable()
        self._numbers[STOPPING] = 0
        self._numbers[DUE] = NEVER

    def beat(self) -> None:
        """Say that the loop is alive, for the next `within_s`; for the instant before each write.

        Raises:
            SafetyStop: The robot was stopped, is about to be because this beat is late, or would not be if it had to
                be. Write nothing more.
            SamiError: It was not started, or its emergency stop waits for an adapter.
        """
        numbers, moment = self._numbers, now()
        if numbers[FIRED] or 0 < numbers[DUE] < moment or moment - numbers[SEEN] > self._within or self._waits:
            self._require_usable()
        numbers[DUE] = moment + self._within

    def stopping(self) -> None:
        """Say that the robot's own `stop()` is called now, which may take `stop_s`."""
        if self._numbers[DUE]:
            self._numbers[STOPPING] = moment = now()
            self._numbers[DUE] = moment + round(1e9 * self.stop_s)

    def end(self) -> None:
        """Watch no longer: the robot rests."""
        self._numbers[DUE] = self._numbers[STOPPING] = 0

    def fire(self, wait_s: float = 0.0) -> bool:
        """Have the robot stopped at once, from any thread.

        Args:
            wait_s: How long [s] to wait for it.

        Returns:
            Whether the emergency stop has come back without an error.
        """
        self._stop_is_requested = True
        self._numbers[DUE] = STOP_NOW
        if self._link is not None:
            with suppress(OSError):  # it is gone, or was told often enough
                self._link.send(WAKE, socket.MSG_DONTWAIT)
        end = time.monotonic() + wait_s
        while not self._numbers[STOPPED] and time.monotonic() < end:
            time.sleep(0.001)
        return self._numbers[STOPPED] != 0

    def rearm(self) -> None:
        """Forget that it fired. For a person to call, or on a person's behalf."""
        self._stop_is_requested = False
        self._numbers[DUE] = self._numbers[STOPPED] = self._numbers[FIRED] = self._numbers[STOPPING] = 0

    @property
    def fired(self) -> bool:
        """Whether it stopped the robot by itself, and not because somebody told it to."""
        return self._numbers[FIRED] != 0 and not self._stop_is_requested

    def fault(self) -> str | None:
        """Return why the robot must not be driven on; None while it is watched, or could be."""
        numbers, moment = self._numbers, now()
        due, fired, seen = numbers[DUE], numbers[FIRED], numbers[SEEN]
        if fired:
            why = why_fired(self._stop_is_requested, False, numbers[STOPPING] != 0, self.within_s, self.stop_s)
            result = "which worked" if numbers[STOPPED] else "which has not come back"
            return f"at {clock_of(fired)} the watchdog {why} and stopped the robot by {self.name}, {result}"
        if due == STOP_NOW:
            return f"the watchdog was told to stop the robot by {self.name}, and has not begun"
        if 0 < due < moment:
            return f"a beat for the watchdog came {1e-9 * (moment - due):.3g} s later than {self.within_s:g} s"
        if moment - seen > self._within:
            return (
                f"the watchdog gave no sign of life for {1e-9 * (moment - seen):.3g} s, allowed are {self.within_s:g} "
                "s: nothing would stop the robot if this process could not"
            )
        return None

    def close(self) -> None:
        """End the watch and its process. Safe twice."""
        self.end()
        self._numbers = _unshared()
        _running[:] = [other for other in _running if other is not self]
        line, link, process = self._line, self._link, self._process
        self._line = self._link = self._process = None
        if line is not None:
            line.close()
        if link is not None:
            with suppress(OSError):
                link.send(QUIT, socket.MSG_DONTWAIT)
            link.close()
        if process is not None:
            try:
                process.wait(QUIT_S)
            except subprocess.TimeoutExpired:  # it hangs in what stops the robot
                process.kill()
                process.wait()

    def _require_usable(self) -> None:
        """Do nothing while the robot may be driven.

        Raises:
            SafetyStop: With `fault`.
            SamiError: It was not started.
        """
        if self._process is None:
            raise SamiError(
                "the watchdog is not running, so nobody would stop the robot. Use it inside "
                "`with Watchdog(...) as dog:`."
            )
        if fault := self.fault():
            raise SafetyStop(fault)
        if self._waits:
            raise SamiError(
                f"{self.name} waits for an adapter of {', '.join(sorted(self._waits))} to say what stops the robot, so "
                "nobody could stop it. Make the adapter inside `with Watchdog(...) as dog:`."
            )

    def _require_ready(self, link: socket.socket, process: subprocess.Popen[bytes]) -> set[str]:
        """Wait until it could stop the robot; return which kinds of adapters are to instruct it."""
        link.settimeout(START_S)
        try:
            answer = link.recv(65536)
        except TimeoutError:
            answer = f"{self.name}() did not return within {START_S:g} s. Correct it, or what it waits for.".encode()
        if answer[:1] == READY:
            return set(json.loads(answer[1:]))
        process.kill()
        why = answer.decode() or f"its process ended with {process.wait()}, see above."
        raise AdapterError(f"the watchdog could not stop the robot, so nothing was moved: {why}")


def _answer(line: socket.socket, message: bytes, descriptors: Sequence[int], number: int) -> str:
    """Send an instruction of this number, and return why the emergency stop cannot act on it; empty where it did."""
    end = time.monotonic() + ANSWER_S
    answer: list[Any] = [0, ""]
    try:
        socket.send_fds(line, [message], descriptors)
        while answer[0] != number:  # an earlier one may have come too late
            line.settimeout(max(end - time.monotonic(), 1e-3))
            if not (received := line.recv(LONGEST)):
                return "its process ended."
            answer = json.loads(received)
    except TimeoutError:
        return f"it did not answer within {ANSWER_S:g} s."
    except OSError as error:
        return f"its process is gone ({os.strerror(error.errno or 0)})."
    return str(answer[1])


def _unshared() -> memoryview:
    """Return numbers that nobody looks at, as long as no process runs."""
    return memoryview(bytearray(SIZE)).cast("q")
