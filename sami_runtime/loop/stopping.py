"""Reaching `stop()` on every way out of a loop: the end, an error, Ctrl-C, and being told to terminate."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from sami_runtime.adapters.base import Adapter
from sami_runtime.errors import AdapterError
from sami_runtime.safety.watchdog.watchdog import Watchdog

T = TypeVar("T")

ALARM = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that come when somebody wants the program to end; SIGHUP when a terminal closes."""
FATAL = (*ALARM, "SIGQUIT")
"""Signals that would end the process on the spot, where nobody handles them; SIGQUIT comes from Ctrl-\\."""


def stopped_after(adapter: Adapter, body: Callable[[], T], watchdog: Watchdog | None = None) -> T:
    """Call `body`, and stops the adapter however that ends; calls `stop()` again if it failed or was interrupted.

    In the main thread, signals that would have killed the process raise SystemExit inside the body instead; those
    that the program handles or ignores itself are left to it. Other threads get no signals: there, trip the gate.

    A watchdog ends its watch when the adapter has stopped; where that fails, it stops the robot.

    Raises:
        AdapterError: `stop()` failed twice.
    """
    cause: BaseException | None = None
    stopped = False
    # All in one frame, so that an interrupt finds no gap between the body's end and the stop.
    with fatal_signals_raise():
        try:
            try:
                return body()
            except BaseException as error:
                cause = error
                raise
            finally:
                if watchdog:
                    watchdog.stopping()
                adapter.stop()
                stopped = True
        except BaseException as error:
            if not stopped:
                _stop_again(adapter, error, watchdog)
                stopped = True
                if cause is not None:
                    raise cause from error
            raise
        finally:
            if watchdog and stopped:
                watchdog.end()


def _stop_again(adapter: Adapter, first: BaseException, watchdog: Watchdog | None) -> None:
    """Stop once more, uninterrupted by keys that are pressed in alarm; SIGQUIT still ends it."""
    try:
        with _deaf():
            adapter.stop()
    except BaseException as second:
        failed = f"{type(adapter).__name__}.stop() failed twice: {_told(first)}; then: {_told(second)}."
        if watchdog and watchdog.fire(watchdog.stop_s):
            raise AdapterError(f"{failed} The watchdog stopped it by {watchdog.name}.") from first
        raise AdapterError(f"{failed} It may still move: press its emergency stop.") from first


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__


@contextmanager
def _deaf() -> Iterator[None]:
    """Within the block, the signals of `ALARM` are ignored, if this is the main thread."""
    numbers = [number for name in ALARM if (number := getattr(signal, name, None)) is not None]
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def fatal_signals_raise() -> Iterator[None]:
    """Within the block, fatal signals that nobody handles raise SystemExit, if this is the main thread."""
    replaced = []
    if threading.current_thread() is threading.main_thread():
        for name in FATAL:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                replaced.append(number)
                signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
