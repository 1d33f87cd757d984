"""Reaching `stop()` on every way out of a loop: the end, an error, Ctrl-C, and being told to terminate."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol, TypeVar

from sami_runtime.adapters.base import Adapter
from sami_runtime.errors import AdapterError, text_of

T = TypeVar("T")

FATAL = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
"""Signals that would end the process on the spot, where nobody handles them; SIGHUP comes when a terminal closes,
SIGQUIT from Ctrl-\\."""
HANGS_S = 1.0
"""Time [s] after which a signal that waits for `stop()` is explained to whoever sent it."""


class LoopWatchdog(Protocol):
    """A watchdog as a loop sees it: it stops the robot where this process cannot, as `safety.watchdog.Watchdog` does.

    `begin` and `beat` raise a SafetyStop where the robot was stopped, or would not be if it had to be.
    """

    name: str
    """What it stops the robot by."""
    stop_s: float
    """Longest time [s] that the adapter's own `stop()` may take."""

    @property
    def fired(self) -> bool:
        """Whether it stopped the robot by itself, and not because somebody told it to."""

    def require_rate(self, loop_hz: float) -> None:
        """Raise a SamiError where a loop of this rate [1/s] beats too seldom."""

    def rearm(self) -> None:
        """Forget that it fired."""

    def begin(self) -> None:
        """Watch from now on."""

    def beat(self) -> None:
        """Say that the loop is alive; for the instant before each write."""

    def fault(self) -> str | None:
        """Return why the robot must not be driven on; None where it may be."""

    def stopping(self) -> None:
        """Say that the robot's own `stop()` is called now."""

    def end(self) -> None:
        """Watch no longer: the robot rests."""

    def fire(self, wait_s: float = 0.0) -> bool:
        """Have the robot stopped at once, wait so long [s] for it, and return whether it was."""


def stopped_after(adapter: Adapter, body: Callable[[], T], watchdog: LoopWatchdog | None = None) -> T:
    """Call `body`, and stop the adapter however that ends; call `stop()` again if it failed.

    In the main thread, signals that would have killed the process raise SystemExit inside the body instead; those
    that the program handles or ignores itself are left to it. Once the body has ended, every signal waits until
    `stop()` has returned, however many come; then their handlers run. Only a watchdog, the robot's emergency stop and
    SIGKILL end a `stop()` that hangs. Other threads get no signals: there, trip the gate.

    A watchdog ends its watch when the adapter has stopped; where that fails, it stops the robot.

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
                if not deaf:  # a handler that the body installed, and left, raised in between
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
        del cause, failed, interrupt, first  # their tracebacks hold this frame


def _interruptible(body: Callable[[], T], signals: _Signals) -> T:
    """Call the body; only below this frame do signals raise."""
    if error := signals.deliver():  # it came after the handlers were installed, and before this frame began
        raise error
    return body()


def _stop(adapter: Adapter, watchdog: LoopWatchdog | None) -> BaseException | None:
    """Stop the adapter, in two tries; return why the first one failed.

    Raises:
        AdapterError: Both failed.
    """
    first: BaseException | None = None
    if watchdog:
        watchdog.stopping()
    try:
        adapter.stop()
    except BaseException as error:
        first = error
    if first is not None:
        try:
            adapter.stop()
        except BaseException as second:
            failed = f"{type(adapter).__name__}.stop() failed twice: {text_of(first)}; then: {text_of(second)}."
            if watchdog and watchdog.fire(watchdog.stop_s):
                raise AdapterError(f"{failed} The watchdog stopped it by {watchdog.name}.") from first
            raise AdapterError(f"{failed} It may still move: press its emergency stop.") from first
    if watchdog:
        watchdog.end()
    return first


class _Signals:
    """Has the signals of the main thread interrupt the body of `stopped_after`, and nothing else of it.

    The handlers stand in the place of those that the program has. Whether they raise depends on the frame that a
    signal interrupts, not on a flag, so that no moment lies between the body's end and the first try to stop. Blocking
    signals would not do: the kernel gives them to any thread, and Python runs their handlers in this one.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._waiting: list[int] = []
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
        """Give the handlers back. A signal that raises meanwhile does not keep the others."""
        self._over.set()
        try:
            self._give_back()
        except BaseException:
            self._give_back()
            raise

    def take_over(self) -> None:
        """Handle what kills the process or runs a handler of the program, if this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        fatal = {getattr(signal, name, None) for name in FATAL}
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if handler != self._handle and (callable(handler) or (handler is signal.SIG_DFL and number in fatal)):
                self._handlers[number] = handler
                signal.signal(number, self._handle)

    def deliver(self) -> BaseException | None:
        """Do what the signals that waited ask for; return the first error that comes of it."""
        first: BaseException | None = None
        while self._waiting:
            try:
                self._obey(self._waiting.pop(0), None)
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
                if not self._waiting:
                    with suppress(RuntimeError):  # no thread can be had: it waits without a word
                        threading.Thread(target=self._explain, args=(number,), daemon=True).start()
                self._waiting.append(number)
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
        """Say why nothing happens, in a thread of its own: whoever should read it may be stopped or gone."""
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
    """Within the block, fatal signals that nobody handles raise SystemExit, if this is the main thread."""
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
    raise SystemExit(128 + number)
