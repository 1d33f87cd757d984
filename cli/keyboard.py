"""A person at the keyboard beside the loop: pauses, drives, and judges an episode."""

from __future__ import annotations

import atexit
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .output import print_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sami_runtime.loop.episode import EpisodeReport
    from sami_runtime.loop.excitation import Excitation
    from sami_runtime.loop.pilot import Ending, Request
    from sami_runtime.model.contract import Contract
    from sami_runtime.robots.kit.commands import Steering
    from sami_runtime.run import Run
    from sami_runtime.safety.limits import Limits

    Array = NDArray[np.float32]

ARROWS = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}
SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)([@-~])")
"""The bytes of a key that is no character; an arrow's end with one of `ARROWS`."""
ESCAPE_PREFIX = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?")
"""An unfinished sequence of such bytes."""
ESCAPE_S = 0.05
"""Longest time for the rest of a sequence after its first byte [s]; without the rest it was the key Esc."""
ENDINGS = {
    "s": "success",
    "right": "success",
    "f": "failure",
    "r": "redo",
    "left": "redo",
    "q": "stop",
    "escape": "stop",
}
"""How each key ends an episode; the arrows are those of LeRobot."""
ENDS = "s or → success, f failure, r or ← redo, q or Esc stop"
PUSH_S = 0.25
"""Time for which a key moves an element of the action [s]; a key that is held down repeats sooner."""
PUSH_SHARE = 0.3
"""How far it is pushed: the share of the way from rest to its bound."""
MOVE_SHARE = 0.01
"""Where the action is a position: how far a key moves it, as the share of the way between its bounds."""


class Terminal:
    """Standard input, within the block without waiting for Enter and without an echo.

    Its mode is restored however the block or the process ends, but by SIGKILL. Ctrl-C and its like do what they did.
    In the background there are no keys.
    """

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._before: Any = None
        self._bytes, self._read_time = b"", 0.0

    @staticmethod
    def there() -> bool:
        """Whether standard input is a terminal whose keys come to this process."""
        try:
            return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
        except (OSError, ValueError, AttributeError):  # closed, none at all, or another system's
            return False

    def __enter__(self) -> Terminal:
        """Switch the terminal to single keys without echo."""
        import termios

        self._before = termios.tcgetattr(self._input)
        atexit.register(self._restore)  # first: an interrupt in the next line must find it
        self._take()
        self._continued = signal.signal(signal.SIGCONT, self._take)  # a shell gives its own mode to who was stopped
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal's mode."""
        signal.signal(signal.SIGCONT, self._continued)
        self._restore()
        atexit.unregister(self._restore)

    def pressed(self, wait_s: float = 0.0) -> list[str]:
        """Return the keys that were pressed, as their characters, or as `"up"`, `"escape"`, `"enter"`."""
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
            self._bytes, self._read_time = self._bytes + read, time.monotonic()
        keys, self._bytes = split(self._bytes, time.monotonic() - self._read_time > ESCAPE_S)
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
    """Return the keys that a terminal's bytes stand for, and the last bytes if they may be an unfinished key."""
    keys: list[str] = []
    at = 0
    while at < len(pressed):
        if sequence := SEQUENCE.match(pressed, at):
            keys += [ARROWS[sequence[1]]] if sequence[1] in ARROWS else []
            at = sequence.end()
            continue
        if (prefix := ESCAPE_PREFIX.match(pressed, at)) and prefix.end() == len(pressed) and not late:
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


