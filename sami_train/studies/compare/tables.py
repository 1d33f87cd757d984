"""A comparison as tables of text, as plain data, and as a folder: report.md, results.csv and plots."""

from __future__ import annotations

import csv
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sami_train.envs.measure import SUCCESS, Measure, finite
from sami_train.evaluation import paper
from sami_train.files import make_folder, unfinished
from sami_train.runs.record import RealisedContrast
from sami_train.studies.compare.comparison import Contest, MethodComparison, Standing, span, worths
from sami_train.studies.compare.estimates import Interval, holm, least_difference, least_sign_flip_p
from sami_train.studies.compare.groups import ComparisonError
from sami_train.studies.compare.plots import PLOTS, Plot, draw

BLANK = "-"
Cells = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows of text under headings, with notes below."""

    title: str
    columns: Cells
    rows: list[Cells]
    notes: list[str] = field(default_factory=list)


def tables(comparison: MethodComparison) -> list[Table]:
    """Return the tables in report order: scores by task set, gain from a context, tests of SaNCE, contrast's bounds."""
    standings = [standings_table(comparison, task_set) for task_set in comparison.task_sets]
    unit = "task" if comparison.measure is SUCCESS else "episode"
    notes = standings[-1].notes
    notes += [
        "mean ± std: over seeds. [95 % t]: Student's t over the seeds' means, the one to use with few seeds.",
        f"IQM: interquartile mean over (seed, {unit}). [95 % bootstrap]: stratified by {unit}; it takes the {unit}s of "
        "one run as independent and is too narrow with few seeds.",
    ]
    notes.append(f"starts: of the {comparison.runs[0].evaluation.seed_name}.")
    if comparison.measure is SUCCESS:
        notes.append("excluding trivial starts: mean success among episodes that doing nothing would not have solved.")
    if "paper" in standings[-1].columns:
        spread = paper.SPREAD.get(comparison.env, "its ± is the deviation across seeds")
        notes.append(f"paper: {paper.SOURCE}; {spread}.")
    more = (worth_table(comparison), contests_table(comparison), contrast_table(comparison))
    return [*standings, *(table for table in more if table)]


def standings_table(comparison: MethodComparison, task_set: str) -> Table:
    """Return the scores of each group on one task set beside the paper's, with the steps if budgets are unequal."""
    standings = [s for s in comparison.standings if s.task_set == task_set]
    measure, equal = comparison.measure, comparison.equal_budget
    rows = []
    for standing in standings:
        group, score = standing.group, standing.score
        published = paper.reported(comparison.env, group.method.title, task_set)
        row = [group.label, str(len(group.runs))]
        row += [] if equal else [span([run.steps for run in group.runs])]
        row += [measure.show(score.mean.value) + (f" ± {measure.show(score.std)}" if score.std is not None else "")]
        row += [_shown_bounds(measure, score.mean)]
        row += [measure.show(score.iqm.value) + (f" {_shown_bounds(measure, score.iqm)}" if score.iqm.bounds else "")]
        row += [number(standing.nontrivial_success)] if measure is SUCCESS else []
        row += [BLANK if published is None else " ± ".join(measure.show(part, coarse=True) for part in published)]
        rows.append(tuple(row))
    tasks = len(comparison.runs[0].evaluation.of(task_set))
    episodes = " or ".join(map(str, comparison.episodes)) + " episodes"
    sample = f"{tasks} tasks, {episodes} per task" if measure.per == "task" else f"{episodes} in {tasks} tasks"
    title = f"{task_set}: {measure.name}, {sample}" + ("" if equal else " (UNEQUAL BUDGETS)")
    columns = ["group", "seeds", *([] if equal else ["steps"]), "mean ± std", "mean [95 % t]", "IQM [95 % bootstrap]"]
    columns += ["excluding trivial starts", "paper"] if measure is SUCCESS else ["paper"]
    return Table(title, *_without_blank_end(tuple(columns), rows))


