"""Keyboard control of a running loop: a person pauses, teleoperates, and judges an episode."""

from __future__ import annotations

import atexit
import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
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
    from sami_runtime.robots.robot_file import RobotFile
    from sami_runtime.run import Run
    from sami_runtime.safety.limits import Limits

    Array = NDArray[np.float32]

ARROWS = {b"A": "up", b"B": "down", b"C": "right", b"D": "left"}
SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)([@-~])")
"""The escape sequence of a key without a character; that of an arrow key ends with a byte of `ARROWS`."""
ESCAPE_PREFIX = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?")
"""An unfinished escape sequence."""
ESCAPE_S = 0.05
"""Longest wait for the rest of an escape sequence [s]; without the rest, its first byte was the key Esc."""
ENDINGS = {
    "s": "success",
    "right": "success",
    "f": "failure",
    "r": "redo",
    "left": "redo",
    "q": "stop",
    "escape": "stop",
}
"""The ending of an episode by each key; the arrow keys have the meanings of LeRobot."""
ENDS = "s or → success, f failure, r or ← redo, q or Esc stop"
PUSH_S = 0.25
"""Time for which a key press moves an element of the action [s]; a key that is held down repeats sooner."""
PUSH_SHARE = 0.3
"""Change by a key press, as a fraction of the way from the neutral action to the bound."""
MOVE_SHARE = 0.01
"""Change of a position action by a key press, as a fraction of the range between its bounds."""
LEAD = 3 * MOVE_SHARE
"""Largest lead of a commanded position before the executed one, as such a fraction."""


class Terminal:
    """Reads single keys from standard input during a `with` block, without Enter and without echo.

    The terminal's mode is restored however the block or the process ends, except by SIGKILL. Ctrl-C and other keys for
    signals still work. A process in the background gets no keys.
    """

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._before: Any = None
        self._bytes, self._read_time = b"", 0.0

    @staticmethod
    def is_available() -> bool:
        """Return whether standard input is a terminal with this process in the foreground."""
        try:
            return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
        except (OSError, ValueError, AttributeError):  # closed, missing, or a system without tcgetpgrp
            return False

    def __enter__(self) -> Terminal:
        """Switch the terminal to single keys without echo."""
        import termios

        self._before = termios.tcgetattr(self._input)
        atexit.register(self._restore)  # before the mode changes, in case of an interrupt in the next line
        self._take()
        self._continued = signal.signal(signal.SIGCONT, self._take)  # the shell sets its own mode when it continues us
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal's mode."""
        signal.signal(signal.SIGCONT, self._continued)
        self._restore()
        atexit.unregister(self._restore)

    def pressed(self, wait_s: float = 0.0) -> list[str]:
        """Return the pressed keys as lower-case characters, or names such as `"up"`, `"escape"`, `"enter"`."""
        if not self.is_available():
            time.sleep(wait_s)
            return []
        while select.select([self._input], [], [], wait_s)[0]:
            wait_s = 0.0
            try:
                data = os.read(self._input, 1024)
            except OSError:  # the terminal is gone, and SIGHUP will end the run
                data = b""
            if not data:
                break
            self._bytes, self._read_time = self._bytes + data, time.monotonic()
        keys, self._bytes = split(self._bytes, time.monotonic() - self._read_time > ESCAPE_S)
        return keys

    def _take(self, *_: object) -> None:
        import tty

        if self.is_available():
            tty.setcbreak(self._input)

    def _restore(self) -> None:
        import termios

        with _undisturbed(), suppress(termios.error, OSError):  # the terminal may be gone
            termios.tcsetattr(self._input, termios.TCSAFLUSH, self._before)


def split(pressed: bytes, late: bool) -> tuple[list[str], bytes]:
    """Return the keys in a terminal's bytes, and, unless `late`, last bytes that may be an unfinished sequence."""
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
        names = {b"\x1b": "escape", b"\r": "enter", b"\n": "enter"}
        keys += [names.get(byte, byte.decode("ascii", "ignore").lower())]
        at += 1
    return [key for key in keys if key], b""


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore SIGTTOU in the block, so that a process in the background can set a terminal's mode without a stop."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTTOU, before)


