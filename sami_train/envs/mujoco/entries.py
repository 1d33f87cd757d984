"""The MuJoCo robots' entries in the catalogue, made from their table."""

from __future__ import annotations

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import SignalSource
from sami_train.envs.layout import Layout
from sami_train.envs.measure import RETURN
from sami_train.envs.mujoco.table import ROWS, Row
from sami_train.envs.spec import EnvironmentSpec


def _entry(row: Row) -> EnvironmentSpec:
    """Return the entry of one robot: its signals lie one after the other, in the order of its body."""
    signals = row.body.signals
    starts = np.cumsum([0, *(signal.size for signal in signals[:-1])]).tolist()
    return EnvironmentSpec(
        name=row.name,
        id=row.id,
        entry_point="sami_train.envs.mujoco.env:MujocoSkillEnv",
        vector_entry_point="sami_train.envs.mujoco.vector:MujocoVectorEnv",
        batch_entry_point="sami_train.envs.mujoco.batch:MujocoBatch",
        arguments={"name": row.name},
        tasks=row.tasks,
        layout=Layout(tuple(SignalSource(signal, start=start) for signal, start in zip(signals, starts, strict=True))),
        action=row.body.action,
        rate_hz=row.body.rate_hz,
        episode_steps=row.episode_steps,
        measure=RETURN,
        ends_early=False,
        goal=None,
        reach=None,
        extra="mujoco",
        hyperparameters=row.hyperparameters,
    )


MUJOCO = tuple(_entry(row) for row in ROWS)
