"""Measures how much a policy gains from its context if the dynamics change in the middle of an episode. No torch.

Every episode is run from the same start in each `Variant`, with the deployed file: the policy is given one of five
contexts while its encoder reads the changed world, or the world does not change. Until the change, all variants are
bitwise identical, so that differences are taken episode by episode. One more run has the new dynamics all along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.model.contract import Contract
from sami_runtime.session.telemetry import Phase, Reading, Telemetry
from sami_train import seeds
from sami_train.envs.measure import SUCCESS, Measure
from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.play import OnRound, side_by_side
from sami_train.studies.contexts.changed_episodes import (
    ChangedEpisode,
    ChangedEpisodes,
    ChangeError,
    DynamicsChange,
    Variant,
)

SEED = seeds.ADAPTATION
FEWEST = 5
"""Fewest running episodes for a statistic at a step; with fewer episodes in total, all of them must run."""


class Mean(NamedTuple):
    """A mean over n episodes with its standard error."""

    value: float
    error: float | None
    """None for a single episode."""

    @classmethod
    def of(cls, values: Sequence[float] | NDArray[Any]) -> Mean:
        """Return the mean of (n,) values."""
        n = len(values)
        return cls(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else None)


class Delay(NamedTuple):
    """How many steps after the change an event happened, over several episodes."""

    share: float
    """Fraction of the episodes in which the event happened."""
    median: float | None
    """Median delay in these episodes [steps]; None if there are none."""

    @classmethod
    def of(cls, delays: Sequence[int | None]) -> Delay:
        """Summarise one delay [steps] per episode; None if the event did not happen."""
        finite = [delay for delay in delays if delay is not None]
        return cls(len(finite) / len(delays), float(np.median(finite)) if finite else None)


@dataclass(frozen=True)
class VariantRow:
    """Results of one variant, over the episodes that reached the change."""

    variant: Variant
    success: Mean | None
    """None if the environment's measure is the return."""
    ret: Mean
    """Return of the whole episode."""
    less_than_live: Mean
    """Success (or return, if that is the measure) of the live variant minus that of this one, paired by episode."""
    detected: Delay | None
    """Until telemetry reports re-adapting or an alarm, in episodes with neither at the change. None if the model has no
    in-distribution reference (atlas), or the variant is neither live nor unchanged."""
    adapted: Delay | None
    """Until the inferred context is nearer to the context of variant START than to that of FROZEN; None unless the
    variant is live or reset."""
    identified: Delay | None
    """Until the nearest known dynamics first are the new ones, in episodes at whose end they are, too; None unless the
    variant is live and the model's atlas has the new dynamics, which differ from the old ones."""
    gap: tuple[float, ...]
    """Mean distance of the policy's context from the context of variant START, by steps since the change."""
    score: tuple[float | None, ...] = ()
    """Median out-of-distribution score by steps since the change; None before the first score of an episode. Empty if
    `detected` is None."""
    outcomes: tuple[float, ...] = ()
    """Success (or return, if that is the measure) by episode; an index has the same start in every variant."""


