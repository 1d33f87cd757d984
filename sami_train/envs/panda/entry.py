"""Panda's entry in the catalogue."""

from __future__ import annotations

from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_EPISODE_STEPS, PANDA_RATE_HZ, PANDA_SHEET, PANDA_SOURCES
from sami_train.envs.layout import Layout
from sami_train.envs.measure import SUCCESS, Goal, Skill
from sami_train.envs.panda.reach import reach_action
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.spec import EnvironmentSpec

_LAYOUT = Layout(PANDA_SOURCES)

PANDA = EnvironmentSpec(
    name="panda",
    id="sami/PandaSkill-v0",
    entry_point="sami_train.envs.panda.env:PandaSkillEnv",
    tasks=PANDA_TASKS,
    layout=_LAYOUT,
    action=PANDA_ACTION,
    rate_hz=PANDA_RATE_HZ,
    episode_steps=PANDA_EPISODE_STEPS,
    measure=SUCCESS,
    ends_early=True,
    goal=Goal(
        achieved=_LAYOUT.columns("achieved_goal"),
        desired=_LAYOUT.columns("desired_goal"),
        threshold=0.05,
        height=0.02,
        lowest=0.0,
    ),
    reach=reach_action,
    extra="panda",
    training_options=("reward", "end_on_fall"),
    skills=(Skill("pick_and_place", column="lifted"), Skill("push"), Skill("other")),
    same_sensor={"achieved_goal": "cube_position"},
    sheet=PANDA_SHEET,
)
