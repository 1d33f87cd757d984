"""What goes between the loop's process and those that speak to arm and hand: small messages, each whole."""

from __future__ import annotations

import enum
import socket
import struct
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.errors import AdapterError
from sami_runtime.safety.watchdog_process import take_instructions

KIND = "franka"
"""What the adapter and its emergency stop in a watchdog's process are called to each other."""
READY, REFUSED, FAULT, STATE = b"+", b"-", b"!", b"="
"""First byte of what comes from a process: facts (JSON), why it cannot start, why it stopped the robot, a state."""
FOLLOW, GO, STOP, RECOVER, QUIT = b"f", b"g", b"s", b"r", b"q"
"""First byte of what goes to it: velocities or a hand's width, positions, to rest, to recover, to end."""


class ArmPhase(enum.IntEnum):
    """What an arm does."""

    IDLE = 0
    """It rests, by its own brakes or controller; nothing is sent to it."""
    POSITIONING = 1
    """It is on its way to positions, or rests there under control."""
    FOLLOWING = 2
    """It follows velocities."""
    STOPPING = 3
    """It comes to rest."""
    FAULT = 4
    """It was stopped, and stays so until somebody has it recover."""


class ArmState(NamedTuple):
    """What an arm told in one of its cycles."""

    phase: ArmPhase
    measured: float
    """When [s], by `now`."""
    positions: NDArray[np.float64]
    """(7,) [rad]."""
    velocities: NDArray[np.float64]
    """(7,) [rad/s]."""
    arrived: bool
    """Whether it is where it was to go."""
    success_rate: float
    """Share of the last 100 commands that reached the robot in time, as it says."""
    cycles: int
    """Of its control [1 ms], since the process began."""
    misses: int
    """Of those, how many passed without a command."""
    worst_s: float
    """Longest time between two states [s]."""


class HandState(NamedTuple):
    """What a hand told, or, while it moves and tells nothing, was about to do."""

    measured: float
    """When [s], by `now`."""
    width: float
    """Between the fingers [m], when it was measured."""
    speed: float
    """At which it moves now [m/s]; negative while it closes."""
    target: float
    """Where to [m]."""
    grasped: bool
    """Whether something is between the fingers."""
    commands: int
    """How many it was given since the process began."""


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
    """Return a command with a number for each joint, (7,)."""
    return _SEVEN.pack(kind, *np.asarray(values, np.float64))


def unpack_joints(message: bytes) -> tuple[float, ...]:
    """Return the numbers of a command."""
    return _SEVEN.unpack(message)[1:]


def pack_width(width: float) -> bytes:
    """Return the command to a hand to go to a width [m]."""
    return _WIDTH.pack(FOLLOW, width)


def unpack_width(message: bytes) -> float:
    """Return the width of a command [m]."""
    width: float = _WIDTH.unpack(message)[1]
    return width


def now() -> float:
    """Return the time [s] that all processes of this machine share; it goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Ring:
    """In a watchdog's process: stops the arm by a socket that ends in the arm's process; the adapter passes it on."""

    def __init__(self) -> None:
        self._bell: socket.socket | None = None
        take_instructions(KIND, self._take)

    def __call__(self) -> None:
        """Have the arm's process stop the arm.

        Raises:
            AdapterError: Nothing was sent: no adapter has connected to an arm.
            OSError: Nothing was sent: the arm's process is gone, or does not listen.
        """
        if self._bell is None:
            raise AdapterError("nothing was sent: no adapter has connected to an arm.")
        self._bell.send(b"!", socket.MSG_DONTWAIT)

    def _take(self, _: dict[str, Any], descriptors: list[int]) -> None:
        bell, self._bell = self._bell, socket.socket(fileno=descriptors[0])
        if bell is not None:
            bell.close()