@dataclass(frozen=True)
class Adaptation:
    """Results of one change, by variant."""

    change: DynamicsChange
    episodes: int
    reached: int
    """Episodes that lasted beyond the step of the change; `rows` has only these."""
    rows: tuple[VariantRow, ...]

    def of(self, variant: Variant) -> VariantRow:
        """Return the row of a variant."""
        return next(row for row in self.rows if row.variant is variant)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; an unknown value is None."""
        names = ("success", "ret", "less_than_live", "detected", "adapted", "identified")
        rows = [
            {
                "variant": row.variant.value,
                **{name: (value := getattr(row, name)) and value._asdict() for name in names},
                "gap": [round(gap, 4) for gap in row.gap],
                "score": [score and round(score, 4) for score in row.score],
                "outcomes": [round(outcome, 4) for outcome in row.outcomes],
            }
            for row in self.rows
        ]
        return {"change": str(self.change), "episodes": self.episodes, "reached": self.reached, "rows": rows}


def adaptation(
    model: Path,
    spec: EnvironmentSpec,
    change: DynamicsChange,
    episodes: int = 100,
    seed: int = SEED,
    on_round: OnRound | None = None,
) -> Adaptation:
    """Run episodes with a change in every variant, and compare the variants.

    Args:
        model: the model file.
        spec: the environment.
        change: the change, the same in every episode.
        episodes: number of starts.
        seed: seed of the first start; each next start has the next integer.
        on_round: called after each round with the number of starts in it.

    Raises:
        SamiError, AdapterError: see `ChangedEpisodes`; also if every episode is over before the change.
    """
    runs, starts, contract = _run(model, spec, change, tuple(Variant), episodes, seed, on_round)
    return judge(change, runs, starts, contract, spec.measure)


def _run(
    model: Path,
    spec: EnvironmentSpec,
    change: DynamicsChange,
    variants: Sequence[Variant],
    episodes: int,
    seed: int,
    on_round: OnRound | None,
) -> tuple[dict[Variant, list[ChangedEpisode]], list[ChangedEpisode], Contract]:
    """Return the episodes by variant (without an atlas, no CONSTANT), those with the new dynamics, and the contract."""
    rows = side_by_side(episodes)
    runner = ChangedEpisodes(model, spec, rows)
    if runner.contract.atlas is None:
        variants = [variant for variant in variants if variant is not Variant.CONSTANT]
    runs: dict[Variant, list[ChangedEpisode]] = {variant: [] for variant in variants}
    starts: list[ChangedEpisode] = []
    with closing(runner):
        for first in range(0, episodes, rows):
            seeds = range(seed + first, seed + first + rows)
            start = runner.round(seeds, change.along, Variant.LIVE)
            for variant in variants:
                runs[variant] += runner.round(seeds, change, variant, start)[: episodes - first]
            starts += start[: episodes - first]
            if on_round is not None:
                on_round(min(rows, episodes - first))
    return runs, starts, runner.contract


def judge(
    change: DynamicsChange,
    runs: Mapping[Variant, Sequence[ChangedEpisode]],
    starts: Sequence[ChangedEpisode],
    contract: Contract,
    measure: Measure,
) -> Adaptation:
    """Compute the results of a change from the episodes of every variant.

    Args:
        change: the change.
        runs: by variant, n episodes each, LIVE among them; the k-th episode has the same start in every variant.
        starts: n episodes that had the new dynamics all along, from the same starts.
        contract: the model's contract.
        measure: the environment's measure: success or return.

    Raises:
        ChangeError: every episode is over before the change.
    """
    live, atlas = runs[Variant.LIVE], contract.atlas
    in_atlas = atlas is not None and change.after != change.before and dict(change.after) in atlas.tasks
    reached = [k for k, run in enumerate(live) if len(run.actions) > change.step]
    if not reached:
        raise ChangeError(f"all {len(live)} episodes were over before step {change.step}; let it change earlier.")
    goal = measure is SUCCESS
    rows = []
    for variant, every in runs.items():
        reached_episodes = [every[k] for k in reached]
        start = [starts[k] for k in reached]
        better = [float(live[k].success) - every[k].success if goal else live[k].ret - every[k].ret for k in reached]
        detected = adapted = identified = None
        score: tuple[float | None, ...] = ()
        if atlas is not None and variant in (Variant.LIVE, Variant.UNCHANGED):
            readings_of_runs = [_readings(contract, run) for run in reached_episodes]
            detected = Delay.of([_detected(readings, change.step) for readings in readings_of_runs])
            score = _scores(readings_of_runs, change.step)
            if in_atlas and variant is Variant.LIVE:
                identified = Delay.of([_identified(readings, change) for readings in readings_of_runs])
        if variant in (Variant.LIVE, Variant.RESET):
            frozen = [live[k].contexts[change.step] for k in reached]
            pairs = zip(reached_episodes, start, frozen, strict=True)
            adapted = Delay.of([_adapted(run, other, old, change.step) for run, other, old in pairs])
        success = Mean.of([float(run.success) for run in reached_episodes]) if goal else None
        ret = Mean.of([run.ret for run in reached_episodes])
        gap = _gap(reached_episodes, start, change.step)
        outcomes = tuple(float(run.success) if goal else run.ret for run in reached_episodes)
        less = Mean.of(better)
        rows.append(VariantRow(variant, success, ret, less, detected, adapted, identified, gap, score, outcomes))
    return Adaptation(change, len(live), len(reached), tuple(rows))


def _readings(contract: Contract, run: ChangedEpisode) -> list[Reading]:
    """Return the telemetry's reading at each step of an episode."""
    telemetry = Telemetry(contract)
    return [telemetry.update(context) for context in run.contexts]


def _detected(readings: Sequence[Reading], step: int) -> int | None:
    noticed = [reading.alarm or reading.phase is Phase.READAPTING for reading in readings[step:]]
    return noticed.index(True) if True in noticed and not noticed[0] else None


def _identified(readings: Sequence[Reading], change: DynamicsChange) -> int | None:
    right = [reading.nearest == change.after for reading in readings[change.step + 1 :]]
    return right.index(True) + 1 if right and right[-1] else None


def _scores(episodes: Sequence[Sequence[Reading]], step: int) -> tuple[float | None, ...]:
    scores: list[float | None] = []
    for t in range(step, _steps_with_enough([len(readings) for readings in episodes])):
        running = [readings[t].score for readings in episodes if len(readings) > t]
        values = [score for score in running if score is not None]
        scores.append(float(np.median(values)) if values else None)
    return tuple(scores)


