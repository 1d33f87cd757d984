"""Calls the adapter's `stop()` however a loop ends: normally, by an error, by Ctrl-C or by a signal to terminate."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol, TypeVar

from sami_runtime.adapters.base import Adapter
from sami_runtime.errors import AdapterError, SignalExit, text_of

T = TypeVar("T")

FATAL = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
"""OS signals that end the process at once unless it handles them. A closing terminal sends SIGHUP, Ctrl-\\ sends
SIGQUIT."""
HANGS_S = 1.0
"""Time [s] after which a message on stderr explains that a signal is waiting for `stop()` to return."""


class LoopWatchdog(Protocol):
    """The interface of a watchdog to the loop; `safety.watchdog.Watchdog` implements it. It stops the robot by itself.

    `begin` and `beat` raise a SafetyStop if the watchdog stopped the robot, or could not stop it any more.
    """

    name: str
    """Name of its emergency stop, for messages."""
    stop_s: float
    """Longest time [s] that the adapter's own `stop()` may take."""

    @property
    def fired(self) -> bool:
        """Whether it stopped the robot on its own, not by a call of `fire`."""

    def require_rate(self, loop_hz: float) -> None:
        """Raise a SamiError if a loop of this rate [1/s] beats too seldom."""

    def rearm(self) -> None:
        """Forget that it fired."""

    def begin(self) -> None:
        """Begin to watch the loop."""

    def beat(self) -> None:
        """Report that the loop is alive; the loop calls it just before each write."""

    def fault(self) -> str | None:
        """Return why the robot must not be driven any further; None if it may be."""

    def stopping(self) -> None:
        """Report that the robot's own `stop()` is called now."""

    def end(self) -> None:
        """Stop watching, because the robot is at rest."""

    def fire(self, wait_s: float = 0.0) -> bool:
        """Stop the robot at once, wait at most `wait_s` [s] for that, and return whether it was stopped."""


def stopped_after(adapter: Adapter, body: Callable[[], T], watchdog: LoopWatchdog | None = None) -> T:
    """Call `body`, then stop the adapter, whether `body` returned or raised; if `stop()` fails, call it once more.

    In the main thread, signals that would kill the process raise SystemExit inside the body; signals that the program
    handles or ignores itself stay with the program. Once the body has ended, all signals wait until `stop()` has
    returned; then their handlers run. A `stop()` that hangs can only be ended by a watchdog, the robot's emergency stop
    or SIGKILL. Other threads receive no signals: to end a loop there, trip the gate.

    The watchdog stops watching when `stop()` has returned; if `stop()` fails twice, the watchdog stops the robot.

    Raises:
        AdapterError: `stop()` failed twice.
    """
    cause: BaseException | None = None
    failed: BaseException | None = None
    deaf, signals = False, _Signals()
    try:
        with signals:
            try:
                try:
                    result = _interruptible(body, signals)
                except BaseException as error:
                    cause = error
                signals.take_over()
                deaf = True
            finally:
                if not deaf:  # a signal handler that the body installed raised after the body
                    _stop(adapter, watchdog)
            failed = _stop(adapter, watchdog)
    finally:
        interrupt = signals.deliver()
    try:
        first = failed or interrupt
        if cause is None and first is not None:
            raise first
        if cause is not None:
            if first is not None:
                raise cause from first
            raise cause
        return result
    finally:
        del cause, failed, interrupt, first  # their tracebacks refer to this frame: break the cycle


def _interruptible(body: Callable[[], T], signals: _Signals) -> T:
    """Call the body. Signals raise only while this frame is on the stack; see `_Signals`."""
    if error := signals.deliver():  # a signal came after the handlers were installed, but before this frame
        raise error
    return body()


def _stop(adapter: Adapter, watchdog: LoopWatchdog | None) -> BaseException | None:
    """Stop the adapter, with a second try if the first fails; return the first error. AdapterError: both failed."""
    errors = list[BaseException]()
    if watchdog:
        watchdog.stopping()
    for _ in range(2):
        try:
            adapter.stop()
            break
        except BaseException as error:
            errors.append(error)
    else:
        first, second = (text_of(error).rstrip(".") for error in errors)
        failed = f"{type(adapter).__name__}.stop() failed twice: {first}; then: {second}."
        if watchdog and watchdog.fire(watchdog.stop_s):
            raise AdapterError(f"{failed} The watchdog stopped it by {watchdog.name}.") from errors[0]
        raise AdapterError(f"{failed} It may still move: press its emergency stop.") from errors[0]
    if watchdog:
        watchdog.end()
    return errors[0] if errors else None


class _Signals:
    """Lets signals in the main thread interrupt the body of `stopped_after`, but not its calls of `stop()`.

    It replaces the program's handlers for a while. Whether its handler raises depends on the stack frames that a signal
    interrupts, not on a flag, so that there is no gap between the end of the body and the first call of `stop()`.
    Blocking signals would not help: the kernel may give them to any thread, and Python runs the handlers in this one.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._queue: list[int] = []
        self._over = threading.Event()

    def __enter__(self) -> _Signals:
        try:
            self.take_over()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the program's handlers, all of them even if a signal raises meanwhile."""
        self._over.set()
        try:
            self._give_back()
        except BaseException:
            self._give_back()
            raise

    def take_over(self) -> None:
        """In the main thread, install handlers for signals that kill the process or that the program handles."""
        if threading.current_thread() is not threading.main_thread():
            return
        fatal = {getattr(signal, name, None) for name in FATAL}
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if handler != self._handle and (callable(handler) or (handler is signal.SIG_DFL and number in fatal)):
                self._handlers[number] = handler
                signal.signal(number, self._handle)

    def deliver(self) -> BaseException | None:
        """Run the handlers of the signals that waited; return the first error that one of them raised."""
        first: BaseException | None = None
        while self._queue:
            try:
                self._obey(self._queue.pop(0), None)
            except BaseException as error:
                first = first or error
        return first

    def _give_back(self) -> None:
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        outer = frame
        while outer is not None and outer.f_code is not _interruptible.__code__:
            if outer.f_code is stopped_after.__code__:
                if not self._queue:
                    with suppress(RuntimeError):  # no thread can be started: it waits without a message
                        threading.Thread(target=self._explain, args=(number,), daemon=True).start()
                self._queue.append(number)
                return
            outer = outer.f_back
        self._obey(number, frame)

    def _obey(self, number: int, frame: FrameType | None) -> None:
        handler = self._handlers[number]
        if callable(handler):
            handler(number, frame)
        else:
            _leave(number, frame)

    def _explain(self, number: int) -> None:
        """Print why the signal has no effect yet; runs in a thread, because a write to stderr may block."""
        if self._over.wait(HANGS_S):
            return
        with suppress(OSError):
            os.write(
                2,
                f"sami: {signal.Signals(number).name} waits until stop() has returned, which it has not for "
                f"{HANGS_S:g} s. If the robot still moves, press its emergency stop. kill -9 {os.getpid()} ends this "
                "process without another try to stop the robot.\n".encode(),
            )


@contextmanager
def fatal_signals_raise() -> Iterator[None]:
    """Within the block, `FATAL` signals without a handler raise SystemExit, if this is the main thread."""
    replaced = []
    try:
        if threading.current_thread() is threading.main_thread():
            for name in FATAL:
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                    replaced.append(number)
                    signal.signal(number, _leave)
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _: object) -> NoReturn:
    raise SignalExit(128 + number)
