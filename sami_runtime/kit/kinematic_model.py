"""An arm's joints and links from a URDF or an MJCF file, as a MuJoCo model; shapes and masses do not count."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError

EXTRA = "ik"
"""What brings the libraries."""


def load_kinematics(path: str | Path) -> tuple[Any, dict[str, float]]:
    """Return the model (`mujoco.MjModel`), and the speeds [rad/s, m/s] that a URDF allows by joint; MJCF has none.

    Raises:
        AdapterError: The file is not there or no model, or MuJoCo is not installed.
    """
    mujoco, file = needed("mujoco"), Path(path)
    try:
        text = file.read_bytes()
        root = ElementTree.fromstring(text)
        if root.tag != "robot":
            return mujoco.MjModel.from_xml_path(str(file)), {}
        _keep_kinematics(root)
        model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))
    except (OSError, ElementTree.ParseError, ValueError) as error:
        raise AdapterError(f"{file} is no URDF or MJCF that could be read: {error}. Give the arm's own.") from error
    speeds = {
        str(joint.get("name")): float(limit.get("velocity", "inf"))
        for joint in root.findall("joint")
        if (limit := joint.find("limit")) is not None
    }
    return model, speeds


def needed(module: str) -> ModuleType:
    """Return a module that the extra brings.

    Raises:
        AdapterError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise AdapterError(
            f"inverse kinematics needs the package {module}: {error}. Install it with: {install_hint(EXTRA)}"
        ) from error


def _keep_kinematics(root: ElementTree.Element) -> None:
    """Leave out meshes, which lie where only a robot's own tools find them, and keep links that a fixed joint holds."""
    for link in root.findall("link"):
        for part in (*link.findall("visual"), *link.findall("collision")):
            link.remove(part)
    for old in root.findall("mujoco"):
        root.remove(old)
    settings = {"fusestatic": "false", "boundmass": "0.001", "boundinertia": "1e-6", "balanceinertia": "true"}
    ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler", settings)
