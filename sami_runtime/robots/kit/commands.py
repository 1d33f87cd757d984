"""Sources of a velocity command: constants, a file with a timeline, a person's hotkeys or gamepad."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.files import read_document
from sami_runtime.robots.kit.gamepad import DEVICE, Gamepad

TIME = "time_s"
STEPS = {"i": ("forward", 0.1), "k": ("forward", -0.1), "u": ("left", 0.1), "o": ("left", -0.1)}
STEPS |= {"j": ("turn", 0.1), "l": ("turn", -0.1)}
"""Element that a key changes, and by how much [m/s or rad/s]."""
HALT = "x"
"""Key that sets the command to rest."""


class CommandSource(Protocol):
    """The command to a policy over an episode."""

    def at(self, time_s: float) -> Mapping[str, float]:
        """Return the command by element, at a time after the beginning of the episode [s]."""


class Timeline:
    """A sequence of commands, each of which applies until the next.

    >>> rest = {"forward": 0.0, "turn": 0.0}
    >>> Timeline([{"time_s": 0.0, "forward": 0.5}, {"time_s": 2.0, "turn": 1.0}], rest).at(2.5)
    {'forward': 0.0, 'turn': 1.0}

    Args:
        rows: Commands by element, each with its time `time_s` [s].
        rest: Every element of the command, with its value in rows that do not name it.
        where: Source of the rows, for messages.

    Raises:
        SamiError: A row has no time, times do not increase from 0, or a value is no finite number.
        UnknownName: The policy has no such element in its command.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], rest: Mapping[str, float], where: str = "--command") -> None:
        self._times: list[float] = []
        self._commands: list[dict[str, float]] = []
        for row in rows:
            for name in row:
                if name not in (TIME, *rest):
                    raise UnknownName(f"element of the command in {where}", str(name), rest)
            values = {name: _number(row.get(name, value), name, where) for name, value in {TIME: 0.0, **rest}.items()}
            time_s = values.pop(TIME)
            if TIME not in row or time_s <= (self._times[-1] if self._times else -1e-9):
                raise SamiError(f"{where}: {TIME} of row {len(self._times) + 1} is {row.get(TIME)}; times must grow.")
            self._times.append(time_s)
            self._commands.append(values)
        if not self._times or self._times[0] != 0.0:
            raise SamiError(f"{where} does not begin at {TIME} = 0; give the first command that time.")

    def at(self, time_s: float) -> Mapping[str, float]:
        """Return the command that applies at a time [s]."""
        return self._commands[max(0, bisect_right(self._times, time_s + 1e-9) - 1)]


class Steering:
    """A command that starts at rest, and that keys change in steps of 0.1 m/s and 0.1 rad/s."""

    keys = "i k forward and back, u o left and right, j l turn left and right, x halt"

    def __init__(self, rest: Mapping[str, float]) -> None:
        self._rest, self.command = rest, dict(rest)

    def press(self, key: str) -> None:
        """Apply a key; keys that are not in `keys` have no effect."""
        element, step = STEPS.get(key, ("", 0.0))
        if element in self.command:
            self.command[element] = round(self.command[element] + step, 3)
        elif key == HALT:
            self.command = dict(self._rest)

    def at(self, time_s: float) -> Mapping[str, float]:
        """Return the present command, whatever the time."""
        return self.command

    def __str__(self) -> str:
        return " ".join(f"{name} {value:+.1f}" for name, value in self.command.items())


def command_of(text: str, rest: Mapping[str, float]) -> CommandSource:
    """Return the source for `--command`: `keys`, `gamepad`, NAME.toml, NAME.csv, or pairs as `forward=0.5,turn=0.2`.

    `gamepad:/dev/input/js1` selects another gamepad than the first.

    Elements that the text does not name have the values of `rest`.

    Raises:
        SamiError, UnknownName: The text or file is invalid, or the policy has no such command.
    """
    if not rest:
        raise SamiError("this policy reads no command; leave out --command.")
    if text == "keys":
        return Steering(rest)
    kind, _, device = text.partition(":")
    if kind == "gamepad":
        return Gamepad(rest, Path(device) if device else DEVICE)
    path = Path(text)
    if path.suffix == ".toml":
        rows = read_document(path, "commands").get("command")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise SamiError(f"{path} has no [[command]] tables; write each as time_s = 0.0 and forward = 0.5.")
        return Timeline(rows, rest, text)
    if path.suffix == ".csv":
        return Timeline(_csv_rows(path), rest, text)
    pairs = [part.partition("=") for part in text.split(",")]
    return Timeline([{TIME: 0.0, **{name.strip(): value for name, _, value in pairs}}], rest)


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise SamiError(f"{path} cannot be read: {error}. Write it with the header time_s,forward,left,turn.") from None


def _number(value: Any, name: str, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SamiError(f"{where}: {name} is {value!r}; it must be a number, as in --command forward=0.5,turn=0.2.")
    return number
