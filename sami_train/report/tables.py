"""Tables of a comparison, as rows of text that a terminal and a report both show; and the same as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sami_train.envs.measure import SUCCESS, Measure, known
from sami_train.report import paper
from sami_train.report.comparison import Comparison, Contest, Standing, span
from sami_train.report.estimates import Interval, least_difference, least_sign_flip_p

NONE = "-"


@dataclass(frozen=True)
class Table:
    """Rows of text under headings, with notes below."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)


def tables(comparison: Comparison) -> list[Table]:
    """All tables, in the order of reading: a table for each set of tasks, then whether SaNCE helps."""
    standings = [standings_table(comparison, task_set) for task_set in comparison.task_sets]
    standings[-1].notes.extend(standings_notes(comparison))
    contests = contests_table(comparison)
    return [*standings, contests] if contests else standings


def standings_table(comparison: Comparison, task_set: str) -> Table:
    """Return what each group scored on one set of tasks, beside the paper; the steps too where budgets are unequal."""
    standings = [s for s in comparison.standings if s.task_set == task_set]
    measure = comparison.measure
    rows = [_standing(comparison.env, measure, standing) for standing in standings]
    tasks = len(comparison.runs[0].evaluation.of(task_set))
    episodes = " or ".join(map(str, comparison.episodes)) + " episodes"
    counted = f"{tasks} tasks, {episodes} per task" if measure.per == "task" else f"{episodes} in {tasks} tasks"
    title = f"{task_set}: {measure.name}, {counted}"
    columns: tuple[str, ...] = (
        "group",
        "seeds",
        "mean ± std",
        "mean [95 % t]",
        "IQM [95 % bootstrap]",
        *(("above floor",) if measure is SUCCESS else ()),
        "paper",
    )
    if not comparison.equal_budget:
        title += " (UNEQUAL BUDGETS)"
        columns = (*columns[:2], "steps", *columns[2:])
        steps = [span([run.steps for run in standing.group.runs]) for standing in standings]
        rows = [(*row[:2], number, *row[2:]) for number, row in zip(steps, rows, strict=True)]
    return Table(title, columns, rows)


def standings_notes(comparison: Comparison) -> list[str]:
    """How to read the tables of standings."""
    unit = "task" if comparison.measure is SUCCESS else "episode"
    floor = ("above floor: mean success among episodes that doing nothing would not have solved.",)
    return [
        "mean ± std: over seeds. [95 % t]: Student's t over the seeds' means, the interval to believe with few seeds.",
        f"IQM: interquartile mean over (seed, {unit}). [95 % bootstrap]: stratified by {unit}; it takes the {unit}s of "
        "one run as independent and is too narrow with few seeds.",
        *(floor if comparison.measure is SUCCESS else ()),
        f"paper: {paper.SOURCE}; {paper.SPREAD.get(comparison.env, 'its ± is the deviation across seeds')}.",
    ]


def contests_table(comparison: Comparison) -> Table | None:
    """Whether SaNCE helps: each method with it against the same without; None where no such pair was given."""
    if not comparison.contests:
        return None
    rows = [_contest(comparison.env, comparison.measure, contest) for contest in comparison.contests]
    place = "a task" if comparison.measure is SUCCESS else "an episode"
    tests = sum(contest.test.p is not None for contest in comparison.contests)
    counts = sorted({len(contest.test.seeds) for contest in comparison.contests})
    notes = [what_seeds_show(count) for count in counts]
    if tests:
        notes.insert(
            0, f"p: two-sided paired t-test, as in the paper's appendix, not corrected for the {tests} tests here."
        )
    notes.append(
        f"P(X > Y): how often a run of X beats one of Y in {place}, ties half; interval by the stratified bootstrap."
    )
    columns = ("pair", "set", "seeds", "difference [95 % t]", "p", "P(X > Y) [95 % bootstrap]", "paper's p")
    return Table("Does SaNCE help? Differences paired by seed", columns, rows, notes)


def what_seeds_show(seeds: int) -> str:
    """Return what a paired test over so many seeds can and cannot show."""
    if seeds < 2:
        return f"{seeds} common seed{'' if seeds == 1 else 's'}: nothing can be tested."
    p = least_sign_flip_p(seeds)
    verdict = "never reaches 0.05" if p > 0.05 else "can reach 0.05"
    return (
        f"{seeds} seeds: p < 0.05 needs a mean difference of {least_difference(seeds):.2f} times its deviation over "
        f"seeds; a test that assumes no distribution {verdict} (smallest p {p:.3g}, all seeds agreeing). "
        "A large p is no evidence that there is no effect."
    )