class Keyboard:
    """The pilot of `sami run`."""

    def __init__(
        self, terminal: Terminal, contract: Contract, limits: Limits, steering: Steering | None = None
    ) -> None:
        import numpy as np

        from sami_runtime.safety.limits import by_element

        self._terminal, self._action, self._steering = terminal, contract.action, steering
        self._low, self._high = limits.bounds(contract.action)
        self._can_rest, self._moves = limits.rest is not None, isinstance(limits.rest, str)
        rest = None if isinstance(limits.rest, str) else limits.rest
        self._rest: Array = by_element(rest, contract.action, 0.0).astype(np.float32)
        self._paused = self._drives = False
        self._element, self._direction, self._pushed = 0, 0, 0.0
        self._command: Array | None = None
        self._end = ""

    @property
    def keys(self) -> str:
        """The keys and their effects, in one line."""
        elements = " ".join(self._action.elements)
        rests = (
            f"p pause or go on, space take over or hand back (1-{self._action.size} choose of {elements}, ↑ ↓ push)"
            if self._can_rest
            else "no pause and no take-over, because the limits have no rest"
        )
        steers = f"{self._steering.keys}; " if self._steering else ""
        return f"keys: {steers}{rests}, {ENDS}"

    @property
    def status(self) -> str:
        """Who drives, where that is not the policy; else what it is commanded, where keys say it."""
        if self._paused:
            return "PAUSED (p: go on)"
        if self._drives:
            return f"YOU DRIVE {self._action.elements[self._element]} (space: hand back)"
        return str(self._steering or "")

    def reset(self) -> None:
        """Begin an episode: the policy drives. Of the keys pressed meanwhile only pause and stop concern it."""
        self._paused = self._drives = False
        self._command, self._end = None, ""
        for key in self._terminal.pressed():
            if key == "p" or ENDINGS.get(key) == "stop":
                self._press(key)

    def request(self, standing: Array | None) -> Request:
        """Return the request of the pressed keys; see `Pilot`."""
        from sami_runtime.loop.pilot import Ending, Request

        for key in self._terminal.pressed():
            self._press(key)
        if self._end:
            return Request(end=Ending(self._end))
        if self._drives and not self._paused:
            return Request(command=self._action_by_keys(standing))
        return Request(pause=self._paused)

    def between(self, wait_s: float | None) -> Ending | None:
        """Wait between two episodes, and return what a person says of the one before, if anything."""
        from sami_runtime.loop.pilot import Ending

        ending: Ending | None = None
        until = time.monotonic() + (wait_s or 0.0)
        while True:
            left = 0.5 if wait_s is None else min(0.5, max(0.0, until - time.monotonic()))
            for key in self._terminal.pressed(left):
                if key == "enter":
                    return ending
                if key in ENDINGS:
                    ending = Ending(ENDINGS[key])
                    if ending in (Ending.REDO, Ending.STOP):
                        return ending
            if wait_s is not None and time.monotonic() >= until:
                return ending

    def _press(self, key: str) -> None:
        if key in ENDINGS:
            self._end = self._end or ENDINGS[key]
        elif key == "p" and self._can_rest:
            self._paused = not self._paused
        elif key == " " and self._can_rest:
            self._paused, self._drives, self._command, self._direction = False, not self._drives, None, 0
        elif key.isdecimal() and 1 <= int(key) <= self._action.size:
            self._element, self._direction = int(key) - 1, 0
        elif key in ("up", "down"):
            self._direction, self._pushed = (1 if key == "up" else -1), time.monotonic()
            if self._command is not None:
                self._move(self._direction)
        elif self._steering is not None:
            self._steering.press(key)

    def _action_by_keys(self, standing: Array | None) -> Array | None:
        """Return the person's action, (A,); None where it is a position, and there is none to go out from."""
        if self._moves:
            if self._command is None and standing is not None:
                self._command = standing.copy()
            return self._command
        command, at = self._rest.copy(), self._element
        if self._direction and time.monotonic() - self._pushed < PUSH_S:
            bound = self._high[at] if self._direction > 0 else self._low[at]
            command[at] += PUSH_SHARE * (bound - command[at]) if abs(bound) < float("inf") else 0.0
        return command

    def _move(self, direction: int) -> None:
        """Move the position that is commanded."""
        at, command = self._element, self._command
        span = self._high[at] - self._low[at]
        if command is not None and span < float("inf"):
            command[at] = min(max(command[at] + direction * MOVE_SHARE * span, self._low[at]), self._high[at])


def uses_keys(keys: bool | None, usual: bool) -> bool:
    """Return whether a run listens to keys: as `keys` sets it, else if that is usual and there is a terminal."""
    from sami_runtime.errors import SamiError

    there = Terminal.there()
    if keys and not there:
        raise SamiError(
            "keys=true needs a terminal as standard input, in the foreground. Run it there, or leave the key out."
        )
    return usual and there if keys is None else keys


def listen(closing: ExitStack, contract: Contract, limits: Limits | None, steering: Steering | None = None) -> Keyboard:
    """Listen to the terminal's keys until `closing` closes, and print what they do."""
    from sami_runtime.safety.limits import Limits

    pilot = Keyboard(closing.enter_context(Terminal()), contract, limits or Limits(), steering)
    _say(pilot.keys)
    return pilot


def excitation(
    person: Keyboard | None, contract: Contract, limits: Limits | None, real: bool, loop_hz: float | None, seed: int
) -> Excitation:
    """Return what drives in the policy's place, so that a recording tells the gap; a person's keys come first."""
    from sami_runtime.loop.excitation import Excitation
    from sami_runtime.safety.limits import Limits

    limits = limits or Limits()
    if not real and limits.rest is None:
        limits = limits.model_copy(update={"rest": 0.0})
    every = max(1, round((loop_hz or contract.rate_hz) / contract.rate_hz))
    return Excitation(contract, limits, seed=seed, every=every, person=person)


def status_of(pilot: Keyboard | None) -> Callable[[], str]:
    """Return a function that names who drives, for the live line."""
    return lambda: pilot.status if pilot else ""


def between(
    driving: Run, report: EpisodeReport, pilot: Keyboard | None, wait_s: float | None, last: bool
) -> tuple[EpisodeReport, bool]:
    """Wait for the next episode, if there is one; return what is now said of the one before, and whether to go on."""
    from sami_runtime.loop.pilot import Ending

    if report.ended is Ending.STOP:
        return report, False
    if last and report.ended is not Ending.REDO:
        return report, True
    if pilot is None:
        time.sleep(wait_s or 0.0)
        return report, True
    if wait_s is None or wait_s > 0.0:
        when = "Enter begins" if wait_s is None else f"in {wait_s:g} s, or at Enter, begins"
        _say(f"{when} the next episode; of this one: s success, f failure, r redo; q stop")
    ending = pilot.between(wait_s)
    if ending is Ending.STOP:
        return report, False
    if ending is not None:
        report = replace(report, ended=ending)
        driving.conclude(ending, report.success)
    return report, True


def _say(text: str) -> None:
    """Print a message for a person to standard error, because a program may read standard output."""
    print_text(text, error=True)
