"""The catalogue's entries of the Panda: on the engine of this machine, in MuJoCo, and in both engines."""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec

from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_EPISODE_STEPS, PANDA_RATE_HZ, PANDA_SHEET, PANDA_SOURCES
from sami_train.envs.layout import Layout
from sami_train.envs.measure import SUCCESS, Goal
from sami_train.envs.panda.reach import reach_action
from sami_train.envs.panda.skill import PANDA_SKILLS
from sami_train.envs.panda.tasks import PANDA_TASKS
from sami_train.envs.spec import EnvironmentSpec

_LAYOUT = Layout(PANDA_SOURCES)

ENTRY_POINTS = {
    "pybullet": "sami_train.envs.panda.env:PandaSkillEnv",
    "mujoco": "sami_train.envs.panda_mujoco.env:PandaMujocoEnv",
}
"""Entry point of the environment by physics engine."""
ENGINE = "pybullet" if find_spec("pybullet") and find_spec("panda_gym") else "mujoco"
"""The engine of `panda` on this machine: PyBullet if it is installed, else MuJoCo. PyBullet has no wheels for Python
3.12 and later."""

PANDA = EnvironmentSpec(
    name="panda",
    id="sami/PandaSkill-v0",
    entry_point=ENTRY_POINTS[ENGINE],
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
    engine=ENGINE,
    training_options=("reward", "end_on_fall"),
    skills=PANDA_SKILLS,
    same_sensor={"achieved_goal": "cube_position"},
    sheet=PANDA_SHEET,
)

PANDA_MUJOCO = dataclasses.replace(
    PANDA,
    name="panda-mujoco",
    id="sami/PandaMujoco-v0",
    entry_point=ENTRY_POINTS["mujoco"],
    extra="panda-mujoco",
    original=PANDA.name,
    engine="mujoco",
)
"""The paper's modified Panda Pick&Place (appendix C.1) in MuJoCo, matched to PyBullet's by measured responses."""

PANDA_BOTH = dataclasses.replace(
    PANDA,
    name="panda-both",
    id="sami/PandaBoth-v0",
    entry_point="sami_train.envs.panda_mujoco.both:PandaBothEnv",
    original=PANDA.name,
    engine="pybullet and mujoco",
)
"""The Panda in PyBullet or MuJoCo, drawn for each episode, to train one policy for both engines."""
