"""The MuJoCo robots' entries in the catalogue, made from their table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import SignalSource
from sami_train.envs.mujoco.table import Row

if TYPE_CHECKING:
    pass
from sami_train.envs.layout import SignalSlice
from sami_train.envs.spec import EnvironmentSpec


def mujoco_entry(row: Row) -> EnvironmentSpec:
    """The entry of one robot."""
    ends = np.cumsum([signal.size for signal in row.body.signals])
    starts = [int(end) - signal.size for end, signal in zip(ends, row.body.signals, strict=True)]
    return EnvironmentSpec(
        name=row.name,
        id=row.id,
        entry_point="sami_train.envs.mujoco.env:MujocoSkillEnv",
        vector_entry_point="sami_train.envs.mujoco.vector:MujocoVectorEnv",
        arguments={"name": row.name},
        tasks=row.tasks,
        signals=tuple(SignalSlice(signal, start) for signal, start in zip(row.body.signals, starts, strict=True)),
        sources=tuple(
            SignalSource(signal, start=start) for signal, start in zip(row.body.signals, starts, strict=True)
        ),
        action=row.body.action,
        rate_hz=row.body.rate_hz,
        episode_steps=row.episode_steps,
        goal=None,
        reach=None,
        family="mujoco",
    )
