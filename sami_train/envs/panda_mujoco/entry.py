"""Entries of the Panda in MuJoCo, and in both engines: `panda`, but for the simulator."""

from __future__ import annotations

import dataclasses

from sami_train.envs.panda.entry import ENTRY_POINTS, PANDA

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
"""Each episode in one of the two engines, drawn: to train in both."""
