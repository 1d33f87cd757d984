"""The Panda's present skill from the contacts and pose of the cube (paper, appendix C.1), for both engines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sami_train.envs.measure import Skill

HALF_WIDTH = 0.02
"""Half the cube's width [m]: the height of its centre while it lies on the table."""
HEIGHT_TOLERANCE = 0.001
"""Largest deviation of the cube's height from `HALF_WIDTH` that still counts as equal [m]."""
SLIDING = 0.01
"""Smallest speed of a sliding cube along the table [m/s]; a cube at rest has a thousandth of it."""
TIPPED = np.cos(np.radians(20.0))
"""Cosine of the smallest lean of a tipped cube on the table, 20 degrees; at 45 degrees it falls over."""

PANDA_SKILLS = (Skill("pick_and_place", column="lifted"), Skill("tip"), Skill("push"), Skill("other"))


def skill_of(
    height: float,
    velocity: np.ndarray,
    up: np.ndarray,
    width: float,
    on_table: Callable[[], bool],
    fingers_touch: Callable[[], bool],
) -> str:
    """Return the skill in the present state.

    - `"pick_and_place"`: the cube does not touch the table, its centre is higher than half its width, and it is held:
      both fingers touch it and are apart. Closed fingers that push one side of the cube do not hold it.
    - `"tip"`: the cube touches the table, leans by 20 degrees or more, and is not held.
    - `"push"`: the centre of the cube is at half its width, and the cube slides.
    - `"other"`: everything else, also a cube at rest on the table, which is a push by the paper's definition although
      nothing pushes it.

    Args:
        height: of the cube's centre above the table [m].
        velocity: of the cube along the table (2,) [m/s].
        up: the world's vertical in the cube's frame (3,), a unit vector.
        width: distance between the fingers [m].
        on_table: returns whether the cube touches the table; called only if needed, because contacts take time.
        fingers_touch: returns whether both fingers touch the cube; called only if needed.
    """
    if abs(height - HALF_WIDTH) <= HEIGHT_TOLERANCE:
        return "push" if np.linalg.norm(velocity) >= SLIDING else "other"
    if height < HALF_WIDTH:
        return "other"
    is_held = width > HALF_WIDTH and fingers_touch()
    if not on_table():
        return "pick_and_place" if is_held else "other"
    return "tip" if np.abs(up).max() <= TIPPED and not is_held else "other"
