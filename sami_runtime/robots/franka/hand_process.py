"""The process that controls the hand, whose commands return only when they are done, after tenths of a second.

The hand reports nothing while it moves: pylibfranka waits for its answer, and a robot serves one connection only. So
the process announces each motion before it, and the loop extrapolates the width until the next state.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial
from typing import Any

from sami_runtime.robots.franka.link import (
    FAULT,
    FOLLOW,
    QUIT,
    RECOVER,
    STOP,
    HandState,
    control_part,
    now,
    pack_hand,
    unpack_width,
)
from sami_runtime.robots.franka.settings import FrankaSettings

ANY_WIDTH = 0.08
"""Tolerance of a grasp [m], so large that the fingers hold an object of any width."""
EMPTY = 0.004
"""Width up to which there is no object between the fingers [m]."""


class HandProcess:
    """Moves the fingers to the width that the loop's process commanded last, with as few commands as possible."""

    def __init__(self, link: socket.socket, settings: FrankaSettings) -> None:
        import pylibfranka  # of an extra: this module can be imported without it

        self._franka = pylibfranka
        self._link, self._settings = link, settings.hand
        self._link.setblocking(False)
        self._hand = self._franka.Gripper(settings.robot)
        self._target: float | None = None
        self._grasp: float | None = None
        self._commands, self._quit, self._broken = 0, False, False

    def connect(self) -> dict[str, Any]:
        """Return width and largest width [m]; nothing moves."""
        state = self._hand.read_once()
        self._send_state(state.width)
        return {"width": state.width, "max_width": state.max_width}

    def run(self) -> None:
        """Execute commands until the loop's process ends or asks to quit; the hand then keeps its grasp."""
        while not self._quit:
            try:
                width = self._hand.read_once().width
                self._send_state(width)
                self._listen()
                if self._target is not None and not self._broken:
                    self._go(width, self._target)
            except Exception as error:
                self._broken = True
                self._quit = isinstance(error, self._franka.NetworkException)
                with suppress(OSError):
                    self._link.send(FAULT + f"the hand failed: {str(error).strip()}".encode()[:4000])

    def _go(self, width: float, target: float) -> None:
        """Move the fingers if the change of width is large enough."""
        settings = self._settings
        if self._grasp is not None and abs(width - self._grasp) > settings.least_change:
            self._grasp = None  # the object slipped, or somebody took it
        if target > width + settings.least_change:
            self._report_command(width, target)
            self._grasp = None
            self._hand.move(target, settings.speed)
        elif target < width - settings.least_change and self._grasp is None:
            # A grasp closes until something is between the fingers, and then holds it; a move would not.
            if target <= 0.5 * width:
                self._report_command(width, 0.0)
                self._hand.grasp(target, settings.speed, settings.force, ANY_WIDTH, ANY_WIDTH)
                stopped = self._hand.read_once().width
                self._grasp = stopped if stopped > EMPTY else None
            else:
                self._report_command(width, target)
                self._hand.move(target, settings.speed)

    def _report_command(self, width: float, target: float) -> None:
        self._commands += 1
        speed = self._settings.speed if target > width else -self._settings.speed
        self._send_state(width, speed, target)

    def _send_state(self, width: float, speed: float = 0.0, target: float = 0.0) -> None:
        state_now = HandState(now(), width, speed, target if speed else width, self._grasp is not None, self._commands)
        with suppress(OSError):
            self._link.send(pack_hand(state_now))

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            while True:
                message = self._link.recv(64)
                kind = message[:1]
                if kind in (b"", QUIT):
                    self._quit = True
                    break
                if kind == FOLLOW:
                    self._target = unpack_width(message)
                elif kind == STOP:
                    self._target = None  # the hand keeps its grasp
                elif kind == RECOVER:
                    self._broken = False


main = partial(control_part, HandProcess)
