"""A bound on a policy's recovery time after a change of the dynamics, from measured changes between training tasks.

A robot observes neither reward nor task, so recovery is defined by telemetry: the context has settled again (see
`Countdown`), or the episode reached its goal. The bound T is a tolerance limit of the measured times. It is raised, if
needed, until few enough episodes without a change exceed T. Each episode draws a change of its own, so that episodes
are independent: two training tasks, and a step between the atlas's first score and half of a median episode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from sami_runtime.model.recovery import Recovery
from sami_runtime.session.telemetry import Countdown, Telemetry
from sami_train import seeds
from sami_train.binomial import fewest, highest_rate, tolerance_rank
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task
from sami_train.evaluation.play import OnRound, side_by_side
from sami_train.export.atlas import CONFIDENCE
from sami_train.export.training_ranges import MeasuredGap, known_gap, known_tasks
from sami_train.studies.contexts.changed_episodes import ChangedEpisode, ChangedEpisodes, DynamicsChange, Variant

LEVEL = 0.9
"""Probability that the policy recovers from a detected change within T."""
FALSE_RATE = 0.05
"""Largest upper 95 % limit of the rate of episodes without a change that exceed T."""


class Recoveries(NamedTuple):
    """Recovery times of episodes with a change, and false detections in episodes without a change."""

    changed: tuple[float, ...]
    """Longest countdown of each episode with a detected change [steps]; infinite if the last countdown did not end."""
    undetected: int
    """Number of episodes with an undetected change."""
    unchanged: tuple[float | None, ...]
    """Longest countdown of each episode without a change [steps]; None if no countdown began."""

    def false_fallbacks(self, steps: float) -> int:
        """Return the number of episodes without a change whose longest countdown exceeds `steps`."""
        return sum(longest is not None and longest > steps for longest in self.unchanged)

    def judge(self, steps: float) -> dict[str, int]:
        """Count the outcomes of a deadline of `steps`, and (`at_once`) false stops of a monitor without any delay."""
        return {
            "detected": len(self.changed),
            "undetected": self.undetected,
            "in_time": sum(longest <= steps for longest in self.changed),
            "unchanged": len(self.unchanged),
            "false_fallbacks": self.false_fallbacks(steps),
            "at_once": sum(longest is not None for longest in self.unchanged),
        }


def measure_recoveries(
    model: Path, spec: EnvironmentSpec, tasks: Sequence[Task], episodes: int, seed: int, on_round: OnRound | None = None
) -> Recoveries:
    """Run episodes with a change and as many without; episodes that end before their change do not count.

    They have the sim-to-real profile that the policy was trained with, as the episodes of its atlas have.

    Args:
        model: the model file.
        spec: the environment.
        tasks: tasks between which the dynamics change; at least 2.
        episodes: number of episodes of each kind, rounded up to whole rounds.
        seed: seed of the drawn changes and of the first start.
        on_round: called after each round with the number of episodes in it.

    Raises:
        SamiError: the model has no atlas, there are fewer than 2 tasks, or see `ChangedEpisodes`.
    """
    if len(tasks) < 2:
        raise SamiError("the policy learned from one task, so that its dynamics have nothing to change to.")
    rng, rows = np.random.default_rng(seed), side_by_side(episodes)
    with closing(ChangedEpisodes(model, spec, rows)) as runner:
        contract, trained_gap = runner.contract, known_gap(runner.contract.training)
        first, last = _steps(runner, contract, tasks, seed + 10_000_000)
        countdowns: list[float | None] = []
        unchanged: list[float | None] = []
        for start in range(seed, seed + 2 * episodes, 2 * rows):
            changes = [_draw(tasks, trained_gap, False, first, last, rng) for _ in range(rows)]
            for episode in runner.round(range(start, start + rows), changes, Variant.LIVE):
                unchanged.append(longest_countdown(contract, episode)[0])
            changes = [_draw(tasks, trained_gap, True, first, last, rng) for _ in range(rows)]
            results = runner.round(range(start + rows, start + 2 * rows), changes, Variant.LIVE)
            for episode, change in zip(results, changes, strict=True):
                if len(episode.actions) > change.step:
                    longest, is_over = longest_countdown(contract, episode)
                    countdowns.append(longest if is_over else math.inf)
            if on_round is not None:
                on_round(2 * rows)
    detected = tuple(steps for steps in countdowns if steps is not None)
    return Recoveries(detected, len(countdowns) - len(detected), tuple(unchanged))


def certify(recoveries: Recoveries, measured: str) -> Recovery:
    """Return the smallest bound of level `LEVEL` that few enough episodes without a change exceed.

    Raises:
        SamiError: no finite bound has that level, or there are too few episodes.
    """
    n, k = len(recoveries.changed), tolerance_rank(len(recoveries.changed), 1.0 - LEVEL, CONFIDENCE)
    if k > (over := sum(map(math.isfinite, recoveries.changed))) or k == 0:
        needed = k or fewest(1.0 - LEVEL, CONFIDENCE)
        raise SamiError(
            f"a change was detected in {n} episodes, and in {over} of them the context settled again; a bound that "
            f"holds with a probability of {LEVEL:.0%} needs {needed}. Measure more changes, or limit this policy by "
            "stop_on_alarm."
        )
    quantile, unchanged = sorted(recoveries.changed)[k - 1], len(recoveries.unchanged)
    longer = {steps for steps in recoveries.unchanged if steps is not None and steps > quantile}
    for steps in sorted({quantile, *longer}):
        false = recoveries.false_fallbacks(steps)
        if (highest := highest_rate(false, unchanged)) <= FALSE_RATE:
            return Recovery(
                steps=max(1, math.ceil(steps)),
                level=LEVEL,
                changes=n,
                undetected=recoveries.undetected,
                unchanged=unchanged,
                false_fallbacks=false,
                highest_false_rate=highest,
                measured=measured,
            )
    raise SamiError(
        f"{unchanged} episodes without a change are too few to say that at most {FALSE_RATE:.0%} end by a false alarm; "
        f"{fewest(FALSE_RATE, 0.95)} are needed."
    )


def longest_countdown(contract: Contract, episode: ChangedEpisode) -> tuple[float | None, bool]:
    """Return an episode's longest countdown [steps], None if none began; and whether it ended settled or successful."""
    telemetry, countdown = Telemetry(contract), Countdown()
    longest: float | None = None
    for context in episode.contexts:
        countdown.update(telemetry.update(context))
        if countdown.steps is not None:
            longest = max(longest or 0.0, float(countdown.steps))
    return longest, countdown.steps is None or episode.success


