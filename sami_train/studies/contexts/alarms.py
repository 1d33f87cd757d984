"""Counts the OOD alarms of a model's in-distribution reference (atlas) in episodes that it was not fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from sami_runtime.errors import SamiError, in_shell
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.atlas import Atlas, Locator
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.play import OnRound
from sami_train.export.atlas import window_means
from sami_train.export.training_ranges import Contexts, MeasuredGap, collect_contexts, known_gap
from sami_train.seeds import ALARMS


class Alarms(NamedTuple):
    """Alarms of an atlas in new episodes of one task."""

    task_set: str
    task: Task
    episodes: int
    alarms: int
    """Episodes with an alarm at any step."""
    first: float | None
    """Median step of the first alarm; None without any."""
    nearest: float | None
    """Fraction of episodes whose last window is nearest to the true task; None if the atlas lacks this task."""


def check(
    model: Path,
    spec: EnvironmentSpec,
    episodes: int,
    seed: int = ALARMS,
    on_round: OnRound | None = None,
    profile: MeasuredGap | None = None,
) -> list[Alarms]:
    """Count the alarms of a model's atlas in new episodes of every task; see `collect_contexts` for the arguments.

    Without `profile`, the episodes have the sim-to-real profile with which the policy was trained, if any.

    Raises:
        SamiError: the model has no atlas, or its contract has an invalid profile.
    """
    contract = read_artifact(model).contract
    atlas = contract.atlas
    if atlas is None:
        hint = f"; add one with: sami atlas {in_shell(model)}"
        raise SamiError(f"{model} has no atlas{hint if contract.context_size else ': it infers no context'}")
    profile = known_gap(contract.training) if profile is None else profile
    jobs = [(name, task) for name, tasks in spec.tasks.sets.items() for task in tasks]
    contexts_of_jobs = collect_contexts(model, spec, [task for _, task in jobs], episodes, seed, on_round, profile)
    return [_alarms(atlas, *job, contexts) for job, contexts in zip(jobs, contexts_of_jobs, strict=True)]


def _alarms(atlas: Atlas, task_set: str, task: Task, episodes: Contexts) -> Alarms:
    locate = Locator(atlas)
    places = [[locate(mean) for mean in window_means(atlas, episode)] for episode in episodes]
    over = [[place.score > 1.0 for place in episode] for episode in places]
    firsts = [atlas.step + alarms.index(True) for alarms in over if True in alarms]
    last = [atlas.tasks[episode[-1].nearest] == task for episode in places if episode]
    return Alarms(
        task_set,
        task,
        len(episodes),
        len(firsts),
        float(np.median(firsts)) if firsts else None,
        float(np.mean(last)) if dict(task) in atlas.tasks and last else None,
    )