def contests_table(comparison: MethodComparison) -> Table | None:
    """Return tests of each method with SaNCE against itself without it, or with shuffled labels; None if no pair."""
    contests, measure = [*comparison.contests, *comparison.controls], comparison.measure
    if not contests:
        return None
    paired = holm([contest.test.p for contest in contests])
    welch = holm([contest.welch_p for contest in contests])
    rows = []
    for contest, paired_p, welch_p in zip(contests, paired, welch, strict=True):
        test, better = contest.test, contest.improvement
        difference = f"{measure.show(test.difference.value, sign=True)} {_shown_bounds(measure, test.difference)}"
        published = _paper_p(comparison.env, contest)
        row = [f"{contest.x.label} - {contest.y.label}" + ("" if contest.equal_budget else " (UNEQUAL BUDGET)")]
        row += [contest.task_set, str(len(test.seeds)), difference if test.seeds else BLANK]
        row += [_p(test.p, paired_p), _p(contest.welch_p, welch_p)]
        row += [f"{number(better.value, 2)} {bounds(better, 2)}", BLANK if published is None else f"{published:.3g}"]
        rows.append(tuple(row))
    place = "a task" if measure is SUCCESS else "an episode"
    tests = sum(contest.test.p is not None for contest in contests)
    notes = []
    if tests:
        notes.append(
            "p: two-sided t-tests, paired by seed as in the paper's appendix, and Welch's, which pairs nothing; in "
            f"brackets corrected for the {tests} tests here (Holm). *: below 0.05 once corrected."
        )
    notes += [what_seeds_show(count) for count in sorted({len(contest.test.seeds) for contest in contests})]
    notes.append(
        f"P(X > Y): how often a run of X beats one of Y in {place}, ties half; interval by the stratified bootstrap."
    )
    columns = (
        *("pair", "set", "seeds", "difference [95 % t]", "p, paired", "p, Welch"),
        *("P(X > Y) [95 % bootstrap]", "paper's p"),
    )
    return Table("Does SaNCE help? Differences paired by seed", *_without_blank_end(columns, rows), notes)


def contrast_table(comparison: MethodComparison) -> Table | None:
    """Return the bounds that the contrastive losses reached, by group; None if no run recorded a contrastive loss."""
    reached = {group.label: [run.record.contrast for run in group.runs] for group in comparison.groups}
    with_contrast = {label: [record for record in runs if record] for label, runs in reached.items() if any(runs)}
    if not with_contrast:
        return None
    rows = [(label, *_contrast(runs)) for label, runs in with_contrast.items()]
    notes = ["bound: mean over the run, lowest to highest seed; a constant encoder has 0, none passes log K."]
    if not all(record.averaged for runs in with_contrast.values() for record in runs):
        notes.append("~: of single losses, as logs had them before they averaged over many.")
    if count := sum(1 for runs in with_contrast.values() for record in runs if record.ended):
        notes.append(f"{count} of the runs ended theirs, as it taught nothing; the means are of before that.")
    return Table("Contrast: what the loss reached, nats", ("group", "runs", "bound", "log K", "attempts"), rows, notes)


def _contrast(runs: Sequence[RealisedContrast]) -> tuple[str, ...]:
    bounds, log_k, shares = (
        [value for record in runs if (value := getattr(record, name)) is not None]
        for name in ("bound", "log_k", "share")
    )
    bound = "nothing to compare"
    if bounds:
        mark = "" if all(record.averaged for record in runs) else "~"
        bound = mark + " to ".join(dict.fromkeys(f"{value:.2f}" for value in (min(bounds), max(bounds))))
    return (
        str(len(runs)),
        bound,
        number(sum(log_k) / len(log_k), 2) if log_k else BLANK,
        f"{sum(shares) / len(shares):.0%}" if shares else BLANK,
    )


