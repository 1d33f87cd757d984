"""The grid of a sweep: every combination of the values of some configuration keys, each with a unique name.

`Grid({"env": ("panda",), "method": ("tesac", "satesac"), "seed": (0, 1)})` has the cells `panda-tesac-0`,
`panda-satesac-0`, `panda-tesac-1`, `panda-satesac-1`. Any other key that has several values adds to the name:
`panda-tesac-0-trajectories=16`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError
from sami_train.config.resolve import parse_override, resolve
from sami_train.config.schema import PRESET, TrainConfig, keys, present_key

IN_EVERY_NAME = ("env", "method", "seed")


class GridError(SamiError):
    """A grid that cannot be run, or that contradicts the one it should extend."""


@dataclass(frozen=True)
class Cell:
    """One training run of a grid."""

    name: str
    config: TrainConfig
    overrides: Mapping[str, Any]
    """The values that the grid sets, by dotted key; all others come from the preset."""

    def command(self, out: Path) -> list[str]:
        """Return the `sami train` command that trains this cell."""
        words = ["sami", "train", "--out", str(out)]
        for key, value in self.overrides.items():
            if key in (*IN_EVERY_NAME, "preset", "steps"):
                words += [f"--{key}", str(value)]
            else:
                words += ["--set", f"{key}={json.dumps(value)}"]
        return words


class Grid:
    """The Cartesian product of axes.

    Args:
        axes: values by dotted configuration key; `env`, `method` and `seed` must be among them.
        unnamed: the value, by key, that adds nothing to a cell's name. By default, the value of each axis that has
            only one. An extended grid keeps `unnamed`, so that its first cells keep their names.

    Raises:
        GridError: an axis is empty or has a value twice.
    """

    def __init__(self, axes: Mapping[str, Sequence[Any]], unnamed: Mapping[str, Any] | None = None) -> None:
        self.axes = {key: tuple(values) for key, values in axes.items()}
        for key, values in self.axes.items():
            repeated = [value for index, value in enumerate(values) if value in values[:index]]
            if repeated or not values:
                fact = f"has {repeated[0]!r} twice" if repeated else "has no value"
                raise GridError(f"{key} {fact}; give each value once, e.g. seed=0,1,2.")
        if unnamed is None:
            unnamed = {
                key: values[0] for key, values in self.axes.items() if len(values) == 1 and key not in IN_EVERY_NAME
            }
        self.unnamed = dict(unnamed)

    def cells(self) -> list[Cell]:
        """Return a cell for every combination, with a resolved and checked configuration.

        The seed varies slowest, so that a sweep that is stopped early has run all settings with its first seeds.

        Raises:
            GridError: a cell's configuration is not valid (the message names the cell), or two cells have one name.
        """
        order = sorted(self.axes, key=lambda key: key != "seed")
        cells = []
        for values in itertools.product(*(self.axes[key] for key in order)):
            point = dict(zip(order, values, strict=True))
            overrides = {key: point[key] for key in self.axes}
            try:
                changes = {key: value for key, value in overrides.items() if key != "preset"}
                config = resolve(overrides.get("preset", PRESET), changes)
            except SamiError as error:
                raise GridError(f"cell {self._name(overrides)}: {error}") from error
            # A name has the value as the configuration stores it: 200000 steps for 2e5.
            settled = {key: config.by_key()[present_key(key)] for key in overrides}
            cells.append(Cell(self._name(overrides, settled), config, settled))
        for name, count in Counter(cell.name for cell in cells).items():
            if count > 1:
                raise GridError(f"{count} cells are named {name}; give each value once.")
        return cells

    def _name(self, point: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> str:
        values = values or point
        parts = [_readable(values[key]) for key in IN_EVERY_NAME]
        parts += [
            f"{_short(key)}={_readable(values[key])}"
            for key, value in point.items()
            if key not in IN_EVERY_NAME and not (key in self.unnamed and self.unnamed[key] == value)
        ]
        return "-".join(parts)

    def extended(self, wider: Grid) -> Grid:
        """Return this grid with the values that a wider grid adds.

        Raises:
            GridError: the other grid is not wider: it lacks a value of this grid, or has other keys.
        """
        for key in sorted(self.axes.keys() | wider.axes.keys()):
            if (key in self.axes) != (key in wider.axes):
                earlier, current = ("set", "is not") if key in self.axes else ("not set", "is")
                raise GridError(f"{key} is {earlier} in the sweep that is there, and now {current}; {_SAME}")
            missing = [value for value in self.axes[key] if value not in wider.axes[key]]
            if missing:
                before, after = (",".join(map(_readable, grid.axes[key])) for grid in (self, wider))
                raise GridError(f"{key} is {before} in the sweep that is there, and now {after}; {_SAME}")
        axes = {key: (*old, *(v for v in wider.axes[key] if v not in old)) for key, old in self.axes.items()}
        return Grid(axes, self.unnamed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, in the form of sweep.json."""
        return {"axes": {key: list(values) for key, values in self.axes.items()}, "unnamed": self.unnamed}


_SAME = "give all that it has (values may be added), go on with --out alone, or choose another one."


def parse_axis(text: str) -> tuple[str, list[Any]]:
    """Return the key and the values of e.g. `"seed=0,1"`; commas in brackets or quotes do not separate values.

    Raises:
        ConfigError: the text has no `=`.
        GridError: a value is empty.
    """
    key, _ = parse_override(text)
    parts, depth, quote = [""], 0, ""
    for character in text.partition("=")[2]:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "," and depth == 0:
            parts.append("")
            continue
        depth += 0 if quote else (character in "[{") - (character in "]}")
        parts[-1] += character
    parts = [part.strip() for part in parts]
    if not all(parts):
        raise GridError(f"{text!r} has an empty value; part values by single commas, e.g. {key}=1,2.")
    return key, [parse_override(f"{key}={part}")[1] for part in parts]


def _short(key: str) -> str:
    last = key.rpartition(".")[2]
    return key if [other.rpartition(".")[2] for other in keys()].count(last) > 1 else last


def _readable(value: Any) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "x".join(map(_readable, value))
    text = value if isinstance(value, str) else json.dumps(value)
    return re.sub(r"[^\w.+-]", "_", text) if isinstance(value, str) else text
