"""The loop's side of a watchdog: it starts the watchdog's process, sends heartbeats, and reads whether it fired.

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
from weakref import WeakValueDictionary

from sami_runtime.child import python_command
from sami_runtime.errors import AdapterError, SafetyStop, SamiError

DUE, FIRED, STOPPED, ALIVE_AT, STOPPING = range(5)
"""Indices of the shared numbers: times [ns] by `now`, or 0 for "not yet". The loop writes DUE and STOPPING.

DUE: when the next beat is due; 0 while nothing is watched, `NEVER` before an episode's first beat, `STOP_NOW` to ask
for the emergency stop. FIRED: when the watchdog fired. STOPPED: when its emergency stop first returned without error.
ALIVE_AT: when the watchdog last checked. STOPPING: when the loop called the robot's own `stop()`."""
NEVER, STOP_NOW = 2**62, 1
SIZE = 5 * 8
READY, QUIT, WAKE = b"\0", b"q", b"!"
"""Messages on the link. The watchdog sends READY and, as JSON, the kinds of adapters from which its emergency stop
expects instructions; or the reason why it cannot stop the robot. The loop sends QUIT and WAKE."""
ANSWER_S = 6.0
"""Longest time [s] that an emergency stop may take to act on an instruction."""
LONGEST, MOST_DESCRIPTORS = 65536, 4


def shared_numbers(descriptor: int) -> memoryview:
    """Return the int64 numbers in a file's memory as a view, (5,).

    Each number is one aligned word, so that the other process never reads a half-written number.
    """
    return memoryview(mmap.mmap(descriptor, SIZE)).cast("q")


def now() -> int:
    """Return the time [ns] of a clock that all processes share, and that also counts while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def clock_of(moment: int) -> str:
    """Return the local time of day at a time [ns] by `now`: `14:03:22.125`."""
    at = time.time() - 1e-9 * (now() - moment)
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(1e3 * (at % 1.0)):03d}"


def why_fired(instructed: bool, loop_ended: bool, stopping: bool, within_s: float, stop_s: float) -> str:
    """Return the reason why a watchdog fired, for messages of both processes; the times [s] are those of `Watchdog`."""
    if loop_ended:
        return "lost the loop's process"
    if instructed:
        return "was asked to"
    return f"saw stop() take longer than {stop_s:g} s" if stopping else f"got no heartbeat within {within_s:g} s"


START_S = 30.0
"""Longest time [s] that the process may take to connect to the robot."""
QUIT_S = 2.0
"""Longest time [s] that the process may take to end."""
_running: list[Watchdog] = []
"""The running watchdogs that this process started."""
_claim = threading.Lock()  # held while an adapter takes watchdogs for its robot


class WatchdogConflictError(AdapterError):
    """Every watchdog that an adapter could instruct stops the robot of another one."""


def instruct_watchdogs(adapter: object, kind: str, document: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send an adapter's instruction to the running watchdogs that expect it and do not stop another adapter's robot.

    Arguments as of `Watchdog.instruct`; until `release_watchdogs(adapter)`, they stop the robot of this one alone.

    Raises:
        WatchdogConflictError: All that expect it stop another adapter's robot.
        AdapterError: As of `Watchdog.instruct`.
    """
    with _claim:
        expecting = [watchdog for watchdog in list(_running) if kind in watchdog._expected]
        free = [watchdog for watchdog in expecting if watchdog._instructors.get(kind, adapter) is adapter]
        for watchdog in free:
            watchdog._instructors[kind] = adapter
    if expecting and not free:
        raise WatchdogConflictError(
            "each watchdog of this process stops another adapter's robot. Close that adapter; or, for two robots in a "
            "process, start the second watchdog after the first adapter has connected."
        )
    for watchdog in free:
        watchdog.instruct(kind, document, descriptors)


def release_watchdogs(adapter: object) -> None:
    """Let other adapters instruct the running watchdogs, because this one is closed."""
    with _claim:
        for watchdog in list(_running):
            for kind in [kind for kind, other in watchdog._instructors.items() if other is adapter]:
                del watchdog._instructors[kind]


def beat_watchdogs(period_s: float) -> None:
    """Beat the watchdogs that watch, for an adapter that moves the robot by itself and calls this every `period_s` [s].

    Those whose `within_s` is less than 2.5 periods, because the adapter may wake up late, only watch that this process
    lives, as from `begin` on; all do so after a call with infinity, when the robot rests. Errors as of `Watchdog.beat`.
    """
    for watchdog in list(_running):
        if watchdog._numbers[DUE]:
            watchdog.beat() if 2.5 * period_s <= watchdog.within_s else watchdog.begin()


