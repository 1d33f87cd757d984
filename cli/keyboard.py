"""A person at the keyboard beside the loop: pauses, drives, and says what came of an episode."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sami_runtime.loop.pilot import Ending, Request
    from sami_runtime.model.contract import Contract
    from sami_runtime.safety.limits import Limits

    from .terminal import Terminal

    Array = NDArray[np.float32]

ENDINGS = {
    "s": "success",
    "right": "success",
    "f": "failure",
    "r": "redo",
    "left": "redo",
    "q": "stop",
    "escape": "stop",
}
"""What each key says of an episode; the arrows are LeRobot's."""
ENDS = "s or → success, f failure, r or ← redo, q or Esc stop"
PUSH_S = 0.25
"""How long an element is pushed after a key [s]; a key that is held repeats sooner."""
PUSH_SHARE = 0.3
"""How far it is pushed: the share of the way from rest to its bound."""
MOVE_SHARE = 0.01
"""Where the action is a position: how far a key moves it, as the share of the way between its bounds."""


class Keyboard:
    """The pilot of `sami run`.

    Args:
        terminal: Whose keys.
        contract: Of the model that drives.
        limits: Those of the gate. Without rest nobody can pause or take over: what would then be done is not known.
    """

    def __init__(self, terminal: Terminal, contract: Contract, limits: Limits) -> None:
        import numpy as np

        from sami_runtime.safety.limits import by_element

        self._terminal, self._action = terminal, contract.action
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
        """What the keys do, in one line."""
        elements = " ".join(self._action.elements)
        rests = (
            f"p pause or go on, space take over or hand back (1-{self._action.size} choose of {elements}, ↑ ↓ push)"
            if self._can_rest
            else "no pause and no take-over, because the limits have no rest"
        )
        return f"keys: {rests}, {ENDS}"

    @property
    def status(self) -> str:
        """Who drives, where that is not the policy."""
        if self._paused:
            return "PAUSED (p: go on)"
        return f"YOU DRIVE {self._action.elements[self._element]} (space: hand back)" if self._drives else ""

    def reset(self) -> None:
        """Begin an episode: the policy drives. Of the keys pressed meanwhile only pause and stop concern it."""
        self._paused = self._drives = False
        self._command, self._end = None, ""
        for key in self._terminal.pressed():
            if key == "p" or ENDINGS.get(key) == "stop":
                self._press(key)

    def request(self, standing: Array | None) -> Request:
        """Return what the keys that were pressed say; see `Pilot`."""
        from sami_runtime.loop.pilot import Ending, Request

        for key in self._terminal.pressed():
            self._press(key)
        if self._end:
            return Request(end=Ending(self._end))
        if self._drives and not self._paused:
            return Request(command=self._wanted(standing))
        return Request(pause=self._paused)

    def between(self, wait_s: float | None) -> Ending | None:
        """Wait between two episodes, and return what a person says of the one before, if anything.

        Args:
            wait_s: How long [s]; until Enter if None. Enter, redo and stop end it in any case.
        """
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

    def _wanted(self, standing: Array | None) -> Array | None:
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
