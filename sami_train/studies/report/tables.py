"""Tables of the report: what was scored, what contexts tell, what a step costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sami_train.envs.measure import SUCCESS
from sami_train.evaluation.paper import SOURCE, reported
from sami_train.evaluation.results import Evaluation
from sami_train.studies.compare.tables import Table
from sami_train.studies.report.mapped import NEIGHBOURS, Separability


class Scored(NamedTuple):
    """An evaluated policy."""

    name: str
    method: str
    seed: int | None
    steps: int | None
    evaluation: Evaluation


def shown_interval(evaluation: Evaluation, task_set: str) -> str:
    """Return a set's 95 % interval over starts as text."""
    interval = evaluation.interval(task_set)
    if interval is None:
        return "not known"
    low, high = (evaluation.measure.show(value) for value in interval)
    return f"{low} to {high}"


def score_table(scored: Sequence[Scored]) -> Table:
    """Return a row for each set and policy, so that what is compared stands one above the other."""
    measure = scored[0].evaluation.measure
    with_floor = measure is SUCCESS
    rows: list[tuple[str, ...]] = []
    for task_set in scored[0].evaluation.sets:
        for name, title, seed, steps, evaluation in scored:
            if task_set not in evaluation.sets:
                continue
            theirs = reported(evaluation.env, title, task_set)
            above = (measure.show(evaluation.above_floor(task_set)),) if with_floor else ()
            values = (measure.show(evaluation.score(task_set)), shown_interval(evaluation, task_set), *above)
            paper = measure.show(theirs.mean) if theirs else "-"
            trained = (title, "-" if seed is None else str(seed), "-" if steps is None else f"{steps:,}")
            rows.append((task_set, name, *values, paper, *trained))
    floor = ("above the floor",) if with_floor else ()
    columns = ("tasks", "", measure.name, "95 %", *floor, "paper", "method", "seed", "environment steps")
    notes = [
        "95 %: over the starts of this policy, by bootstrap; other seeds of its training differ by more.",
        *(["Above the floor: success among episodes that doing nothing would not have solved."] if with_floor else []),
        f"Paper: {SOURCE}.",
    ]
    return Table(f"{measure.name.capitalize()} by set of tasks", columns, rows, notes)


def separability_table(measured: Sequence[Separability]) -> Table:
    """Return what contexts tell of each label, and what chance would."""
    rows: list[tuple[str, ...]] = [
        (
            separability.label,
            "yes" if separability.knn > separability.knn_chance_high else "no",
            f"{separability.knn:.2f}",
            f"{separability.knn_chance:.2f}, {separability.knn_chance_high:.2f}",
            f"{separability.p:.3f}",
            f"{separability.silhouette:+.2f}",
            f"{separability.silhouette_chance_high:+.2f}",
            str(separability.values),
            str(separability.episodes),
        )
        for separability in measured
    ]
    columns = (
        *("label", "told", f"{NEIGHBOURS} neighbours", "by chance: mean, 95th", "p"),
        *("silhouette", "by chance: 95th", "values", "episodes"),
    )
    notes = [
        f"{NEIGHBOURS} neighbours: share of episodes whose nearest contexts, without their own, guess the label right. "
        "By chance: the same with permuted labels. Both are of the contexts themselves, not of the maps.",
        "Episodes that were over after one step, having begun at their goal, are left out.",
    ]
    return Table("Does the context tell it?", columns, rows, notes)


def cost_table(costs: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return what a step costs, by the model's name, as the command measured it."""
    rows: list[tuple[str, ...]] = [
        (name, line["pace"], line["name"], str(line["steps"]))
        + tuple("-" if line[key] is None else f"{line[key]:.0f}" for key in ("p50", "p99", "p99_9", "worst"))
        for name, cost in costs.items()
        for line in cost["lines"]
    ]
    columns = ("", "pace", "what", "steps", "p50 [µs]", "p99 [µs]", "p99.9 [µs]", "worst [µs]")
    notes = [f"On {machine}." for machine in dict.fromkeys(cost["machine"] for cost in costs.values())]
    return Table("A step on this machine", columns, rows, notes)
