"""What episodes are judged by: success or return, the goals that they reach and the skills that they show."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import numpy as np

from sami_runtime.errors import UnknownName


@dataclass(frozen=True)
class Goal:
    """Where goals lie in the flat observation, and when one is reached."""

    achieved: slice
    """Columns of the achieved goal (the cube's position, [m])."""
    desired: slice
    """Columns of the desired goal [m]."""
    threshold: float
    """A goal is reached when the distance to it is below this [m]."""
    height: float | None = None
    """Third coordinate of every goal [m], where all have the same: the paper's goals lie on the table."""
    lowest: float | None = None
    """Below this third coordinate [m] the cube has fallen: its position is no goal. None where every one is."""

    def reached(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Whether `achieved` (..., G) is at `desired` (..., G): bool (...)."""
        distance = np.linalg.norm(achieved.astype(np.float64) - desired, axis=-1)
        return distance < self.threshold


@dataclass(frozen=True)
class Skill:
    """One way to solve a task, as the environment's `info["skill"]` labels each step."""

    name: str
    """The label."""
    column: str | None = None
    """What evaluations call the share of episodes with this skill at any step; None where they do not tell it."""


def episode_skill(shown: Collection[str], skills: Sequence[Skill]) -> str | None:
    """Return the skill that an episode is named after: the first of the environment's that it shows at any step.

    >>> episode_skill({"other", "push"}, (Skill("pick_and_place"), Skill("push"), Skill("other")))
    'push'

    Args:
        shown: labels of its steps.
        skills: of the environment, see `EnvironmentSpec.skills`.

    Returns:
        Its name; None where it shows none of them.
    """
    return next((skill.name for skill in skills if skill.name in shown), None)


@dataclass(frozen=True)
class Metric:
    """A number that an environment measures of each episode, as `info["metrics"]` says at its last step."""

    name: str
    unit: str = "1"
    digits: int = 2
    """Digits after the point that a mean is shown with."""
    meaning: str = ""


@dataclass(frozen=True)
class Measure:
    """How the policies of an environment are judged, and how that is told."""

    name: str
    key: str
    """Its key in evaluations."""
    per: str
    """Where evaluation episodes are counted: so many in each "task", or in each "set", whose tasks come in turn."""
    exploring: str
    """Its column in the metrics of a run, while exploring."""
    digits: int
    """Digits after the point that a mean is shown with; a return below 10 has two digits in all."""
    bounds: tuple[float, float] | None = None
    """Smallest and largest value; None where it has no bounds."""

    def __reduce__(self) -> Any:
        """Stay the one that there is of each name, also in a copy: it is known by that."""
        return measure, (self.name,)

    def show(self, value: float | None, coarse: bool = False, sign: bool = False) -> str:
        """Short text for a mean, or a dash for None and NaN; `coarse` has a digit less, `sign` shows a plus too."""
        if value is None or value != value:
            return "-"
        digits = self.digits
        if self.bounds is None and 0 < abs(value) < 9.95:
            digits = min(3, 1 - floor(log10(abs(value))))
        return f"{value:{'+' if sign else ''},.{max(0, digits - coarse)}f}"


def known(value: float) -> float | None:
    """Return the value as JSON takes it: None for NaN."""
    return None if value != value else value


SUCCESS = Measure("success", "success", "task", "rollout/success", 3, (0.0, 1.0))
RETURN = Measure("return", "ret", "set", "rollout/ep_rew_mean", 0)


def measure(name: str) -> Measure:
    """Look a measure up by its name, `"success"` or `"return"`; raises `UnknownName` for another."""
    known = {kind.name: kind for kind in (SUCCESS, RETURN)}
    if name not in known:
        raise UnknownName("measure", name, known)
    return known[name]
