"""The MuJoCo robots' entries in the catalogue: their table, and what each asks for in training."""

from __future__ import annotations

import numpy as np

from sami_runtime.adapters.gymnasium_adapter import SignalSource
from sami_train.envs.layout import Layout
from sami_train.envs.measure import RETURN
from sami_train.envs.mujoco.table import ROWS, Row
from sami_train.envs.spec import EnvironmentSpec

# What robots that fall ask for. At random they soon lie, from where they learn nothing: they begin anew sooner. Ants
# and walkers are paid 1 a step for being alive, which they always are, and learn faster without; humanoids are paid so
# much that critics climb for long. Critics follow their targets sooner, and exploration does not end as tame.
_CRIPPLED_ANT = {
    "steps": 1_200_000,
    "learning.reward_offset": 1.0,
    "learning.critic_target_rate": 0.02,
    "learning.initial_temperature": 0.02,
    "learning.minimum_temperature": 0.02,
    "collection.episode_steps": 400,
}
_WALKER = {
    "steps": 1_500_000,
    "learning.reward_offset": 1.0,
    "learning.critic_target_rate": 0.01,
    "learning.minimum_temperature": 0.01,
    "collection.episode_steps": 300,
}
_HUMANOID = {
    "learning.reward_scale": 0.1,
    "learning.critic_target_rate": 0.01,
    "learning.minimum_temperature": 0.01,
    "collection.episode_steps": 200,
}
# Lying is paid about 40 a step, sitting 150.
_STANDUP = {
    "steps": 800_000,
    "learning.reward_offset": 40.0,
    "learning.reward_scale": 0.02,
    "collection.episode_steps": 500,
}
_ASKS = {
    "walker": _WALKER,
    "slim-humanoid": _HUMANOID,
    "humanoid-standup": _STANDUP,
    "crippled-ant": _CRIPPLED_ANT,
    "crippled-walker": _WALKER,
}


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
        hyperparameters={"fast-cpu": _ASKS[row.name]} if row.name in _ASKS else {},
    )


MUJOCO = tuple(_entry(row) for row in ROWS)
