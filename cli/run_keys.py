"""Keys of a run that a command line gives: `--set KEY=VALUE`, and options in place of a robot's file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sami_runtime.robots.robot_file import RobotFile, RunKeys, SimulatorKeys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def simulator_keys(texts: Sequence[str] | None, options: Mapping[str, Any]) -> SimulatorKeys:
    """Return the keys that are given as KEY=VALUE; what an option of its own says comes first.

    Args:
        texts: KEY=VALUE each, the value as in TOML; a text needs no quotes.
        options: By key, checked by the command line already.

    Raises:
        UnknownName: There is no such key.
        SamiError: There is no `=`, or a value is wrong.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.robots.robot_file import SimulatorKeys

    values: dict[str, Any] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise SamiError(f"--set {text} is not KEY=VALUE, such as --set provider=cuda.")
        if key.strip() == "limits":
            raise SamiError(f"--set {text}: limits have an option of their own. Write --limits FILE.")
        values[key.strip()] = _value(value.strip())
    return SimulatorKeys.of(values, "--set").model_copy(update=dict(options))


def as_robot(values: RunKeys, model: str, adapter: str, changes: Mapping[str, Any]) -> RobotFile:
    """Return values of a run as those of a robot that options describe.

    Args:
        values: What any run has.
        model: The model file.
        adapter: MODULE:FACTORY.
        changes: What only robots have, by key.
    """
    from sami_runtime.robots.robot_file import RobotFile, RunKeys

    common = {name: getattr(values, name) for name in RunKeys.model_fields}
    robot = RobotFile(version=1, model=model, adapter=adapter)
    return robot.model_copy(update={**common, **changes})


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text
