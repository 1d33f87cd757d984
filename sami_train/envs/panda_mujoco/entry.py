"""The catalogue's entries of the Panda in MuJoCo and in both engines; otherwise they are the entry `panda`."""

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
"""The Panda in PyBullet or MuJoCo, drawn for each episode, to train one policy for both engines."""
