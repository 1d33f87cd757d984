"""Commands and states of a Go2 as bytes: to serialise 20 motors field by field in DDS takes a millisecond."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEGS = ("FR", "FL", "RR", "RL")
MOTORS = tuple(f"{leg}_{part}" for leg in LEGS for part in ("hip", "thigh", "calf"))
"""Names of the motors, in the order of the messages."""
SLOTS = 20
"""Motors in a message; a Go2 has the first 12."""
UNDRIVEN = (0, 2.146e9, 16000.0, 0.0, 0.0, 0.0, 0, 0, 0)
"""A slot without a motor, as in Unitree's examples: mode 0, position and velocity that mean none, gains of 0."""
SERVO = 1
"""Mode of a motor that is driven."""
CDR = b"\x00\x01\x00\x00"
"""Header of a little-endian message."""

_COMMAND = struct.Struct("<4B4IH2x" + "B3x5f3I" * SLOTS + "4B55BxI")
_HEAD = (0xFE, 0xEF, 0xFF, 0, 0, 0, 0, 0, 0)
_TAIL = (0,) * 60
_MOTOR = np.dtype({"names": ["q", "dq"], "formats": ["<f4", "<f4"], "offsets": [4, 8], "itemsize": 48})
_STATE = np.dtype(
    {
        "names": ["quaternion", "gyroscope", "motors", "tick", "buttons", "lx", "rx", "ly", "crc"],
        "formats": [("<f4", 4), ("<f4", 3), (_MOTOR, SLOTS), "<u4", "<u2", "<f4", "<f4", "<f4", "<u4"],
        "offsets": [24, 40, 80, 1100, 1106, 1108, 1112, 1124, 1176],
        "itemsize": 1180,
    }
)
_REVERSED = bytes(int(f"{octet:08b}"[::-1], 2) for octet in range(256))
"""By octet, the octet with its bits reversed."""
L2, B = 1 << 5, 1 << 9
"""Buttons of the remote control."""


def crc_of(words: bytes) -> int:
    """Return Unitree's checksum: CRC-32/MPEG-2 over little-endian words, most significant bit first.

    >>> hex(crc_of(bytes(4)))
    '0xc704dd7b'
    """
    # zlib uses the same polynomial, least significant bit first.
    octets = np.frombuffer(words, "<u4").byteswap().tobytes().translate(_REVERSED)
    return int(f"{zlib.crc32(octets) ^ 0xFFFFFFFF:032b}"[::-1], 2)


class Setpoint(NamedTuple):
    """Targets and gains of the motors until the next set-point; each (12,), in the order of `MOTORS`."""

    positions: Array
    """[rad]."""
    kp: Array
    """[N m/rad]."""
    kd: Array
    """[N m s/rad]."""

    @classmethod
    def damping(cls, kd: float) -> Setpoint:
        """Return a set-point that damps each motor with a gain kd [N m s/rad], without a target."""
        return cls(np.zeros(len(MOTORS)), np.zeros(len(MOTORS)), np.full(len(MOTORS), kd))

    def message(self) -> bytes:
        """Return the bytes of a `LowCmd`, with the checksum."""
        motors: list[float] = []
        for position, kp, kd in zip(*(values.tolist() for values in self), strict=True):
            motors += (SERVO, position, 0.0, 0.0, kp, kd, 0, 0, 0)
        motors += UNDRIVEN * (SLOTS - len(MOTORS))
        packed = _COMMAND.pack(*_HEAD, *motors, *_TAIL)
        # The checksum covers the struct in memory, which has padding before the first motor; the wire format has none.
        return CDR + packed[:22] + packed[24:26] + packed[28:] + crc_of(packed).to_bytes(4, "little")


@dataclass
class Go2Reading:
    """A robot's measurements; angles and velocities are in the order of `MOTORS`."""

    quaternion: Array
    """Orientation of the trunk in the world, (4,), w first."""
    angular_velocity: Array
    """Angular velocity of the trunk in its own frame [rad/s], (3,)."""
    angles: Array
    """[rad], (12,)."""
    velocities: Array
    """[rad/s], (12,)."""
    tick: int
    """Counts the robot's messages."""
    sticks: Array
    """Sticks of the remote control, -1 to 1: forward, to the left, turn to the left, (3,)."""
    stop_pressed: bool
    """Whether L2 and B of the remote control are pressed, which damps the motors in Unitree's modes, too."""
    sample_info: Any = None
    """Set by cyclonedds."""

    @classmethod
    def of(cls, message: bytes) -> Go2Reading:
        """Return the reading in the bytes of a `LowState`.

        Raises:
            ValueError: The length, the header or the checksum is wrong, or an angle is not finite.
        """
        if len(message) != 4 + 1176 or message[:2] != CDR[:2]:
            raise ValueError(f"a state of {len(message)} bytes that begins with {message[:2].hex()}")
        body = message[4:]
        memory = body[:77] + bytes(3) + body[77:78] + bytes(3) + body[80:]  # the struct in memory
        (state,) = np.frombuffer(memory, _STATE)
        if crc_of(memory[:-4]) != state["crc"]:
            raise ValueError("a state with a wrong checksum")
        motors = state["motors"][: len(MOTORS)]
        if not np.isfinite(motors["q"]).all():  # the way up begins at these angles
            raise ValueError("a state with joint angles that are not finite")
        return cls(
            quaternion=state["quaternion"].astype(float),
            angular_velocity=state["gyroscope"].astype(float),
            angles=motors["q"].astype(float),
            velocities=motors["dq"].astype(float),
            tick=int(state["tick"]),
            sticks=np.array([state["ly"], -state["lx"], -state["rx"]], float),
            stop_pressed=bool(state["buttons"] & (L2 | B) == L2 | B),
        )

    @property
    def gravity(self) -> Array:
        """Unit vector down in the trunk's frame, (3,)."""
        w, x, y, z = self.quaternion / np.linalg.norm(self.quaternion)
        return np.array([2.0 * (w * y - x * z), -2.0 * (y * z + w * x), 2.0 * (x * x + y * y) - 1.0])