class Watchdog:
    """A second process that stops the robot if this process fails to send a heartbeat in time, for whatever reason.

    Its connection to the robot is its own, made before anything moves: `MODULE:FACTORY` names a function that connects
    and returns a function that stops the robot, which may be called more than once.

        with Watchdog("my_arm:emergency_stop", within_s=0.12) as dog:
            while driving:
                command = policy(robot.read())
                dog.beat()
                robot.write(command)
            robot.stop()
            dog.end()

    Beat just before each write: then no command stays in force for longer than `within_s`, whether this process is
    killed, suspended or hangs. From `begin` or the first beat on, the robot is also stopped if this process ends. `end`
    and the end of the block stop the watch; if an error leaves the block before `end`, the robot is stopped.

    A watchdog that fired repeats the stop until `end`, so that a write that hung cannot move the robot later. Every
    beat raises until somebody calls `rearm`. If the watchdog's process itself dies or is suspended, the next beat more
    than `within_s` after its last check raises.

    Args:
        emergency_stop: MODULE:FACTORY, e.g. `my_arm:emergency_stop`; the module is in the current folder or on this
            process's `sys.path`.
        within_s: Longest time [s] from one heartbeat to the next.
        stop_s: Longest time [s] that the adapter's own `stop()` may take at an episode's end.

    Raises:
        SamiError: A time is not a positive, finite number.
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
        self._instructors: WeakValueDictionary[str, object] = WeakValueDictionary()  # open adapters, by their kinds

    @property
    def pid(self) -> int | None:
        """The id of the watchdog's process; None if it is not running."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> Watchdog:
        """Start the process, and wait until it is able to stop the robot.

        Raises:
            AdapterError: It cannot stop the robot, with the reason. Nothing was moved.
        """
        if sys.platform != "linux":
            raise AdapterError(f"a watchdog needs Linux, not {sys.platform}. Leave it out; rely on the robot's own.")
        shared = os.memfd_create("sami-watchdog")  # nameless memory, freed with the last process that uses it
        os.ftruncate(shared, SIZE)
        self._numbers, self._stop_is_requested = shared_numbers(shared), False
        self._link, peer = socket.socketpair()
        self._line, their_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handles = (peer.fileno(), their_line.fileno(), shared)
        try:
            self._process = subprocess.Popen(
                python_command(f"{__name__}_process", self.name, self.within_s, self.stop_s, os.getpid(), *handles),
                stdin=subprocess.DEVNULL,
                stdout=2,  # prints of a user's module must not mix with this process's stdout
                pass_fds=handles,
                start_new_session=True,  # Ctrl-C and Ctrl-Z must not reach it
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
        """End the watch; if an error leaves the block before `end`, stop the robot first."""
        if error is not None and self._numbers[DUE]:
            self.fire()  # `close` waits for it
        self.close()

    def require_rate(self, loop_hz: float) -> None:
        """Check that the watchdog would not fire between two ticks of a loop of this rate [1/s].

        Raises:
            SamiError: It would; the message recommends a longer `within_s`.
        """
        if self.within_s <= 1.0 / loop_hz:
            raise SamiError(
                f"the watchdog needs a heartbeat every {self.within_s:g} s, but the loop has one every "
                f"{1.0 / loop_hz:g} s. Set a longer time, such as three periods, {3.0 / loop_hz:g} s."
            )

    def instruct(self, kind: str, document: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send an adapter's instruction to the emergency stop, if that expects one from this kind of adapter.

        Args:
            kind: Kind of adapter, by the name that the emergency stop passes to `take_instructions`.
            document: The instruction, of values that JSON can represent.
            descriptors: Of files or sockets; the watchdog's process receives copies.

        Raises:
            AdapterError: The emergency stop cannot act on the instruction, with the reason. Do not rely on it then.
        """
        if self._line is None or kind not in self._expected:
            return
        self._waits.add(kind)
        with self._lock:
            self._instructions += 1
            message = json.dumps([self._instructions, kind, document]).encode()
            if refusal := _answer(self._line, message, descriptors, self._instructions):
                raise AdapterError(f"the watchdog cannot stop the robot: {refusal}")
        self._waits.discard(kind)

    def begin(self) -> None:
        """Begin to watch that this process lives, and, from the first beat on, that each next beat is in time.

        Raises:
            SafetyStop: It fired or was asked to, and nobody called `rearm`, or its process is gone.
            SamiError: It was not started, or its emergency stop still expects an adapter's instruction.
        """
        self._require_usable()
        self._numbers[STOPPING] = 0
        self._watch_until(NEVER)

    def beat(self) -> None:
        """Report that the loop is alive, which counts for the next `within_s`. Call it just before each write.

        Raises:
            SafetyStop: The watchdog fired, is about to fire because this beat is late, or is itself not alive. Write
                nothing more.
            SamiError: It was not started, or its emergency stop still expects an adapter's instruction.
        """
        numbers, moment = self._numbers, now()
        if numbers[FIRED] or 0 < numbers[DUE] < moment or moment - numbers[ALIVE_AT] > self._within or self._waits:
            self._require_usable()
        self._watch_until(moment + self._within)

    def stopping(self) -> None:
        """Report that the robot's own `stop()` is called now, which may take `stop_s`."""
        if self._numbers[DUE]:
            self._numbers[STOPPING] = moment = now()
            self._watch_until(moment + round(1e9 * self.stop_s))

    def end(self) -> None:
        """Stop watching, because the robot is at rest; wait at most `stop_s` for a stop that `fire` asked for."""
        self._numbers[DUE] = 0
        if not self._numbers[FIRED]:  # else `fault` reports that `stop()` took too long
            self._numbers[STOPPING] = 0
        requested = self._stop_is_requested and self._process is not None and not self._numbers[STOPPED]
        if requested and self.fire(self.stop_s):
            self._numbers[DUE] = 0

    def fire(self, wait_s: float = 0.0) -> bool:
        """Make the watchdog stop the robot at once. Any thread may call this.

        Args:
            wait_s: How long [s] to wait until the robot is stopped.

        Returns:
            Whether the emergency stop has returned without an error.
        """
        self._stop_is_requested = True
        self._numbers[DUE] = STOP_NOW
        if self._link is not None:
            with suppress(OSError):  # the process is gone, or its socket is full of such messages
                self._link.send(WAKE, socket.MSG_DONTWAIT)
        end = time.monotonic() + wait_s
        while not self._numbers[STOPPED] and time.monotonic() < end:
            time.sleep(0.001)
        return self._numbers[STOPPED] != 0

    def rearm(self) -> None:
        """Forget that the watchdog fired. A person should decide that."""
        self._stop_is_requested = False
        self._numbers[DUE] = self._numbers[STOPPED] = self._numbers[FIRED] = self._numbers[STOPPING] = 0

    @property
    def fired(self) -> bool:
        """Whether the watchdog stopped the robot on its own, not by a call of `fire`."""
        return self._numbers[FIRED] != 0 and not self._stop_is_requested

    def fault(self) -> str | None:
        """Return why the robot must not be driven any further; None if it may be."""
        numbers, moment = self._numbers, now()
        due, fired, alive = numbers[DUE], numbers[FIRED], numbers[ALIVE_AT]
        if fired:
            stopping = 0 < numbers[STOPPING] < fired  # `stop()` is also called after the watchdog fired
            reason = why_fired(self._stop_is_requested, False, stopping, self.within_s, self.stop_s)
            if numbers[STOPPED]:
                return f"at {clock_of(fired)} the watchdog {reason} and stopped the robot by {self.name}, which worked"
            advice = "yet: if it moves, press its emergency stop"
            return f"at {clock_of(fired)} the watchdog {reason}, and {self.name} has not stopped the robot {advice}"
        if self._stop_is_requested:
            return f"the watchdog was asked to stop the robot by {self.name}, and has not begun"
        if 0 < due < moment:
            return f"a heartbeat came {1e-9 * (moment - due):.3g} s after the watchdog's limit of {self.within_s:g} s"
        if moment - alive > self._within:
            return (
                f"the watchdog gave no sign of life for {1e-9 * (moment - alive):.3g} s, allowed are {self.within_s:g} "
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
            except subprocess.TimeoutExpired:  # it hangs in its emergency stop
                process.kill()
                process.wait()

    def _watch_until(self, due: int) -> None:
        """Set when the next beat is due [ns]; take no request to stop back that another thread made meanwhile."""
        self._numbers[DUE] = due
        if self._stop_is_requested:
            self._numbers[DUE] = STOP_NOW

    def _require_usable(self) -> None:
        """Raise if the robot must not be driven, as `beat` does."""
        if self._process is None:
            raise SamiError(
                "the watchdog is not running, so it could not stop the robot. Use it inside "
                "`with Watchdog(...) as dog:`."
            )
        if fault := self.fault():
            raise SafetyStop(fault)
        if self._waits:
            raise SamiError(
                f"{self.name} cannot stop the robot yet: it waits for instructions of an adapter of "
                f"{', '.join(sorted(self._waits))}. Make the adapter inside `with Watchdog(...) as dog:`."
            )

    def _require_ready(self, link: socket.socket, process: subprocess.Popen[bytes]) -> set[str]:
        """Wait until the process can stop the robot; return the kinds of adapters that have to send it instructions."""
        link.settimeout(START_S)
        try:
            answer = link.recv(65536)
        except TimeoutError:
            answer = f"{self.name}() did not return within {START_S:g} s. Correct it, or what it waits for.".encode()
        if answer[:1] == READY:
            return set(json.loads(answer[1:]))
        process.kill()
        reason = answer.decode() or f"its process ended with {process.wait()}, see above."
        raise AdapterError(f"the watchdog could not stop the robot, so nothing was moved: {reason}")


def _answer(line: socket.socket, message: bytes, descriptors: Sequence[int], number: int) -> str:
    """Send an instruction, and return why the emergency stop cannot act on it; an empty text if it did."""
    end = time.monotonic() + ANSWER_S
    answer: list[Any] = [0, ""]
    try:
        socket.send_fds(line, [message], descriptors)
        while answer[0] != number:  # skip late answers to earlier instructions
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
    """Return numbers (5,) that no other process shares, for the time in which the watchdog is not running."""
    return memoryview(bytearray(SIZE)).cast("q")