def worth_table(comparison: MethodComparison) -> Table | None:
    """Return the gain of each group over SAC, which has no memory, and its fraction of the oracle's gain (headroom).

    None if runs of SAC or of the oracle are missing.
    """
    of_groups, measure = worths(comparison), comparison.measure
    if not of_groups:
        return None
    several = len({(worth.memoryless.label, worth.oracle.label) for worth in of_groups}) > 1
    rows: list[tuple[str, ...]] = []
    for worth in of_groups:
        between = f" (from {worth.memoryless.label} to {worth.oracle.label})" if several else ""
        name = worth.group.label + between + ("" if worth.equal_budget else " (UNEQUAL BUDGET)")
        above = f"{measure.show(worth.above.value, sign=True)} {_shown_bounds(measure, worth.above)}"
        share = BLANK if worth.share is None else f"{number(worth.share.value, 2)} {bounds(worth.share, 2)}"
        rows.append((name, worth.task_set, above, share))
    notes = [
        f"less SAC's: mean {measure.name} less that of SAC, which has no memory; Welch's t over seeds, not paired. The "
        "oracle observes the task: its row is the headroom.",
        "fraction: of the headroom, what the group gains; interval by drawing seeds again, too narrow with few.",
    ]
    for task_set in dict.fromkeys(worth.task_set for worth in of_groups if not worth.gap_counts):
        notes.append(
            f"{task_set}: the headroom is not above 0 by its interval. These runs do not show that observing the "
            "task helps, so a fraction means nothing."
        )
    if any(worth.gap.bounds is None for worth in of_groups):
        notes.append("One seed of SAC or of the oracle: the headroom may be chance.")
    columns = ("group", "set", "less SAC's [95 % t]", "fraction of the headroom [95 %]")
    return Table("What is a context worth? From SAC to the oracle", columns, rows, notes)


def what_seeds_show(seeds: int) -> str:
    """Return a note on the differences that a paired test over this many seeds can detect."""
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
    """Return a number as text; a dash for None or NaN."""
    return BLANK if value is None or value != value else f"{value:.{digits}f}"


def bounds(interval: Interval, digits: int = 3) -> str:
    """Return an interval's bounds as text."""
    return f"[{number(interval.low, digits)}, {number(interval.high, digits)}]" if interval.bounds else "no interval"


def _shown_bounds(measure: Measure, interval: Interval) -> str:
    return f"[{measure.show(interval.low)}, {measure.show(interval.high)}]" if interval.bounds else "no interval"


def _p(p: float | None, corrected: float | None) -> str:
    if p is None or corrected is None:
        return BLANK
    return f"{p:.3g} ({corrected:.2g})" + (" *" if corrected < 0.05 else "")


def _without_blank_end(columns: Cells, rows: list[Cells]) -> tuple[Cells, list[Cells]]:
    """Return a table without its last column, the paper's, where the paper has nothing of all its rows."""
    return (columns[:-1], [row[:-1] for row in rows]) if {row[-1] for row in rows} <= {BLANK} else (columns, rows)


def _paper_p(env: str, contest: Contest) -> float | None:
    return paper.reported_p(env, contest.x.method.title, contest.y.method.title, contest.task_set)


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
            for about, contests in {
                "paper": comparison.contests,
                "ablation": comparison.controls,
                "": comparison.other_contests,
            }.items()
            for contest in contests
        ],
        "paper": {"source": paper.SOURCE, "spread": paper.SPREAD.get(comparison.env, "deviation across seeds")},
    }


def _result(env: str, standing: Standing) -> dict[str, Any]:
    published = paper.reported(env, standing.group.method.title, standing.task_set)
    return {
        "group": standing.group.label,
        "task_set": standing.task_set,
        "mean": standing.score.mean._asdict(),
        "std": standing.score.std,
        "mean_stratified": standing.score.mean_stratified._asdict(),
        "iqm": standing.score.iqm._asdict(),
        "above_floor": None if standing.nontrivial_success is None else finite(standing.nontrivial_success),
        "paper": published._asdict() if published else None,
    }


def _verdict(env: str, contest: Contest, about: str) -> dict[str, Any]:
    test = contest.test
    return {
        "x": contest.x.label,
        "y": contest.y.label,
        "task_set": contest.task_set,
        "claimed_by_the_paper": about == "paper",
        "against_a_placebo": about == "ablation",
        "equal_budget": contest.equal_budget,
        "improvement": contest.improvement._asdict(),
        "welch_p": contest.welch_p,
        "paired_t_test": {
            "seeds": test.seeds,
            "difference": test.difference._asdict() if test.seeds else None,
            "p": test.p,
            "paper": _paper_p(env, contest),
        },
    }


