"""The context around a change of the dynamics in the middle of episodes, for a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.play import OnRound, side_by_side
from sami_train.studies.contexts.adaptation import FEWEST, SEED
from sami_train.studies.contexts.change import DynamicsChange
from sami_train.studies.contexts.changed_episodes import ChangedEpisode, ChangedEpisodes, Variant
from sami_train.studies.report.played import Played

SHOWN = 200
"""Most steps that are told of to either side of a change: of long episodes, every n-th."""


def usual_change(spec: EnvironmentSpec, played: Sequence[Played]) -> DynamicsChange:
    """Return the change that is shown where none was asked for.

    From the first training task to the last task of the next set (Panda: 1 kg on a table of friction 0.1, then 10 kg
    on one of 10), a third into a usual episode: later, many would be over.
    """
    sets = list(spec.tasks.sets.values())
    usual = int(np.median([len(episode.contexts) for episode in played])) if played else spec.episode_steps
    return DynamicsChange(dict(sets[0][0]), dict(sets[min(1, len(sets) - 1)][-1]), min(max(1, usual // 3), 300))


def contexts_around(
    model: Path, spec: EnvironmentSpec, change: DynamicsChange, episodes: int, on_round: OnRound | None = None
) -> dict[str, Any]:
    """Run episodes with a change, without it, and with the new dynamics all along; all begin alike.

    Args:
        model: the file.
        spec: the environment.
        change: what happens.
        episodes: how many starts.
        on_round: called now and then with how many starts are done since it was called last.

    Returns:
        Plain values: `rows`, a list of `{"step", "to", "median", "low", "high"}`: by steps since the change, quartiles
        of the distance of the context from the one of the same step without the change (`"old dynamics"`) and with the
        new dynamics all along (`"new dynamics"`); `means`, a list of `{"step", "dimension", "way", "mean"}` over
        the episodes that still run; and how many episodes reached the change.

    Raises:
        SamiError: as `ChangedEpisodes`.
    """
    rows = side_by_side(episodes)
    runner = ChangedEpisodes(model, spec, rows)
    changed: list[ChangedEpisode] = []
    unchanged: list[ChangedEpisode] = []
    along: list[ChangedEpisode] = []
    try:
        for first in range(0, episodes, rows):
            seeds = range(SEED + first, SEED + first + rows)
            along += runner.round(seeds, change.along, Variant.LIVE)
            changed += runner.round(seeds, change, Variant.LIVE)
            unchanged += runner.round(seeds, change, Variant.UNCHANGED)
            if on_round is not None:
                on_round(min(rows, episodes - first))
    finally:
        runner.close()
    reached = [k for k in range(episodes) if len(changed[k].contexts) > change.step]
    return {
        "change": str(change),
        "before": dict(change.before),
        "after": dict(change.after),
        "step": change.step,
        "episodes": episodes,
        "reached": len(reached),
        "rows": _distances(change.step, *([runs[k] for k in reached] for runs in (changed, unchanged, along))),
        "means": _means(change.step, *([runs[k] for k in reached] for runs in (changed, unchanged))),
    }


def _steps(changed: Sequence[ChangedEpisode], step: int) -> list[int]:
    """Return the steps that enough episodes reach, from the beginning; of many, some."""
    lengths = sorted((len(run.contexts) for run in changed), reverse=True)
    last = lengths[min(FEWEST, len(lengths)) - 1] if lengths else 0
    every = max(1, last // (2 * SHOWN))
    return [t for t in range(0, last) if (t - step) % every == 0]


def _distances(
    step: int, changed: Sequence[ChangedEpisode], unchanged: Sequence[ChangedEpisode], along: Sequence[ChangedEpisode]
) -> list[dict[str, Any]]:
    rows = []
    for t in _steps(changed, step):
        for name, others in (("old dynamics", unchanged), ("new dynamics", along)):
            running = [
                float(np.linalg.norm(run.contexts[t] - other.context(t)))
                for run, other in zip(changed, others, strict=True)
                if len(run.contexts) > t
            ]
            low, median, high = np.percentile(running, [25, 50, 75]).round(5).tolist()
            rows.append({"step": t - step, "to": name, "median": median, "low": low, "high": high})
    return rows


def _means(step: int, changed: Sequence[ChangedEpisode], unchanged: Sequence[ChangedEpisode]) -> list[dict[str, Any]]:
    rows = []
    for t in _steps(changed, step):
        for way, runs in (("changed", changed), ("unchanged", unchanged)):
            running = [run.contexts[t] for run in runs if len(run.contexts) > t]
            if len(running) < min(FEWEST, len(runs)):
                continue
            means = np.mean(running, axis=0).round(5).tolist()
            rows += [{"step": t - step, "dimension": k, "way": way, "mean": mean} for k, mean in enumerate(means, 1)]
    return rows
