"""What every environment is called, and what training and export must know of it without making one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sami_runtime.adapters.panda import PANDA_SOURCES
from sami_runtime.adapters.panda_signals import PANDA_ACTION, PANDA_EPISODE_STEPS, PANDA_RATE_HZ
from sami_runtime.errors import UnknownName
from sami_train.envs.goals import Goal
from sami_train.envs.mujoco.table import ROWS
from sami_train.envs.panda.reach import reach_action
from sami_train.envs.panda.tasks import PANDA_TASKS

if TYPE_CHECKING:
    pass
from sami_train.envs.layout import SignalSlice
from sami_train.envs.mujoco.entries import mujoco_entry
from sami_train.envs.panda.entry import _PANDA_OFFSET
from sami_train.envs.spec import EnvironmentSpec

ENVIRONMENTS = {
    "panda": EnvironmentSpec(
        name="panda",
        id="sami/PandaSkill-v0",
        entry_point="sami_train.envs.panda.env:PandaSkillEnv",
        tasks=PANDA_TASKS,
        signals=tuple(
            SignalSlice(source.signal, _PANDA_OFFSET[str(source.key)] + source.start) for source in PANDA_SOURCES
        ),
        action=PANDA_ACTION,
        rate_hz=PANDA_RATE_HZ,
        episode_steps=PANDA_EPISODE_STEPS,
        goal=Goal(achieved=slice(19, 22), desired=slice(22, 25), threshold=0.05, height=0.02, lowest=0.0),
        reach=reach_action,
        sources=PANDA_SOURCES,
        family="panda",
    ),
    **{row.name: mujoco_entry(row) for row in ROWS},
}


def environment(name: str) -> EnvironmentSpec:
    """Look an environment up by its name or its Gymnasium id.

    Raises:
        UnknownName: there is none; lists those that there are.
    """
    for spec in ENVIRONMENTS.values():
        if name in (spec.name, spec.id):
            return spec
    raise UnknownName("environment", name, list(ENVIRONMENTS))


def find(name: str) -> EnvironmentSpec | None:
    """As `environment`, but None where there is none: agents also learn on environments that are not ours."""
    try:
        return environment(name)
    except UnknownName:
        return None
