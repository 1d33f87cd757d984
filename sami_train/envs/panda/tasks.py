"""Panda's task sets (paper, appendix C.1)."""

from __future__ import annotations

from collections.abc import Sequence

from sami_train.envs.tasks import Feature, Task, TaskSpace


def grid(masses: Sequence[float], frictions: Sequence[float]) -> tuple[Task, ...]:
    """Return one task for each pair of a mass [kg] and a friction."""
    return tuple({"mass": mass, "friction": friction} for mass in masses for friction in frictions)


PANDA_TASKS = TaskSpace(
    features=(Feature("mass", "kg", 0.0, low_open=True), Feature("friction", "(lateral, no unit)", 0.0)),
    sets={
        "training": grid([1.0], [0.1, 1.0, 5.0, 10.0]) + grid([5.0, 10.0], [0.1]),
        "moderate": grid([5.0, 10.0], [1.0, 5.0, 10.0]),
        "extreme": grid([30.0], [0.1, 1.0, 5.0, 10.0, 30.0]) + grid([1.0, 5.0, 10.0], [30.0]),
    },
    remark="The gripper carries 170 N of the 294 N that 30 kg weigh, and pushing them at friction 5 takes 735 N: such "
    "a cube cannot be lifted or slid. It can be tipped over an edge, which takes 147 N.",
)
"""Panda's tasks: 6 for training, 6 moderate (interpolation), 8 extreme (extrapolation); paper appendix C.1."""
