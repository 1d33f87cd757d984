"""Signals that ask a process to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def on_signals(handler: Callable[[int, FrameType | None], Any] | signal.Handlers, *numbers: int) -> Iterator[None]:
    """Have a handler hear some signals within; afterwards, what heard them before hears them again.

    Args:
        handler: called with the signal's number and the frame that it interrupted, or SIG_IGN: processes started
            within then ignore the signals too, until they decide otherwise.
        numbers: of the signals.
    """
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
