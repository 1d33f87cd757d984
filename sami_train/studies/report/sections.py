"""The sections of a report: what stands in them, and in which words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sami_train.evaluation.paper import reported
from sami_train.evaluation.results import Evaluation
from sami_train.studies.charts import contexts as context_charts
from sami_train.studies.charts.chart import Chart
from sami_train.studies.charts.learning import learning
from sami_train.studies.charts.outcomes import by_task, intervals, skills, title_of
from sami_train.studies.charts.robustness import robustness
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.tables import Table, tables
from sami_train.studies.report.parts import Parts
from sami_train.studies.report.tables import Scored, cost_table, score_table, separability_table, shown_interval


@dataclass
class SectionBlock:
    """What a section tells of one subject, or of all."""

    title: str = ""
    """Empty where the section tells of one thing alone."""
    folder: str = ""
    """Where the files of its figures and films lie, beside the page; empty is there itself."""
    figures: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    films: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.figures or self.tables or self.films or self.notes)


@dataclass
class Section:
    """A part of the page."""

    key: str
    """Its anchor."""
    short: str
    """Its name above the page."""
    title: str
    lead: str
    blocks: list[SectionBlock]
    """Empty ones are not shown."""


@dataclass(frozen=True)
class Tile:
    """A number at the top of the page."""

    label: str
    value: str
    note: str = ""


def sections(parts: Sequence[Parts], comparison: MethodComparison | None) -> list[Section]:
    """Return all sections, in the order of reading.

    Args:
        parts: what was measured of each subject, of one environment.
        comparison: of the runs among them, where there are several that were evaluated alike.
    """
    page = [
        _scores(parts, comparison),
        _outcomes(parts),
        _skills(parts),
        _films(parts),
        _learning(parts),
        _maps(parts),
        _over_time(parts),
        _robustness(parts),
        _cost(parts),
    ]
    for section in page:
        section.blocks = [block for block in section.blocks if block]
    return [section for section in page if section.blocks]


def tiles(parts: Parts) -> list[Tile]:
    """Return what a reader wants first of a subject."""
    subject, numbers = parts.subject, []
    evaluation = subject.evaluation
    if evaluation is not None:
        show = evaluation.measure.show
        for name in evaluation.sets:
            theirs = reported(evaluation.env, subject.method, name)
            note = f"95 %: {shown_interval(evaluation, name)}" + (f" · paper {show(theirs.mean)}" if theirs else "")
            numbers.append(Tile(f"{evaluation.measure.name}, {name}", show(evaluation.score(name)), note))
    best = max(parts.separabilities, key=lambda one: one.knn - one.knn_chance_high, default=None)
    if best is not None and best.knn > best.knn_chance_high:
        note = f"{best.knn:.2f} of neighbours agree, chance {best.knn_chance_high:.2f}"
        numbers.append(Tile("context tells most of", best.label, note))
    if parts.cost is not None:
        first = parts.cost["lines"][-1]
        numbers.append(Tile("a step", f"{first['p50']:.0f} µs", f"p99 {first['p99']:.0f} µs, {first['pace']}"))
    return numbers


def _several(parts: Sequence[Parts]) -> bool:
    return len(parts) > 1


def _title(parts: Sequence[Parts], one: Parts) -> str:
    return one.subject.name if _several(parts) else ""


def _scores(parts: Sequence[Parts], comparison: MethodComparison | None) -> Section:
    evaluated = [one for one in parts if one.subject.evaluation is not None]
    block = SectionBlock()
    if evaluated:
        block.tables.append(score_table([_scored(one) for one in evaluated]))
        if len(evaluated) > 1:
            block.figures.append(intervals({one.subject.name: _of(one) for one in evaluated}))
    for one in parts:
        if one.subject.evaluation is None:
            command = "--model MODEL" if one.subject.model else f"--run {one.subject.name}"
            block.notes.append(f"{one.subject.name} was not evaluated: sami eval {command}.")
    blocks = [block]
    if comparison is not None:
        cautions = [f"{caution}" for caution in comparison.cautions()]
        blocks.append(SectionBlock("Compared over seeds", tables=tables(comparison), notes=cautions))
    lead = "Training tasks, the moderate ones between and the extreme ones beyond them, which no training saw."
    return Section("scores", "Scores", "How good it is", lead, blocks)


def _scored(one: Parts) -> Scored:
    subject = one.subject
    return Scored(subject.name, subject.method, subject.seed, subject.steps, _of(one))


def _of(one: Parts) -> Evaluation:
    assert one.subject.evaluation is not None
    return one.subject.evaluation


def _outcomes(parts: Sequence[Parts]) -> Section:
    evaluations = {one.subject.name: one.subject.evaluation for one in parts if one.subject.evaluation is not None}
    block = SectionBlock(figures=[by_task(parts[0].subject.spec, evaluations)] if evaluations else [])
    return Section("tasks", "Tasks", "By task", "Where it works, and where it stops to.", [block])


def _skills(parts: Sequence[Parts]) -> Section:
    blocks = []
    for one in parts:
        if not one.subject.spec.skills:
            continue
        block = SectionBlock(_title(parts, one), one.subject.name)
        if one.played:
            block.figures.append(skills(one.subject.spec, one.played))
            count = len(one.played) // max(1, len({str(dict(episode.task)) for episode in one.played}))
            block.notes.append(f"{count} episodes in each task, played for this report.")
        else:
            block.notes.append(f"No skills: {one.missing.get('episodes', 'no episode was played')}.")
        blocks.append(block)
    lead = "One policy, several ways to solve a task: which one it takes, by what is hidden from it."
    return Section("skills", "Skills", "Skills", lead, blocks)


def _films(parts: Sequence[Parts]) -> Section:
    blocks = []
    for one in parts:
        notes = [f"No films: {one.missing['films']}."] if "films" in one.missing else []
        blocks.append(
            SectionBlock(
                _title(parts, one), one.subject.name, films=[_told_film(film) for film in one.films], notes=notes
            )
        )
    lead = (
        "An episode each, of median length among those that ended as most did in that task. The policy is not told "
        "the task; blue bars are its context."
    )
    return Section("films", "Films", "Films", lead, blocks)


def _told_film(film: Mapping[str, Any]) -> dict[str, Any]:
    if film["success"] is None:
        outcome = f"return {film['ret']:,.0f} in {film['steps']} steps"
    else:
        outcome = f"{'reached' if film['success'] else 'did not reach'} the goal in {film['steps']} steps"
    skill = f", {title_of(film['skill'])}" if film["skill"] else ""
    return {**film, "outcome": f"{outcome}{skill}"}


def _learning(parts: Sequence[Parts]) -> Section:
    records = [one.subject.run for one in parts if one.subject.run is not None]
    drawn = [record for record in records if record.metrics]
    block = SectionBlock()
    if drawn:
        block.figures.append(learning(drawn, parts[0].subject.spec.measure))
        bounds: list[tuple[str, ...]] = [
            (record.name, str(record.contrast)) for record in drawn if record.contrast is not None
        ]
        if len(bounds) > 1:
            block.tables.append(Table("The contrast, mean over the whole run", ("run", "realised bound"), bounds))
        elif bounds:
            block.notes.append(f"Mean over the whole run: {bounds[0][1]}.")
    models = [one.subject.name for one in parts if one.subject.run is None]
    if models:
        block.notes.append(
            f"A model file holds no learning curve ({', '.join(models)}). Give its run as well: sami report "
            f"{models[0]} RUN."
        )
    return Section(
        "learning", "Learning", "How it learnt", "While exploring, so below what the trained policy does.", [block]
    )


def _maps(parts: Sequence[Parts]) -> Section:
    blocks = []
    for one in parts:
        block = SectionBlock(_title(parts, one), one.subject.name)
        if one.planes:
            labels = context_charts.labels_of(one.subject.spec, one.mapped)
            block.figures.append(context_charts.maps(one.subject.spec, one.mapped, one.planes, labels))
            block.tables.append(separability_table(one.separabilities))
            block.figures.append(context_charts.by_step(one.mapped, labels, one.separabilities))
        elif "maps" in one.missing:
            block.notes.append(f"No maps: {one.missing['maps']}.")
        blocks.append(block)
    lead = (
        "The context of an episode's last step, by what was hidden from the policy and by what came of it. Whether "
        "it tells a thing is a number, not a picture: the table has both, and what chance gives."
    )
    return Section("context", "Context", "What the context tells", lead, blocks)


def _over_time(parts: Sequence[Parts]) -> Section:
    blocks = []
    for one in parts:
        block = SectionBlock(_title(parts, one), one.subject.name)
        if one.played and one.played[0].contexts.shape[1]:
            figure = context_charts.over_time(one.subject.spec, one.played)
            block.figures += [figure] if figure is not None and figure.rows else []
        if one.change is not None and one.change["rows"]:
            block.figures.append(context_charts.at_change(one.change))
        elif "change" in one.missing:
            block.notes.append(f"No change of the dynamics: {one.missing['change']}.")
        blocks.append(block)
    lead = "Within an episode: how the context forms, and what it does when the world changes under it."
    return Section("time", "Over time", "Context over time", lead, blocks)


def _robustness(parts: Sequence[Parts]) -> Section:
    blocks = []
    for one in parts:
        block = SectionBlock(_title(parts, one), one.subject.name)
        if one.robustness:
            block.figures.append(robustness(one.robustness))
        elif one.subject.model is not None:
            block.notes.append(
                f"No measurement of these weights was given: sami robustness --model {one.subject.name} --out DIR, and "
                "then sami report ... --results DIR."
            )
        blocks.append(block)
    lead = "Latency, noise, loss: what lies between a simulator and a robot, one kind at a time."
    return Section("robustness", "Robustness", "Robustness", lead, blocks)


def _cost(parts: Sequence[Parts]) -> Section:
    costs = {one.subject.name: one.cost for one in parts if one.cost is not None}
    block = SectionBlock()
    if costs:
        block.tables.append(cost_table(costs))
        block.notes.append("More, and beside torch: sami bench MODEL.")
    return Section("cost", "Cost", "The cost of a step", "One observation in, one action out, for one robot.", [block])
