"""Tables of a comparison, as rows of text that a terminal and a report both show; and the same as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sami_train.envs.measure import SUCCESS, Measure, known
from sami_train.evaluation import paper
from sami_train.runs.folder import RealisedContrast
from sami_train.studies.compare.comparison import Contest, MethodComparison, Standing, span
from sami_train.studies.compare.estimates import Interval, holm, least_difference, least_sign_flip_p
from sami_train.studies.compare.worth import Worth, worths

NONE = "-"


@dataclass(frozen=True)
class Table:
    """Rows of text under headings, with notes below."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)


def tables(comparison: MethodComparison) -> list[Table]:
    """All tables, in the order of reading: one for each set of tasks, what a context is worth, whether SaNCE helps."""
    standings = [standings_table(comparison, task_set) for task_set in comparison.task_sets]
    standings[-1].notes.extend(standings_notes(comparison))
    more = (worth_table(comparison), contests_table(comparison), contrast_table(comparison))
    return [*standings, *(table for table in more if table)]


def standings_table(comparison: MethodComparison, task_set: str) -> Table:
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


def standings_notes(comparison: MethodComparison) -> list[str]:
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


def contests_table(comparison: MethodComparison) -> Table | None:
    """Whether SaNCE helps: each method with it against the same without, or with a placebo for its ranking.

    None where no such pair was given.
    """
    contests = [*comparison.contests, *comparison.controls]
    if not contests:
        return None
    paired = holm([contest.test.p for contest in contests])
    welch = holm([contest.welch_p for contest in contests])
    rows = [
        _contest(comparison.env, comparison.measure, *contest) for contest in zip(contests, paired, welch, strict=True)
    ]
    place = "a task" if comparison.measure is SUCCESS else "an episode"
    tests = sum(contest.test.p is not None for contest in contests)
    counts = sorted({len(contest.test.seeds) for contest in contests})
    notes = [what_seeds_show(count) for count in counts]
    if tests:
        notes.insert(
            0,
            "p: two-sided t-tests, paired by seed as in the paper's appendix, and Welch's, which pairs nothing; in "
            f"brackets corrected for the {tests} tests here (Holm). *: below 0.05 once corrected.",
        )
    notes.append(
        f"P(X > Y): how often a run of X beats one of Y in {place}, ties half; interval by the stratified bootstrap."
    )
    columns = (
        "pair",
        "set",
        "seeds",
        "difference [95 % t]",
        "p, paired",
        "p, Welch",
        "P(X > Y) [95 % bootstrap]",
        "paper's p",
    )
    return Table("Does SaNCE help? Differences paired by seed", columns, rows, notes)


def contrast_table(comparison: MethodComparison) -> Table | None:
    """Return what the contrastive losses reached, by group; None where no run had one."""
    reached = {group.label: [run.record.contrast for run in group.runs] for group in comparison.groups}
    with_contrast = {label: [record for record in runs if record] for label, runs in reached.items() if any(runs)}
    if not with_contrast:
        return None
    rows = [(label, *_contrast(runs)) for label, runs in with_contrast.items()]
    notes = ["bound: mean over the run, lowest to highest seed; a constant encoder has 0, none passes log K."]
    if not all(record.averaged for runs in with_contrast.values() for record in runs):
        notes.append("~: of single losses, as logs had them before they averaged over many.")
    if ended := sum(1 for runs in with_contrast.values() for record in runs if record.ended):
        notes.append(f"{ended} of the runs ended theirs, as it taught nothing; the means are of before that.")
    return Table("Contrast: what the loss reached, nats", ("group", "runs", "bound", "log K", "attempts"), rows, notes)


def _contrast(runs: Sequence[RealisedContrast]) -> tuple[str, ...]:
    bounds, log_k, shares = (
        [value for record in runs if (value := getattr(record, name)) is not None]
        for name in ("bound", "log_k", "share")
    )
    mark = "" if all(record.averaged for record in runs) else "~"
    bound = (
        mark + " to ".join(dict.fromkeys(f"{value:.2f}" for value in (min(bounds), max(bounds)))) if bounds else NONE
    )
    return (
        str(len(runs)),
        bound if bounds else "nothing to compare",
        number(sum(log_k) / len(log_k), 2) if log_k else NONE,
        f"{sum(shares) / len(shares):.0%}" if shares else NONE,
    )


