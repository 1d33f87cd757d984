"""The keys of a terminal, each as soon as it is pressed."""

from __future__ import annotations

import atexit
import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

ARROWS = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}
SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)([@-~])")
"""What a terminal sends for a key that is no character; an arrow's ends with one of `ARROWS`."""
BEGUN = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?")
"""The beginning of one."""
ESCAPE_S = 0.05
"""How long after its first byte the rest of a sequence may come [s]: later, it was the key Esc."""


class Terminal:
    """Standard input, within the block without waiting for Enter and without an echo.

    Its mode is restored however the block or the process ends, but by SIGKILL. Ctrl-C and its like do what they did.
    In the background there are no keys.
    """

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._before: Any = None
        self._bytes, self._came = b"", 0.0

    @staticmethod
    def there() -> bool:
        """Whether standard input is a terminal whose keys come to this process."""
        try:
            return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
        except (OSError, ValueError, AttributeError):  # closed, none at all, or another system's
            return False

    def __enter__(self) -> Terminal:
        """Take the keys."""
        import termios

        self._before = termios.tcgetattr(self._input)
        atexit.register(self._restore)  # first: an interrupt in the next line must find it
        self._take()
        self._continued = signal.signal(signal.SIGCONT, self._take)  # a shell gives its own mode to who was stopped
        return self

    def __exit__(self, *_: object) -> None:
        """Give the keys back."""
        signal.signal(signal.SIGCONT, self._continued)
        self._restore()
        atexit.unregister(self._restore)

    def pressed(self, wait_s: float = 0.0) -> list[str]:
        """Return the keys that were pressed, as their characters, or as `"up"`, `"escape"`, `"enter"`.

        Args:
            wait_s: How long to wait for one [s], if there is none yet.
        """
        if not self.there():
            time.sleep(wait_s)
            return []
        while select.select([self._input], [], [], wait_s)[0]:
            wait_s = 0.0
            try:
                read = os.read(self._input, 1024)
            except OSError:  # the terminal is gone; SIGHUP tells
                read = b""
            if not read:
                break
            self._bytes, self._came = self._bytes + read, time.monotonic()
        keys, self._bytes = split(self._bytes, time.monotonic() - self._came > ESCAPE_S)
        return keys

    def _take(self, *_: object) -> None:
        import tty

        if self.there():
            tty.setcbreak(self._input)

    def _restore(self) -> None:
        import termios

        with _undisturbed(), suppress(termios.error, OSError):  # the terminal may be gone
            termios.tcsetattr(self._input, termios.TCSAFLUSH, self._before)


def split(pressed: bytes, late: bool) -> tuple[list[str], bytes]:
    """Return the keys that bytes of a terminal mean, and those bytes that may be the beginning of another one.

    Args:
        pressed: The bytes.
        late: Whether no more will come that belong to the last of them.
    """
    keys: list[str] = []
    at = 0
    while at < len(pressed):
        if sequence := SEQUENCE.match(pressed, at):
            keys += [ARROWS[sequence[1]]] if sequence[1] in ARROWS else []
            at = sequence.end()
            continue
        if (begun := BEGUN.match(pressed, at)) and begun.end() == len(pressed) and not late:
            return keys, pressed[at:]
        byte = pressed[at : at + 1]
        named = {b"\x1b": "escape", b"\r": "enter", b"\n": "enter"}
        keys += [named.get(byte, byte.decode("ascii", "ignore").lower())]
        at += 1
    return [key for key in keys if key], b""


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Within the block, a process in the background may set a terminal's mode without being stopped for it."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTTOU, before)