class Keyboard:
    """The pilot of `sami run` and `sami drive`: it turns keys into requests, see `Pilot`."""

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
            else "no pause and no take-over, because the limits set no rest"
        )
        steers = f"{self._steering.keys}; " if self._steering else ""
        return f"keys: {steers}{rests}, {ENDS}"

    @property
    def status(self) -> str:
        """Text for a pause or teleoperation; else the command that keys give the policy, or an empty text."""
        if self._paused:
            return "PAUSED (p: go on)"
        if self._drives:
            return f"YOU DRIVE {self._action.elements[self._element]} (space: hand back)"
        return str(self._steering or "")

    def reset(self) -> None:
        """Begin an episode with the policy in control; of the keys pressed before, only pause and stop count."""
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

    def between(self, wait_s: float | None) -> tuple[Ending | None, bool]:
        """Wait `wait_s` seconds or (None) until Enter; return the verdict on the last episode, and whether to go on."""
        from sami_runtime.loop.pilot import Ending

        ending: Ending | None = None
        until = time.monotonic() + (wait_s or 0.0)
        while True:
            wait = 0.5 if wait_s is None else min(0.5, max(0.0, until - time.monotonic()))
            for key in self._terminal.pressed(wait):
                if key == "enter":
                    return ending, True
                if key in ENDINGS:
                    pressed = Ending(ENDINGS[key])
                    if pressed is Ending.STOP:
                        return ending, False  # a verdict given before stays
                    ending = pressed
                    if ending is Ending.REDO:
                        return ending, True
            if wait_s is not None and time.monotonic() >= until:
                return ending, True

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
        """Return the person's action, (A,); None if actions are positions and no present position is known."""
        if self._moves:
            if standing is not None:  # the robot may be slower than the keys, and has to rest soon after the last one
                lead = LEAD * (self._high - self._low)
                command = standing if self._command is None else self._command
                self._command = command.clip(standing - lead, standing + lead)
            return self._command
        command, at = self._rest.copy(), self._element
        if self._direction and time.monotonic() - self._pushed < PUSH_S:
            bound = self._high[at] if self._direction > 0 else self._low[at]
            command[at] += PUSH_SHARE * (bound - command[at]) if abs(bound) < float("inf") else 0.0
        return command

    def _move(self, direction: int) -> None:
        """Move the selected element of the commanded position, within its bounds."""
        at, command = self._element, self._command
        span = self._high[at] - self._low[at]
        if command is not None and span < float("inf"):
            command[at] = min(max(command[at] + direction * MOVE_SHARE * span, self._low[at]), self._high[at])


def uses_keys(keys: bool | None, usual: bool) -> bool:
    """Return whether a run listens to keys: `keys`, or if None `usual` on a terminal; SamiError without a terminal."""
    from sami_runtime.errors import SamiError

    on_terminal = Terminal.is_available()
    if keys and not on_terminal:
        raise SamiError(
            "keys=true needs a terminal as standard input, in the foreground. Run it there, or leave the key out."
        )
    return usual and on_terminal if keys is None else keys


def listen(closing: ExitStack, contract: Contract, limits: Limits | None, steering: Steering | None = None) -> Keyboard:
    """Return a pilot that reads the terminal's keys until `closing` closes, and print the keys' meanings."""
    from sami_runtime.safety.limits import Limits

    pilot = Keyboard(closing.enter_context(Terminal()), contract, limits or Limits(), steering)
    print_text(pilot.keys, error=True)
    return pilot


def excitation(
    person: Keyboard | None, contract: Contract, limits: Limits | None, real: bool, robot: RobotFile | None, seed: int
) -> Excitation:
    """Return a pilot that excites the robot for system identification; a person's keys take precedence."""
    from sami_runtime.loop.excitation import Excitation
    from sami_runtime.loop.settings import LoopSettings
    from sami_runtime.safety.limits import Limits

    limits = limits or Limits()
    if not real and limits.rest is None:
        limits = limits.model_copy(update={"rest": 0.0})
    every = robot.slower * LoopSettings(loop_hz=robot.loop_hz).substeps(contract.rate_hz) if robot else 1
    return Excitation(contract, limits, seed=seed, every=every, person=person)


def between(
    driving: Run, report: EpisodeReport, pilot: Keyboard | None, wait_s: float | None, last: bool
) -> tuple[EpisodeReport, bool]:
    """Wait for the next episode; return the report with a person's later verdict, and whether the run continues."""
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
        print_text(f"{when} the next episode; of this one: s success, f failure, r redo; q stop", error=True)
    ending, has_next = pilot.between(wait_s)
    if ending is not None:
        report = replace(report, ended=ending)
        driving.conclude(ending, report.success)
        print_text(f"judged: {ending.value}", error=True)
    return report, has_next
