"""Frequencies of skills by task, from evaluations, and the paper's description of its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sami_train.envs.catalog import environment
from sami_train.envs.measure import Skill
from sami_train.envs.tasks import Task
from sami_train.evaluation.results import Evaluation, TaskResult

PAPER = {
    "TESAC": "push mainly",
    "CCM": "pick and place mainly, also at 30 kg, which cannot be lifted",
    "SaTESAC": "push at 10 and 30 kg, pick and place below",
    "SaCCM": "push at 10 and 30 kg, pick and place below",
}
"""The paper's description of its figure for Panda, by method (appendix, "Heatmap of Panda-gym benchmark"; it gives no
numbers)."""


class TaskSkills(NamedTuple):
    """How often a policy, or several policies of one method, used each skill in a task."""

    task: Task
    shares: Mapping[str, float | None]
    """By skill: fraction of episodes named after the skill; None if an evaluation did not record it."""
    success: float
    runs: int
    """Number of evaluations that the means are over."""


def skills_by_task(evaluations: Sequence[Evaluation]) -> list[TaskSkills]:
    """Return the fractions of skills in each task, as means over evaluations of one method, sorted by task.

    Args:
        evaluations: at least one; all of one environment that labels skills.
    """
    skills = environment(evaluations[0].env).skills
    by_task: dict[tuple[object, ...], list[TaskResult]] = {}
    for result in (result for evaluation in evaluations for result in evaluation.results):
        by_task.setdefault(tuple(result.task.values()), []).append(result)
    skills_of_tasks = []
    for _, results in sorted(by_task.items()):
        shares = {
            skill.name: _mean([_share(result, skill, skill is skills[0]) for result in results]) for skill in skills
        }
        success = float(np.mean([result.success for result in results]))
        skills_of_tasks.append(TaskSkills(results[0].task, shares, success, len(results)))
    return skills_of_tasks


def _share(result: TaskResult, skill: Skill, first: bool) -> float | None:
    """Return the fraction of episodes named after a skill; None if the file did not record it.

    Older files record how many episodes show the first skill at any step: these are the episodes named after it.
    """
    return result.skills.get(skill.name, result.shares.get(skill.column) if first and skill.column else None)


def _mean(shares: Sequence[float | None]) -> float | None:
    values = [share for share in shares if share is not None]
    return float(np.mean(values)) if len(values) == len(shares) else None