def _adapted(run: ChangedEpisode, start: ChangedEpisode, frozen: np.ndarray, step: int) -> int | None:
    for t in range(step + 1, len(run.contexts)):
        context = run.contexts[t]
        if np.linalg.norm(context - start.context(t)) < np.linalg.norm(context - frozen):
            return t - step
    return None


def _gap(runs: Sequence[ChangedEpisode], starts: Sequence[ChangedEpisode], step: int) -> tuple[float, ...]:
    gaps: list[float] = []
    for t in range(step, _steps_with_enough([len(run.given_context) for run in runs])):
        running = [(run, start) for run, start in zip(runs, starts, strict=True) if len(run.given_context) > t]
        gaps.append(float(np.mean([np.linalg.norm(run.given_context[t] - start.context(t)) for run, start in running])))
    return tuple(gaps)


def _steps_with_enough(lengths: Sequence[int]) -> int:
    """Return the number of steps at which `FEWEST` of the episodes run, or all if these are fewer; 0 without any."""
    return sorted(lengths, reverse=True)[min(FEWEST, len(lengths)) - 1] if lengths else 0


POINTS = 200
"""Episodes of 4 * POINTS steps or more are thinned out to every n-th step, n such that at least 2 * POINTS remain."""


def usual_change(spec: EnvironmentSpec, lengths: Sequence[int]) -> DynamicsChange:
    """Return the default change of a report, given the lengths of played episodes [steps].

    The task changes from the first training task to the last task of the next set, after a third of the median length
    (at most 300 steps): later, many episodes would be over. In Panda: from 1 kg, friction 0.1, to 10 kg, friction 10.
    """
    sets = list(spec.tasks.sets.values())
    usual = int(np.median(lengths)) if lengths else spec.episode_steps
    return DynamicsChange(dict(sets[0][0]), dict(sets[min(1, len(sets) - 1)][-1]), min(max(1, usual // 3), 300))


def contexts_around(
    model: Path, spec: EnvironmentSpec, change: DynamicsChange, episodes: int, on_round: OnRound | None = None
) -> dict[str, Any]:
    """Run episodes with a change, without the change, and with the new dynamics all along, from the same starts.

    Args:
        model: the model file.
        spec: the environment.
        change: the change.
        episodes: number of starts.
        on_round: called after each round with the number of starts in it.

    Returns:
        Plain values, among them `rows`, a list of `{"step", "to", "median", "low", "high"}`: by steps since the change,
        quartiles of the distance between the context and that of the same step without the change (`"old dynamics"`)
        or with the new dynamics all along (`"new dynamics"`); `means`, a list of `{"step", "dimension", "way",
        "mean"}` over the episodes that still run; and `reached`, the number of episodes that reached the change.

    Raises:
        SamiError, AdapterError: see `ChangedEpisodes`.
    """
    runs, starts, _ = _run(model, spec, change, (Variant.LIVE, Variant.UNCHANGED), episodes, SEED, on_round)
    reached = [k for k, run in enumerate(runs[Variant.LIVE]) if len(run.contexts) > change.step]
    live, unchanged = ([runs[variant][k] for k in reached] for variant in (Variant.LIVE, Variant.UNCHANGED))
    along = [starts[k] for k in reached]
    last = _steps_with_enough([len(run.contexts) for run in live])
    every = max(1, last // (2 * POINTS))
    steps = [t for t in range(0, last) if (t - change.step) % every == 0]
    return {
        "change": str(change),
        "before": dict(change.before),
        "after": dict(change.after),
        "step": change.step,
        "episodes": episodes,
        "reached": len(reached),
        "rows": _distances(steps, change.step, live, {"old dynamics": unchanged, "new dynamics": along}),
        "means": _means(steps, change.step, {"changed": live, "unchanged": unchanged}),
    }


def _distances(
    steps: Sequence[int],
    step: int,
    live: Sequence[ChangedEpisode],
    others_by_name: Mapping[str, Sequence[ChangedEpisode]],
) -> list[dict[str, Any]]:
    rows = []
    for t in steps:
        for name, references in others_by_name.items():
            running = [
                float(np.linalg.norm(run.contexts[t] - other.context(t)))
                for run, other in zip(live, references, strict=True)
                if len(run.contexts) > t
            ]
            low, median, high = np.percentile(running, [25, 50, 75]).round(5).tolist()
            rows.append({"step": t - step, "to": name, "median": median, "low": low, "high": high})
    return rows


def _means(
    steps: Sequence[int], step: int, runs_by_way: Mapping[str, Sequence[ChangedEpisode]]
) -> list[dict[str, Any]]:
    rows = []
    for t in steps:
        for way, runs in runs_by_way.items():
            running = [run.contexts[t] for run in runs if len(run.contexts) > t]
            if len(running) < min(FEWEST, len(runs)):
                continue
            means = np.mean(running, axis=0).round(5).tolist()
            rows += [{"step": t - step, "dimension": k, "way": way, "mean": mean} for k, mean in enumerate(means, 1)]
    return rows
