"""LeRobot's robots by their type: its own robots, and those of packages `lerobot_robot_*`."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from typing import Any

from sami_runtime.errors import AdapterError, UnknownName
from sami_runtime.robots.lerobot.settings import LeRobotSettings

PLUGINS = ("lerobot_robot_", "lerobot_camera_")
"""Prefixes of packages whose import registers robots, and cameras for them. LeRobot's own search would also import
policies."""


def robot_of(settings: LeRobotSettings) -> Any:
    """Return LeRobot's robot, not yet connected.

    Raises:
        UnknownName: No robot has this type.
        AdapterError: LeRobot or a package of the robot cannot be imported, or the configuration is wrong.
    """
    try:
        import draccus
        from lerobot.robots import RobotConfig, make_robot_from_config
    except ImportError as error:
        raise AdapterError(
            f"LeRobot cannot be imported: {error}. Install it in an environment of its own, with "
            "pip install lerobot; docs/how-to/lerobot.md shows how."
        ) from error
    config_class = _config_class(settings, RobotConfig)
    try:
        config = draccus.decode(config_class, dict(settings.config))
    except draccus.ParsingError as error:
        names = ", ".join(sorted(config_class.__dataclass_fields__))
        raise AdapterError(
            f"settings.config does not fit LeRobot's {settings.type}: {error}. It has the fields {names}."
        ) from error
    except ValueError as error:  # the configuration's own checks
        raise AdapterError(f"LeRobot refuses settings.config of {settings.type}: {error}. Correct it.") from error
    try:
        return make_robot_from_config(config)
    except Exception as error:  # whatever a driver raises
        raise AdapterError(
            f"LeRobot cannot make {settings.type}: {type(error).__name__}: {error}. Install what it names, or correct "
            "settings.config."
        ) from error


def _config_class(settings: LeRobotSettings, registry: Any) -> Any:
    """Return the configuration class of a type, after importing the modules that register types."""
    import lerobot.robots

    if settings.module is not None and (fault := _import_fault(settings.module)):
        raise AdapterError(f"settings.module cannot be imported: {fault}. It must be installed here.")
    folders = pkgutil.iter_modules(lerobot.robots.__path__, "lerobot.robots.")
    faults = [_import_fault(folder.name) for folder in folders if folder.ispkg]
    if settings.type not in registry.get_known_choices():
        installed = {str(package.metadata["Name"]).replace("-", "_") for package in importlib.metadata.distributions()}
        faults += [_import_fault(name) for name in sorted(installed) if name.startswith(PLUGINS)]
    classes = registry.get_known_choices()
    if settings.type not in classes:
        broken = "; ".join(fault for fault in faults if fault)
        hint = f"These could not be imported: {broken}." if broken else "Install the package that brings it."
        raise UnknownName("robot of LeRobot", settings.type, classes, hint)
    return classes[settings.type]


def _import_fault(module: str) -> str:
    """Import a module; return why that failed, empty if it did not."""
    try:
        importlib.import_module(module)
    except Exception as error:  # a foreign package may fail in any way
        return f"{module} ({type(error).__name__}: {error})"
    return ""
