"""The entry in the catalogue that a TOML file of a user's makes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import SignalSource
from sami_train.envs.layout import Layout
from sami_train.envs.measure import RETURN
from sami_train.envs.mjcf.robot import MjcfRobot
from sami_train.envs.spec import EnvironmentSpec


def load_robot(path: Path) -> EnvironmentSpec:
    """Read a TOML file and the MJCF model that it names.

    Raises:
        SamiError, UnknownName: something in them is not valid; names it, and what would be.
    """
    robot = MjcfRobot(path)
    signals = [reading.signal for reading in robot.readings]
    starts = np.cumsum([0, *(signal.size for signal in signals[:-1])]).tolist()
    safe = re.sub(r"[^A-Za-z0-9]+", "-", robot.name).strip("-")
    return EnvironmentSpec(
        name=robot.name,
        id=f"sami/{safe or 'robot'}-v0",
        entry_point="sami_train.envs.mjcf.env:MjcfEnv",
        arguments={"path": str(path)},
        tasks=robot.tasks,
        layout=Layout(tuple(SignalSource(signal, start=start) for signal, start in zip(signals, starts, strict=True))),
        action=robot.action,
        rate_hz=robot.rate_hz,
        episode_steps=robot.described.episode_steps,
        measure=RETURN,
        ends_early=bool(robot.described.end),
        goal=None,
        reach=None,
        extra="mujoco",
    )