def number(value: float | None, digits: int = 3) -> str:
    """Return a number, or a dash."""
    return NONE if value is None or value != value else f"{value:.{digits}f}"


def bounds(interval: Interval, digits: int = 3) -> str:
    """Return an interval's bounds."""
    return f"[{number(interval.low, digits)}, {number(interval.high, digits)}]" if interval.bounds else "no interval"


def _standing(env: str, measure: Measure, standing: Standing) -> tuple[str, ...]:
    score, show = standing.score, measure.show
    theirs = paper.reported(env, standing.group.method.title, standing.task_set)
    return (
        standing.group.label,
        str(len(standing.group.runs)),
        show(score.mean.value) + (f" ± {show(score.std)}" if score.std is not None else ""),
        _shown_bounds(measure, score.mean),
        show(score.iqm.value) + (f" {_shown_bounds(measure, score.iqm)}" if score.iqm.bounds else ""),
        *((number(standing.above_floor),) if measure is SUCCESS else ()),
        NONE if theirs is None else " ± ".join(show(part, coarse=True) for part in theirs),
    )


def _shown_bounds(measure: Measure, interval: Interval) -> str:
    return f"[{measure.show(interval.low)}, {measure.show(interval.high)}]" if interval.bounds else "no interval"


def _contest(env: str, measure: Measure, contest: Contest) -> tuple[str, ...]:
    test, better = contest.test, contest.improvement
    theirs = paper.reported_p(env, contest.x.method.title, contest.y.method.title, contest.task_set)
    return (
        f"{contest.x.label} - {contest.y.label}" + ("" if contest.equal_budget else " (UNEQUAL BUDGET)"),
        contest.task_set,
        str(len(test.seeds)),
        NONE
        if not test.seeds
        else f"{measure.show(test.difference.value, sign=True)} {_shown_bounds(measure, test.difference)}",
        NONE if test.p is None else f"{test.p:.3g}" + (" *" if test.p < 0.05 else ""),
        f"{number(better.value, 2)} {bounds(better, 2)}",
        NONE if theirs is None else f"{theirs:.3g}",
    )


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as plain data, for `--json`; undefined numbers are null."""
    return {
        "env": comparison.env,
        "measure": comparison.measure.name,
        f"episodes_per_{comparison.measure.per}": comparison.episodes,
        "by": comparison.by,
        "cautions": comparison.cautions(),
        "equal_budget": comparison.equal_budget,
        "groups": [
            {
                "label": group.label,
                "method": group.method.name,
                "settings": dict(group.settings),
                "seeds": group.seeds,
                "runs": [run.address for run in group.runs],
                "environment_steps": [run.steps for run in group.runs],
                "gradient_steps": [run.updates for run in group.runs],
                "seconds": [run.facts.get("seconds") for run in group.runs],
                "commits": [run.commit for run in group.runs],
            }
            for group in comparison.groups
        ],
        "results": [_result(comparison.env, standing) for standing in comparison.standings],
        "contests": [
            _verdict(comparison.env, contest, claimed)
            for claimed, contests in ((True, comparison.contests), (False, comparison.other_contests))
            for contest in contests
        ],
        "paper": {"source": paper.SOURCE, "spread": paper.SPREAD.get(comparison.env, "deviation across seeds")},
    }


def _result(env: str, standing: Standing) -> dict[str, Any]:
    theirs = paper.reported(env, standing.group.method.title, standing.task_set)
    return {
        "group": standing.group.label,
        "task_set": standing.task_set,
        "mean": standing.score.mean._asdict(),
        "std": standing.score.std,
        "mean_stratified": standing.score.mean_stratified._asdict(),
        "iqm": standing.score.iqm._asdict(),
        "above_floor": None if standing.above_floor is None else known(standing.above_floor),
        "paper": theirs._asdict() if theirs else None,
    }


def _verdict(env: str, contest: Contest, claimed: bool) -> dict[str, Any]:
    test = contest.test
    return {
        "x": contest.x.label,
        "y": contest.y.label,
        "task_set": contest.task_set,
        "claimed_by_the_paper": claimed,
        "equal_budget": contest.equal_budget,
        "improvement": contest.improvement._asdict(),
        "paired_t_test": {
            "seeds": test.seeds,
            "difference": test.difference._asdict() if test.seeds else None,
            "p": test.p,
            "paper": paper.reported_p(env, contest.x.method.title, contest.y.method.title, contest.task_set),
        },
    }
