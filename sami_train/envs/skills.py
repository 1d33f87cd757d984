"""Skills: the ways to solve a task that an environment tells apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


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
