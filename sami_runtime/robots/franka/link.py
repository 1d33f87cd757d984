"""Messages between the loop's process and the processes of arm and hand: small packets that arrive whole."""

from __future__ import annotations

import enum
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.errors import AdapterError
from sami_runtime.robots.franka.settings import FrankaSettings
from sami_runtime.safety.watchdog_process import take_instructions

KIND = "franka"
"""Name by which the adapter addresses its emergency stop in a watchdog's process."""
READY, REFUSED, FAULT, STATE = b"+", b"-", b"!", b"="
"""First byte of a message to the loop: facts (JSON), why it cannot start, why it stopped the robot, a state."""
FOLLOW, GO, STOP, RECOVER, QUIT = b"f", b"g", b"s", b"r", b"q"
"""First byte of a message of the loop: follow velocities or a width, go to positions, stop, recover, quit."""


class ArmPhase(enum.IntEnum):
    """The phase of an arm's motion."""

    IDLE = 0
    """The arm rests by its brakes or its own controller; no commands are sent."""
    POSITIONING = 1
    """The arm moves to positions, or rests there under control."""
    FOLLOWING = 2
    """The arm follows velocities."""
    STOPPING = 3
    """The arm brakes to rest."""
    FAULT = 4
    """The arm was stopped, and stays so until a RECOVER."""


class ArmState(NamedTuple):
    """The state of an arm in one of its control cycles."""

    phase: ArmPhase
    measured: float
    """When [s], by `now`."""
    positions: NDArray[np.float64]
    """(7,) [rad]."""
    velocities: NDArray[np.float64]
    """(7,) [rad/s]."""
    arrived: bool
    """Whether it rests at the positions that it was sent to."""
    success_rate: float
    """Share of the last 100 commands that reached the robot in time, as the robot reports."""
    cycles: int
    """Number of control cycles [1 ms] since the process began."""
    misses: int
    """Number of these cycles without a command."""
    worst_s: float
    """Longest time between two states [s]."""


class HandState(NamedTuple):
    """The state of a hand, or, while it moves and reports nothing, the announced motion."""

    measured: float
    """When [s], by `now`."""
    width: float
    """Width between the fingers at that time [m]."""
    speed: float
    """Speed of the change of width [m/s]; negative while the hand closes."""
    target: float
    """Width that it moves to [m]; `width` while it rests."""
    grasped: bool
    """Whether the fingers hold an object."""
    commands: int
    """Number of commands sent to the hand since the process began."""


_ARM = struct.Struct("<cBd7d7d?dqqd")
_HAND = struct.Struct("<cdddd?q")
_SEVEN = struct.Struct("<c7d")
_WIDTH = struct.Struct("<cd")


def pack_arm(state: ArmState) -> bytes:
    """Return a state as a message."""
    phase, measured, positions, velocities, *extras = state
    return _ARM.pack(STATE, phase, measured, *positions, *velocities, *extras)


def unpack_arm(message: bytes) -> ArmState:
    """Return the state of a message."""
    _, phase, measured, *numbers = _ARM.unpack(message)
    return ArmState(ArmPhase(phase), measured, np.array(numbers[:7]), np.array(numbers[7:14]), *numbers[14:])


def pack_hand(state: HandState) -> bytes:
    """Return a state as a message."""
    return _HAND.pack(STATE, *state)


def unpack_hand(message: bytes) -> HandState:
    """Return the state of a message."""
    return HandState(*_HAND.unpack(message)[1:])


def pack_joints(kind: bytes, values: ArrayLike) -> bytes:
    """Return a command with a number for each joint: (7,) [rad/s] for FOLLOW, [rad] for GO."""
    return _SEVEN.pack(kind, *np.asarray(values, np.float64))


def unpack_joints(message: bytes) -> tuple[float, ...]:
    """Return the 7 numbers of a command for the joints."""
    return _SEVEN.unpack(message)[1:]


def pack_width(width: float) -> bytes:
    """Return the command that moves the hand to a width [m]."""
    return _WIDTH.pack(FOLLOW, width)


def unpack_width(message: bytes) -> float:
    """Return the width of a command [m]."""
    return float(_WIDTH.unpack(message)[1])


def now() -> float:
    """Return the time [s] of a clock that all processes of a machine share; it also counts while suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def control_part(part: Callable[..., Any], settings: dict[str, Any], *descriptors: int) -> None:
    """Connect to a part of the robot, report the result to the loop's process, and run; the process then ends.

    The descriptors are those of the sockets to the loop's process and, for the arm, of the emergency stop.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # this process ends with the loop's: by QUIT or the closed link
    link, *bell = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    try:
        process = part(link, FrankaSettings.model_validate(settings), *bell)
        facts = process.connect()
    except Exception as error:
        link.sendall(REFUSED + f"{type(error).__name__}: {error}".encode())
        sys.exit(1)
    link.sendall(READY + json.dumps(facts).encode())
    process.run()
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    os._exit(0)  # do not wait for libfranka's threads


class Ring:
    """Emergency stop in a watchdog's process, by a socket to the arm's process that the adapter passes to it."""

    def __init__(self) -> None:
        self._bell: socket.socket | None = None
        take_instructions(KIND, self._take)

    def __call__(self) -> None:
        """Tell the arm's process to stop the arm.

        Raises:
            AdapterError: Nothing was sent: no adapter has connected to an arm.
            OSError: Nothing was sent: the arm's process is gone, or does not read its messages.
        """
        if self._bell is None:
            raise AdapterError("nothing was sent: no adapter has connected to an arm.")
        self._bell.send(b"!", socket.MSG_DONTWAIT)

    def _take(self, _: dict[str, Any], descriptors: list[int]) -> None:
        bell, self._bell = self._bell, socket.socket(fileno=descriptors[0])
        if bell is not None:
            bell.close()
