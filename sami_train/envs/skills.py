"""Skills: the ways to solve a task that an environment tells apart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Skill:
    """One way to solve a task, as the environment's `info["skill"]` labels each step."""

    name: str
    """The label."""
    column: str | None = None
    """What evaluations call the share of episodes with this skill at any step; None where they do not tell it."""
