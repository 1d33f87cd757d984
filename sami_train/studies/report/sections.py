"""The sections of a report: their figures, tables, films and texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sami_runtime.model.atlas import label
from sami_train.envs.measure import SUCCESS
from sami_train.evaluation.intervals import interval_of
from sami_train.evaluation.paper import SOURCE, reported
from sami_train.evaluation.results import Evaluation
from sami_train.studies.charts import contexts as context_charts
from sami_train.studies.charts.chart import Chart
from sami_train.studies.charts.scores import by_task, intervals, learning, robustness, skills, title_of
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.tables import Table, tables
from sami_train.studies.report.conclusions import conclusion
from sami_train.studies.report.mapped import NEIGHBOURS, Separability
from sami_train.studies.report.parts import Parts


@dataclass
class SectionBlock:
    """The content of a section for one subject, or for all; a report omits empty blocks."""

    title: str = ""
    """Empty if the section has a single block."""
    folder: str = ""
    """Folder, relative to the page, of the files of its figures and films; empty for the page's own folder."""
    figures: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    films: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.figures or self.tables or self.films or self.notes)


@dataclass
class Section:
    """A section of the page."""

    key: str
    """The section's anchor in the page."""
    short: str
    """The section's name in the page's navigation."""
    title: str
    lead: str
    blocks: list[SectionBlock]
    conclusion: str = ""
    """One sentence; empty if nothing was measured."""


@dataclass(frozen=True)
class Tile:
    """A number at the top of the page."""

    label: str
    value: str
    note: str = ""


SKILLS = "One policy, several ways to solve a task: which one it takes, by what is hidden from it."
FILMS = (
    "An episode each, of median length among those that ended as most did in that task. The policy does not observe "
    "the task; blue bars are its context."
)
MAPS = (
    "The context of an episode's last step, by what was hidden from the policy and by what came of it. Whether "
    "it identifies a label is a number, not a picture: the table has both, and what chance gives."
)
OVER_TIME = "Within an episode: how the context forms, and what it does when the world changes under it."
ROBUSTNESS = "Latency, noise, loss: differences between a simulator and a robot, one kind at a time."
"""The lead of each section that has a block for each subject."""


def sections(parts: Sequence[Parts], comparison: MethodComparison | None) -> list[Section]:
    """Return all sections that have content, in the order of the page.

    All subjects are of one environment; `comparison` is of the runs among them, None if fewer than two can be compared.
    """
    page = [
        _scores(parts, comparison),
        _outcomes(parts),
        _by_subject(parts, _skills, "skills", "Skills", "Skills", SKILLS),
        _by_subject(parts, _films, "films", "Films", "Films", FILMS),
        _learning(parts),
        _by_subject(parts, _maps, "context", "Context", "What the context identifies", MAPS),
        _by_subject(parts, _over_time, "time", "Over time", "Context over time", OVER_TIME),
        _by_subject(parts, _robustness, "robustness", "Robustness", "Robustness", ROBUSTNESS),
        _cost(parts),
    ]
    for section in page:
        section.blocks = [block for block in section.blocks if block]
        section.conclusion = conclusion(section.key, parts)
    return [section for section in page if section.blocks]


def tiles(parts: Parts) -> list[Tile]:
    """Return the most important numbers of a subject."""
    subject, numbers = parts.subject, []
    evaluation = subject.evaluation
    if evaluation is not None:
        show = evaluation.measure.show
        for name in evaluation.sets:
            paper = reported(evaluation.env, subject.method, name)
            note = f"95 %: {_shown_interval(evaluation, name)}" + (f" · paper {show(paper.mean)}" if paper else "")
            numbers.append(Tile(f"{evaluation.measure.name}, {name}", show(evaluation.score(name)), note))
    best = max(parts.separabilities, key=lambda row: row.knn - row.knn_chance_high, default=None)
    if best is not None and best.knn > best.knn_chance_high:
        note = f"{best.knn:.2f} of neighbours agree, chance {best.knn_chance_high:.2f}"
        numbers.append(Tile("the context identifies", best.label, note))
    if parts.cost is not None:
        first = parts.cost["lines"][-1]
        numbers.append(Tile("a step", f"{first['p50']:.0f} µs", f"p99 {first['p99']:.0f} µs, {first['pace']}"))
    return numbers


def _evaluations(parts: Sequence[Parts]) -> dict[str, Evaluation]:
    """Return the evaluations by the subject's name, without the subjects that have none."""
    return {part.subject.name: part.subject.evaluation for part in parts if part.subject.evaluation is not None}