def check_out(out: Path, replace: bool) -> None:
    """Check that a report can be written to the folder `out`.

    Raises:
        ComparisonError: `out` is a file, or a folder that is not empty and `replace` is False.
        ModuleNotFoundError: matplotlib is not installed.
    """
    import matplotlib.figure  # noqa: F401 - raises before anything is computed

    if out.exists() and not out.is_dir():
        raise ComparisonError(f"{out} is a file; give --out a folder.")
    if out.is_dir() and any(out.iterdir()) and not replace:
        raise ComparisonError(f"{out} is not empty; choose another --out, or replace an earlier report with --force.")


def write_report(comparison: MethodComparison, out: Path, command: Sequence[str]) -> list[Path]:
    """Write the report's folder, see `check_out`: replace the files of an earlier report and leave other files.

    The report quotes `command`, the arguments of the command that made it. Return the files written.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        plots = draw(comparison, folder)
        _write_results(comparison, folder / "results.csv")
        (folder / "report.md").write_text(_markdown(comparison, plots, command), encoding="utf-8")
        make_folder(out)
        for plot in PLOTS:
            (out / plot.name).unlink(missing_ok=True)
        order = ["report.md", "results.csv", *(plot.name for plot in plots)]
        for file in order:
            with unfinished(out / file) as temporary:
                shutil.copy(folder / file, temporary)
        return [out / file for file in order]


def _write_results(comparison: MethodComparison, path: Path) -> None:
    left_out = ("task_set", "task", "returns", "successes")
    keys = sorted({key for group in comparison.groups for key in group.settings})
    rows = [
        {
            "run": run.address,
            "group": group.label,
            "method": group.method.name,
            "seed": run.seed,
            **{key: run.config[key] for key in keys},
            "environment_steps": run.steps,
            "gradient_steps": run.updates,
            "training_seconds": run.facts.get("seconds"),
            "commit": run.commit,
            "task_set": result.task_set,
            **result.task,
            **{name: value for name, value in result.row(comparison.measure).items() if name not in left_out},
        }
        for group in comparison.groups
        for run in group.runs
        for result in run.evaluation.results
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _markdown(comparison: MethodComparison, plots: Sequence[Plot], command: Sequence[str]) -> str:
    lines = [f"# Comparison on `{comparison.env}`", "", "```", shlex.join(command), "```", ""]
    lines += [f"* {caution}" for caution in comparison.cautions()] + [""]
    for table in tables(comparison):
        lines += _table(table)
    for plot in plots:
        caption = plot.caption_of(comparison.measure)
        lines += [f"![{caption}]({plot.name})", "", caption, ""]
    return "\n".join(lines + _table(_runs(comparison)))


def _table(table: Table) -> list[str]:
    lines = [f"## {table.title}", "", f"| {' | '.join(table.columns)} |", "|---" * len(table.columns) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in table.rows]
    return [*lines, "", *(f"* {note}" for note in table.notes), *([""] if table.notes else [])]


def _runs(comparison: MethodComparison) -> Table:
    rows, total = [], 0.0
    for group in comparison.groups:
        for run in group.runs:
            seconds = run.facts.get("seconds")
            total += seconds or 0.0
            row = [group.label, str(run.seed), f"{run.steps:,}", BLANK if run.updates is None else f"{run.updates:,}"]
            row += [number(None if seconds is None else seconds / 60, 1)]
            row += [str(run.facts.get("machine", {}).get("cpus", BLANK)), run.commit]
            row += [comparison.measure.show(float(run.scores(name).mean())) for name in comparison.task_sets]
            rows.append((*row, run.address))
    names = ("group", "seed", "environment steps", "updates", "minutes", "cores", "commit")
    columns = (*names, *comparison.task_sets, "run")
    return Table("Runs", columns, rows, [f"Training took {total / 3600:.1f} hours in all, one run after another."])