def measure_recovery(model: Path, spec: EnvironmentSpec, episodes: int, on_round: OnRound | None = None) -> Recovery:
    """Measure `episodes` changes between training tasks, and return the bound on a model file's recovery time.

    Raises:
        SamiError: the model has no atlas, or see `measure_recoveries` and `certify`.
    """
    contract = read_artifact(model).contract
    tasks = known_tasks(contract.training, spec)
    recoveries = measure_recoveries(model, spec, tasks, episodes, seeds.RECOVERY, on_round)
    measured = f"{episodes} changes between two of {len(tasks)} training tasks, drawn by seed {seeds.RECOVERY}"
    return certify(recoveries, measured)


def _draw(
    tasks: Sequence[Task], trained_gap: MeasuredGap, changes: bool, first: int, last: int, rng: np.random.Generator
) -> DynamicsChange:
    before, after = rng.choice(len(tasks), 2, replace=False)
    step = int(rng.integers(first, last + 1))
    gaps = (trained_gap.gap, trained_gap.gap) if trained_gap.gap and rng.random() >= trained_gap.clean_share else None
    return DynamicsChange(tasks[before], tasks[after if changes else before], step, gaps)


def _steps(runner: ChangedEpisodes, contract: Contract, tasks: Sequence[Task], seed: int) -> tuple[int, int]:
    """Return the first and the last step at which a change may happen."""
    if contract.atlas is None:
        raise SamiError(f"{contract.name!r} has no atlas, by which changes are detected; add one with sami atlas.")
    first = contract.atlas.step + 1
    same = [DynamicsChange(tasks[k % len(tasks)], tasks[k % len(tasks)], 1) for k in range(runner.rows)]
    usual = np.median([len(run.actions) for run in runner.round(range(seed, seed + runner.rows), same, Variant.LIVE)])
    return first, max(first, int(usual) // 2)
