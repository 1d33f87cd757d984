"""Reaching `stop()` on every way out of a loop: the end, an error, Ctrl-C, and being told to terminate."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from sami_runtime.adapters.base import Adapter
from sami_runtime.errors import AdapterError

FATAL = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that would end the process on the spot, where nobody handles them; SIGHUP comes when a terminal closes."""


@contextmanager
def always_stopped(adapter: Adapter) -> Iterator[None]:
    """Stops the adapter however the block is left, and calls `stop()` again if that failed or was interrupted.

    In the main thread, signals that would have killed the process raise SystemExit inside the block instead; those
    that the program handles or ignores itself are left to it.

    Raises:
        AdapterError: `stop()` failed twice.
    """
    cause: BaseException | None = None
    stopped = False
    with fatal_signals_raise():
        try:
            try:
                yield
            except BaseException as error:
                cause = error
                raise
            finally:
                adapter.stop()
                stopped = True
        except BaseException as error:
            if not stopped:
                _stop_again(adapter, error)
                if cause is not None:
                    raise cause from error
            raise


def _stop_again(adapter: Adapter, first: BaseException) -> None:
    try:
        adapter.stop()
    except Exception as second:
        raise AdapterError(
            f"{type(adapter).__name__}.stop() failed twice: {first}; then: {second}. It may still move: press its "
            "emergency stop."
        ) from first


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