def _by_subject(
    parts: Sequence[Parts], fill: Callable[[Parts, SectionBlock], None], key: str, short: str, title: str, lead: str
) -> Section:
    """Return a section with a block for each subject, to be filled; blocks have a title if there are several."""
    blocks = []
    for part in parts:
        blocks.append(SectionBlock(part.subject.name if len(parts) > 1 else "", part.subject.name))
        fill(part, blocks[-1])
    return Section(key, short, title, lead, blocks)


def _scores(parts: Sequence[Parts], comparison: MethodComparison | None) -> Section:
    evaluations, block = _evaluations(parts), SectionBlock()
    if evaluations:
        block.tables.append(_score_table(parts))
        if len(evaluations) > 1:
            block.figures.append(intervals(evaluations))
    for part in parts:
        if part.subject.evaluation is None:
            command = "--model MODEL" if part.subject.model else f"--run {part.subject.name}"
            block.notes.append(f"{part.subject.name} was not evaluated: sami eval {command}.")
    blocks = [block]
    if comparison is not None:
        blocks.append(SectionBlock("Compared over seeds", tables=tables(comparison), notes=comparison.cautions()))
    lead = "Training tasks, the moderate ones between and the extreme ones beyond them, which no training saw."
    return Section("scores", "Scores", "How good it is", lead, blocks)


def _shown_interval(evaluation: Evaluation, task_set: str) -> str:
    """Return a set's 95 % interval over starts as text."""
    interval = interval_of(evaluation, task_set)
    return " to ".join(evaluation.measure.show(value) for value in interval) if interval else "not known"


def _score_table(parts: Sequence[Parts]) -> Table:
    """Return a table with a row for each set and policy; the policies of a set are in adjacent rows."""
    evaluations = _evaluations(parts)
    first = next(iter(evaluations.values()))
    measure, is_success = first.measure, first.measure is SUCCESS
    rows: list[tuple[str, ...]] = []
    for task_set in first.sets:
        for subject in (part.subject for part in parts):
            evaluation = evaluations.get(subject.name)
            if evaluation is None or task_set not in evaluation.sets:
                continue
            paper = reported(evaluation.env, subject.method, task_set)
            row = [task_set, subject.name, measure.show(evaluation.score(task_set))]
            row += [_shown_interval(evaluation, task_set)]
            row += [measure.show(evaluation.nontrivial_success(task_set))] if is_success else []
            row += [measure.show(paper.mean) if paper else "-", subject.method]
            row += ["-" if subject.seed is None else str(subject.seed)]
            row += ["-" if subject.steps is None else f"{subject.steps:,}"]
            rows.append(tuple(row))
    beyond = ("excluding trivial starts",) if is_success else ()
    columns = ("tasks", "", measure.name, "95 %", *beyond, "paper", "method", "seed", "environment steps")
    notes = ["95 %: over the starts of this policy, by bootstrap; other seeds of its training differ by more."]
    if is_success:
        notes.append("Excluding trivial starts: among episodes that doing nothing would not have solved.")
    notes.append(f"Paper: {SOURCE}.")
    return Table(f"{measure.name.capitalize()} by set of tasks", columns, rows, notes)


def _outcomes(parts: Sequence[Parts]) -> Section:
    evaluations = _evaluations(parts)
    block = SectionBlock(figures=[by_task(parts[0].subject.spec, evaluations)] if evaluations else [])
    return Section("tasks", "Tasks", "By task", "Where it works, and where it stops to.", [block])


def _skills(part: Parts, block: SectionBlock) -> None:
    if not part.subject.spec.skills:
        return
    if part.episodes:
        block.figures.append(skills(part.subject.spec, part.episodes))
        count = len(part.episodes) // max(1, len({str(dict(episode.task)) for episode in part.episodes}))
        block.notes.append(f"{count} episodes in each task, played for this report.")
    else:
        block.notes.append(f"No skills: {part.missing.get('episodes', 'no episode was played')}.")


def _films(part: Parts, block: SectionBlock) -> None:
    sets = {label(task): name for name, tasks in part.subject.spec.tasks.sets.items() for task in tasks}
    for film in part.films:
        task_set = sets.get(film["title"], "")
        block.films.append({**film, "outcome": f"{task_set} task; {_outcome(film)}".removeprefix(" task; ")})
    if "films" in part.missing:
        block.notes.append(f"No films: {part.missing['films']}.")


def _outcome(film: Mapping[str, Any]) -> str:
    if film["success"] is None:
        outcome = f"return {film['ret']:,.0f} in {film['steps']} steps"
    else:
        outcome = f"{'reached' if film['success'] else 'did not reach'} the goal in {film['steps']} steps"
    return outcome + (f", {title_of(film['skill'])}" if film["skill"] else "")


