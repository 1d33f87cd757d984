"""Which skill the Panda executes, from its cube's contacts and place (paper, appendix C.1), the same in each engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sami_train.envs.measure import Skill

HALF_WIDTH = 0.02
"""Half the cube's width [m]: the height of its centre while it lies on the table."""
HEIGHT_TOLERANCE = 0.001
"""How far the cube's height may be from `HALF_WIDTH` and still count as equal to it [m]."""
SLIDING = 0.01
"""Speed along the table from which the cube slides [m/s]: at rest it has a thousandth of it."""
TIPPED = np.cos(np.radians(20.0))
"""Cosine of the lean from which a cube on the table is tipped; at 45 degrees it falls over."""

PANDA_SKILLS = (Skill("pick_and_place", column="lifted"), Skill("tip"), Skill("push"), Skill("other"))


def skill_of(
    height: float,
    velocity: np.ndarray,
    up: np.ndarray,
    width: float,
    on_table: Callable[[], bool],
    fingers_touch: Callable[[], bool],
) -> str:
    """Return the skill being executed now.

    - `"pick_and_place"`: nothing of the cube touches the table, it is higher than half its width, and between the
      fingers. Both touch it then; a shut hand, whose fingers push one side of it, does not hold it.
    - `"tip"`: it stands on an edge, leans by 20 degrees or more, and is not between the fingers.
    - `"push"`: it is as high as half its width, and slides.
    - `"other"`: all else; a cube that lies where it lay, which the paper's definition calls a push too, was not pushed
      by anybody.

    Args:
        height: of the cube's centre above the table [m].
        velocity: of the cube along the table (2,) [m/s].
        up: the vertical along the cube's three axes (3,).
        width: how far the fingers are apart [m].
        on_table: whether the cube touches the table; called where it matters, because contacts take time.
        fingers_touch: whether both fingers touch the cube.
    """
    if abs(height - HALF_WIDTH) <= HEIGHT_TOLERANCE:
        return "push" if np.linalg.norm(velocity) >= SLIDING else "other"
    if height < HALF_WIDTH:
        return "other"
    is_held = width > HALF_WIDTH and fingers_touch()
    if not on_table():
        return "pick_and_place" if is_held else "other"
    return "tip" if np.abs(up).max() <= TIPPED and not is_held else "other"
