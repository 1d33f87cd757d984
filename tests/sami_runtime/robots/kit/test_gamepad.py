"""A gamepad commands a policy: written records of Linux's joystick device through a named pipe."""

import os
import struct

import pytest

from sami_runtime.errors import SamiError
from sami_runtime.robots.kit.commands import command_of
from sami_runtime.robots.kit.gamepad import Gamepad

REST = {"forward": 0.0, "left": 0.0, "turn": 0.0}
AXIS, BUTTON, INITIAL = 2, 1, 0x80


def event(kind, number, value):
    return struct.pack("<IhBB", 12345, value, kind, number)


@pytest.fixture
def device(tmp_path):
    """A pipe in place of the device, and a function that writes to it."""
    path = tmp_path / "js0"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)
    yield path, lambda *records: os.write(descriptor, b"".join(records))
    os.close(descriptor)


def test_sticks_command_velocities_until_they_are_let_go(device):
    path, write = device
    pad = command_of(f"gamepad:{path}", REST)
    assert pad.at(0.0) == REST
    write(event(AXIS | INITIAL, 0, 0), event(AXIS, 1, -32767), event(AXIS, 3, 32767), event(BUTTON, 1, 1))
    assert pad.at(0.02) == {"forward": 0.6, "left": 0.0, "turn": -0.8}
    assert pad.at(0.04) == {"forward": 0.6, "left": 0.0, "turn": -0.8}, "nothing has moved"
    write(event(AXIS, 0, -32768), event(AXIS, 1, -18022))
    assert pad.at(0.06) == {"forward": 0.3, "left": 0.3, "turn": -0.8}
    write(*(event(AXIS, axis, 3000) for axis in (0, 1, 3)))
    assert pad.at(0.08) == REST, "sticks rest near their middle, not in it"


def test_a_record_may_come_in_two_pieces_and_other_axes_mean_nothing(device):
    path, write = device
    pad = Gamepad(REST, path)
    record = event(AXIS, 1, -32767)
    write(event(AXIS | INITIAL, 2, -32767), record[:3])
    assert pad.at(0.0) == REST, "a trigger rests at its end"
    write(record[3:])
    assert pad.at(0.0)["forward"] == 0.6


def test_a_gamepad_that_is_unplugged_commands_rest(tmp_path):
    path = tmp_path / "js0"
    os.mkfifo(path)
    pad = Gamepad(REST | {"height": 0.3}, path)
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, event(AXIS, 1, -32767) + b"cut")
    assert pad.at(0.0) == REST | {"forward": 0.6, "height": 0.3}
    os.close(descriptor)
    assert pad.at(0.0) == REST | {"height": 0.3}


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("/dev/input/js99", "there is no gamepad: /dev/input/js99 does not exist. Plug one in"),
        ("/dev/null", "/dev/null is no joystick device"),
        ("/dev/zero", "/dev/zero is no joystick device"),
        ("/", "/ is no joystick device"),
        (__file__, "is no joystick device"),
    ],
)
def test_what_is_no_gamepad_is_refused(device, message):
    with pytest.raises(SamiError, match=message):
        command_of(f"gamepad:{device}", REST)


def test_a_policy_without_velocities_takes_no_gamepad(device):
    with pytest.raises(SamiError, match="this policy's command is height"):
        Gamepad({"height": 0.3}, device[0])
