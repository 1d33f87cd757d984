"""A velocity command from the sticks of a gamepad, by Linux's joystick device."""

from __future__ import annotations

import os
import stat
import struct
import weakref
from collections.abc import Mapping
from pathlib import Path

from sami_runtime.errors import SamiError

DEVICE = Path("/dev/input/js0")
EVENT = struct.Struct("<IhBB")
"""`js_event` of the kernel: time [ms], value (-32767 to 32767), kind, and number of the axis or button."""
AXIS, INITIAL = 2, 0x80
"""Kind of an axis' event; a bit of the kind that marks the initial state of axes and buttons."""
JSIOCGAXES = 0x80016A11
"""Request for the number of axes: only a joystick device answers it."""
STICKS = {1: ("forward", -0.6), 0: ("left", -0.3), 3: ("turn", -0.8)}
"""By axis, the element of the command and its value at the end of the axis [m/s, rad/s]: left stick, right stick.

These are the numbers of the sticks of Xbox and PlayStation gamepads; up and left are negative."""
DEAD = 0.1
"""Share of a stick's way around its middle that counts as its middle."""
AT_ONCE = 1024
"""Most events that are read at once; the kernel stores 64."""


class Gamepad:
    """A command that follows the sticks of a gamepad. A gamepad that is unplugged commands rest.

    Args:
        rest: Every element of the command, with its value while the sticks are in the middle.
        device: The joystick device; a named pipe of the same events works as well.

    Raises:
        SamiError: There is no such device, it cannot be read, or the policy's command has no velocity.
    """

    def __init__(self, rest: Mapping[str, float], device: Path = DEVICE) -> None:
        self._rest, self._axes = rest, {axis: stick for axis, stick in STICKS.items() if stick[0] in rest}
        if not self._axes:
            raise SamiError(f"a gamepad gives forward, left and turn; this policy's command is {', '.join(rest)}.")
        self._descriptor = _descriptor(device)
        weakref.finalize(self, os.close, self._descriptor)
        self._tilts = dict.fromkeys(self._axes, 0.0)
        self._bytes = b""

    def at(self, time_s: float) -> Mapping[str, float]:
        """Return the command at the present positions of the sticks, whatever the time."""
        try:
            data = os.read(self._descriptor, AT_ONCE * EVENT.size)
        except BlockingIOError:  # nothing has moved
            return self._command()
        except OSError:
            data = b""
        if not data:  # unplugged, or nobody writes to the pipe
            self._tilts, self._bytes = dict.fromkeys(self._axes, 0.0), b""
            return self._command()
        self._bytes += data
        whole = len(self._bytes) // EVENT.size * EVENT.size
        for _, value, kind, number in EVENT.iter_unpack(self._bytes[:whole]):
            if kind & ~INITIAL == AXIS and number in self._tilts:
                self._tilts[number] = max(-1.0, value / 32767)
        self._bytes = self._bytes[whole:]
        return self._command()

    def _command(self) -> dict[str, float]:
        command = dict(self._rest)
        for axis, (element, full) in self._axes.items():
            tilt = self._tilts[axis]
            if abs(tilt) > DEAD:
                command[element] = round(full * (abs(tilt) - DEAD) / (1 - DEAD) * (1 if tilt > 0 else -1), 3)
        return command


def _descriptor(device: Path) -> int:
    """Return the descriptor of a joystick device or pipe whose reads do not wait."""
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise SamiError(
            f"there is no gamepad: {device} does not exist. Plug one in (its driver is joydev), name another device as "
            "gamepad:/dev/input/js1, or command by keys."
        ) from None
    except OSError as error:
        raise SamiError(
            f"{device} cannot be read: {error.strerror}. Add yourself to the group of the device, mostly input."
        ) from None
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode) and not _is_joystick(descriptor):
        os.close(descriptor)
        raise SamiError(f"{device} is no joystick device; gamepads are /dev/input/js0, /dev/input/js1 and so on.")
    return descriptor


def _is_joystick(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.ioctl(descriptor, JSIOCGAXES, b"\0")
    except OSError:
        return False
    return True