def worth_table(comparison: MethodComparison) -> Table | None:
    """Return how far each group gets from SAC, which has no memory, to the oracle, which is told the task.

    None where runs of either are missing.
    """
    of_groups, measure = worths(comparison), comparison.measure
    if not of_groups:
        return None
    several = len({(worth.memoryless.label, worth.oracle.label) for worth in of_groups}) > 1
    rows = [_worth(worth, measure, several) for worth in of_groups]
    notes = [
        f"less SAC's: mean {measure.name} less that of SAC, which has no memory; Welch's t over seeds, not paired. The "
        "oracle is told the task: its row is the gap that there is to close.",
        "share: of that gap, what the group closes; interval by drawing seeds anew, too narrow with few of them.",
    ]
    for task_set in dict.fromkeys(worth.task_set for worth in of_groups if not worth.gap_counts):
        notes.append(
            f"{task_set}: the gap is not above 0 by its interval. These runs do not show that it helps to know the "
            "task, so a share of the gap means nothing."
        )
    if any(worth.gap.bounds is None for worth in of_groups):
        notes.append("One seed of SAC or of the oracle: nothing tells the gap from chance.")
    columns = ("group", "set", "less SAC's [95 % t]", "share of the gap [95 % bootstrap]")
    return Table("What is a context worth? From SAC to the oracle", columns, rows, notes)


def _worth(worth: Worth, measure: Measure, several: bool) -> tuple[str, ...]:
    between = f" (from {worth.memoryless.label} to {worth.oracle.label})" if several else ""
    return (
        worth.group.label + between + ("" if worth.equal_budget else " (UNEQUAL BUDGET)"),
        worth.task_set,
        f"{measure.show(worth.above.value, sign=True)} {_shown_bounds(measure, worth.above)}",
        NONE if worth.share is None else f"{number(worth.share.value, 2)} {bounds(worth.share, 2)}",
    )


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


def _p(p: float | None, corrected: float | None) -> str:
    if p is None or corrected is None:
        return NONE
    return f"{p:.3g} ({corrected:.2g})" + (" *" if corrected < 0.05 else "")


def _contest(
    env: str, measure: Measure, contest: Contest, paired: float | None, welch: float | None
) -> tuple[str, ...]:
    test, better = contest.test, contest.improvement
    theirs = paper.reported_p(env, contest.x.method.title, contest.y.method.title, contest.task_set)
    return (
        f"{contest.x.label} - {contest.y.label}" + ("" if contest.equal_budget else " (UNEQUAL BUDGET)"),
        contest.task_set,
        str(len(test.seeds)),
        NONE
        if not test.seeds
        else f"{measure.show(test.difference.value, sign=True)} {_shown_bounds(measure, test.difference)}",
        _p(test.p, paired),
        _p(contest.welch_p, welch),
        f"{number(better.value, 2)} {bounds(better, 2)}",
        NONE if theirs is None else f"{theirs:.3g}",
    )


def as_data(comparison: MethodComparison) -> dict[str, Any]:
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
                "contrast": [run.record.contrast and run.record.contrast._asdict() for run in group.runs],
            }
            for group in comparison.groups
        ],
        "worth": [worth.to_dict() for worth in worths(comparison)],
        "results": [_result(comparison.env, standing) for standing in comparison.standings],
        "contests": [
            _verdict(comparison.env, contest, about)
            for about, contests in (
                ("paper", comparison.contests),
                ("placebo", comparison.controls),
                (None, comparison.other_contests),
            )
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


def _verdict(env: str, contest: Contest, about: str | None) -> dict[str, Any]:
    test = contest.test
    return {
        "x": contest.x.label,
        "y": contest.y.label,
        "task_set": contest.task_set,
        "claimed_by_the_paper": about == "paper",
        "against_a_placebo": about == "placebo",
        "equal_budget": contest.equal_budget,
        "improvement": contest.improvement._asdict(),
        "welch_p": contest.welch_p,
        "paired_t_test": {
            "seeds": test.seeds,
            "difference": test.difference._asdict() if test.seeds else None,
            "p": test.p,
            "paper": paper.reported_p(env, contest.x.method.title, contest.y.method.title, contest.task_set),
        },
    }