def _learning(parts: Sequence[Parts]) -> Section:
    runs = [part.subject.run for part in parts if part.subject.run is not None and part.subject.run.metrics]
    block = SectionBlock()
    if runs:
        block.figures.append(learning(runs, parts[0].subject.spec.measure))
        bounds: list[tuple[str, ...]] = [(run.name, str(run.contrast)) for run in runs if run.contrast is not None]
        if len(bounds) > 1:
            block.tables.append(Table("The contrast, mean over the whole run", ("run", "realised bound"), bounds))
        elif bounds:
            block.notes.append(f"Mean over the whole run: {bounds[0][1]}.")
    models = [part.subject.name for part in parts if part.subject.run is None]
    if models:
        block.notes.append(
            f"A model file holds no learning curve ({', '.join(models)}). Give its run as well: sami report "
            f"{models[0]} RUN."
        )
    lead = "While exploring, so below what the trained policy does."
    return Section("learning", "Learning", "How it learnt", lead, [block])


def _maps(part: Parts, block: SectionBlock) -> None:
    if part.planes:
        labels = context_charts.labels_of(part.subject.spec, part.mapped)
        block.figures.append(context_charts.maps(part.subject.spec, part.mapped, part.planes, labels))
        block.tables.append(_separability_table(part.separabilities))
        block.figures.append(context_charts.by_step(part.mapped, labels, part.separabilities))
    elif "maps" in part.missing:
        block.notes.append(f"No maps: {part.missing['maps']}.")


def _separability_table(measured: Sequence[Separability]) -> Table:
    """Return a table of how well contexts identify each label, beside chance."""
    rows: list[tuple[str, ...]] = [
        (
            row.label,
            "yes" if row.knn > row.knn_chance_high else "no",
            f"{row.knn:.2f}",
            f"{row.knn_chance:.2f}, {row.knn_chance_high:.2f}",
            f"{row.p:.3f}",
            f"{row.silhouette:+.2f}",
            f"{row.silhouette_chance_high:+.2f}",
            str(row.values),
            str(row.episodes),
        )
        for row in measured
    ]
    columns = (
        *("label", "identified", f"{NEIGHBOURS} neighbours", "by chance: mean, 95th", "p"),
        *("silhouette", "by chance: 95th", "values", "episodes"),
    )
    notes = [
        f"{NEIGHBOURS} neighbours: share of episodes whose nearest contexts, without their own, guess the label right. "
        "By chance: the same with permuted labels. Both are of the contexts themselves, not of the maps.",
        "Episodes that were over after one step, having begun at their goal, are left out.",
    ]
    return Table("Does the context identify it?", columns, rows, notes)


def _over_time(part: Parts, block: SectionBlock) -> None:
    if part.episodes and part.episodes[0].contexts.shape[1]:
        figure = context_charts.over_time(part.subject.spec, part.episodes)
        block.figures += [figure] if figure is not None and figure.rows else []
    if part.change is not None and part.change["rows"]:
        block.figures.append(context_charts.at_change(part.change))
    elif "change" in part.missing:
        block.notes.append(f"No change of the dynamics: {part.missing['change']}.")


def _robustness(part: Parts, block: SectionBlock) -> None:
    if part.robustness:
        block.figures.append(robustness(part.robustness))
    elif part.subject.model is not None:
        block.notes.append(
            f"No measurement of these weights was given: sami robustness {part.subject.name} --out DIR, and "
            "then sami report ... --results DIR."
        )


def _cost(parts: Sequence[Parts]) -> Section:
    costs = {part.subject.name: part.cost for part in parts if part.cost is not None}
    block = SectionBlock()
    if costs:
        rows: list[tuple[str, ...]] = []
        for name, cost in costs.items():
            for line in cost["lines"]:
                numbers = (line[key] for key in ("p50", "p99", "p99_9", "worst"))
                texts = ("-" if number is None else f"{number:.0f}" for number in numbers)
                rows.append((name, line["pace"], line["name"], str(line["steps"]), *texts))
        columns = ("", "pace", "what", "steps", "p50 [µs]", "p99 [µs]", "p99.9 [µs]", "worst [µs]")
        machines = [f"On {machine}." for machine in dict.fromkeys(cost["machine"] for cost in costs.values())]
        block.tables.append(Table("A step on this machine", columns, rows, machines))
        block.notes.append("More, and beside torch: sami bench MODEL.")
    return Section("cost", "Cost", "The cost of a step", "One observation in, one action out, for one robot.", [block])
