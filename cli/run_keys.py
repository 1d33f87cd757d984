"""Keys of a run that a command line gives: `--set KEY=VALUE`, and options in place of a robot's file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from sami_runtime.errors import SamiError
from sami_runtime.robots.robot_file import VERSION, RobotFile, RunKeys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class SimulatorKeys(RunKeys):
    """What may be said of a run in a simulator."""

    kind: ClassVar[str] = "key of --set"

    dry_run: bool = False
    """Whether to read and infer, and write nothing."""
    excite: bool = False
    """Whether small steps drive in the policy's place, for `sami fit-gap`."""


Keys = TypeVar("Keys", bound=RunKeys)


def parsed(kind: type[Keys], texts: Sequence[str] | None, options: Mapping[str, Any]) -> Keys:
    """Return the keys that are given as KEY=VALUE; what an option of its own says comes first.

    Args:
        kind: Which keys there are.
        texts: KEY=VALUE each, the value as in TOML; a text needs no quotes.
        options: By key, checked by the command line already.

    Raises:
        UnknownName: There is no such key.
        SamiError: There is no `=`, or a value is wrong.
    """
    values: dict[str, Any] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise SamiError(f"--set {text} is not KEY=VALUE, such as --set provider=cuda.")
        if key.strip() == "limits":
            raise SamiError(f"--set {text}: limits have an option of their own. Write --limits FILE.")
        values[key.strip()] = _value(value.strip())
    return kind.of(values, "--set").model_copy(update=dict(options))


def as_robot(values: RunKeys, model: str, adapter: str, changes: Mapping[str, Any]) -> RobotFile:
    """Return values of a run as those of a robot that options describe.

    Args:
        values: What any run has.
        model: The model file.
        adapter: MODULE:FACTORY.
        changes: What only robots have, by key.
    """
    common = {name: getattr(values, name) for name in RunKeys.model_fields}
    robot = RobotFile(version=VERSION, model=model, adapter=adapter)
    return robot.model_copy(update={**common, **changes})


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text
