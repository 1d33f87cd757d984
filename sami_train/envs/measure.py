"""How episodes are judged: by success or return, by goals that they reach, and by skills that they show."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import numpy as np

from sami_runtime.errors import UnknownName


@dataclass(frozen=True)
class Goal:
    """Columns of achieved and desired goals in the flat observation, and when a goal is reached."""

    achieved: slice
    """Columns of the achieved goal (the cube's position, [m])."""
    desired: slice
    """Columns of the desired goal [m]."""
    threshold: float
    """A goal is reached when the distance to it is below this [m]."""
    height: float | None = None
    """Third coordinate of every goal [m], if all have the same: the paper's goals are on the table."""
    lowest: float | None = None
    """Lowest third coordinate of a hindsight goal [m]: below it the cube has fallen. None has no such limit."""

    def reached(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Return whether `achieved` (..., G) is within the threshold of `desired` (..., G): bool (...,)."""
        distance = np.linalg.norm(achieved.astype(np.float64) - desired, axis=-1)
        return distance < self.threshold


@dataclass(frozen=True)
class Skill:
    """One way to solve a task, as the environment's `info["skill"]` labels each step."""

    name: str
    """The label."""
    column: str | None = None
    """Column of evaluations with the share of episodes that show this skill at any step; None without a column."""


def episode_skill(names: Collection[str], skills: Sequence[Skill]) -> str | None:
    """Return the name of the first of an environment's skills that the labels of an episode's steps have, or None.

    The episode is named after it, see `EnvironmentSpec.skills`.

    >>> episode_skill({"other", "push"}, (Skill("pick_and_place"), Skill("push"), Skill("other")))
    'push'
    """
    return next((skill.name for skill in skills if skill.name in names), None)


@dataclass(frozen=True)
class Metric:
    """A number that an environment measures in each episode: `info["metrics"]` has it at the last step."""

    name: str
    unit: str = "1"
    digits: int = 2
    """Digits after the decimal point of a displayed mean."""
    meaning: str = ""


@dataclass(frozen=True)
class Measure:
    """How the policies of an environment are judged, and how results are written."""

    name: str
    key: str
    """Its key in evaluations."""
    per: str
    """What a number of evaluation episodes refers to: each "task", or each "set", which visits its tasks in turn."""
    exploring: str
    """Its column in a run's metrics, measured with exploration."""
    digits: int
    """Digits after the decimal point of a displayed mean; a return below 10 has two significant digits."""
    bounds: tuple[float, float] | None = None
    """Smallest and largest value; None without bounds."""

    def __reduce__(self) -> Any:
        """Unpickle as the one instance of this name: code compares measures by identity."""
        return measure, (self.name,)

    def show(self, value: float | None, coarse: bool = False, sign: bool = False) -> str:
        """Return a mean as a short text, a dash for None and NaN; `coarse` drops a digit, `sign` writes a plus."""
        if value is None or value != value:
            return "-"
        digits = self.digits
        if self.bounds is None and 0 < abs(value) < 9.95:
            digits = min(3, 1 - floor(log10(abs(value))))
        return f"{value:{'+' if sign else ''},.{max(0, digits - coarse)}f}"


def finite(value: float) -> float | None:
    """Return the value for JSON: None instead of NaN."""
    return None if value != value else value


SUCCESS = Measure("success", "success", "task", "rollout/success", 3, (0.0, 1.0))
RETURN = Measure("return", "ret", "set", "rollout/ep_rew_mean", 0)


def measure(name: str) -> Measure:
    """Return the measure with this name, `"success"` or `"return"`; raise UnknownName for any other."""
    by_name = {kind.name: kind for kind in (SUCCESS, RETURN)}
    if name not in by_name:
        raise UnknownName("measure", name, by_name)
    return by_name[name]
