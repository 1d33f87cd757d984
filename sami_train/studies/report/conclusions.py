"""The conclusion of each section of a report, in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sami_runtime.model.atlas import label
from sami_train.envs.measure import SUCCESS
from sami_train.studies import conjunction
from sami_train.studies.charts.scores import title_of
from sami_train.studies.report.parts import Parts

SOLVED = 0.9
"""Smallest success at which a task counts as solved."""
MOST = 4
"""Most subjects in one sentence."""


def conclusion(key: str, parts: Sequence[Parts]) -> str:
    """Return the conclusion of the section `key`, one of `PHRASES`; an empty text if nothing was measured."""
    phrases = {part.subject.name: phrase for part in parts[:MOST] if (phrase := PHRASES[key](part))}
    if len(parts) > 1:
        phrases = {name: f"{name}: {phrase}" for name, phrase in phrases.items()}
    text = "; ".join(phrases.values())
    return f"{text[0].upper() if len(parts) == 1 else text[0]}{text[1:]}." if text else ""


def _scores(part: Parts) -> str:
    evaluation = part.subject.evaluation
    if evaluation is None:
        return ""
    scores = [f"{evaluation.measure.show(evaluation.score(name), True)} in {name}" for name in evaluation.sets]
    return f"{evaluation.measure.name} is {conjunction(scores)} tasks"


def _tasks(part: Parts) -> str:
    evaluation = part.subject.evaluation
    if evaluation is None:
        return ""
    measure = evaluation.measure
    values = {label(result.task): result.success if measure is SUCCESS else result.ret for result in evaluation.results}
    measured = {task: value for task, value in values.items() if value is not None}
    if not measured:
        return ""
    worst, best = min(measured, key=measured.__getitem__), max(measured, key=measured.__getitem__)
    if measure is not SUCCESS:
        return f"the return is highest at {best} ({measured[best]:,.0f}) and lowest at {worst} ({measured[worst]:,.0f})"
    solved = sum(value >= SOLVED for value in measured.values())
    return f"{solved} of {len(measured)} tasks succeed in {SOLVED:.0%} of episodes or more; the hardest is {worst}"


def _skills(part: Parts) -> str:
    episodes: dict[str, Counter[str]] = {}
    for episode in part.episodes:
        if episode.skill:
            episodes.setdefault(label(episode.task), Counter())[episode.skill] += 1
    usual = Counter(counts.most_common(1)[0][0] for counts in episodes.values())
    parts = [f"{title_of(skill)} in {count}" for skill, count in usual.most_common()]
    return f"of {len(episodes)} tasks, the most frequent skill is {conjunction(parts)}" if parts else ""


def _films(part: Parts) -> str:
    if not part.films:
        return ""
    if part.films[0]["success"] is None:
        returns = [film["ret"] for film in part.films]
        return f"the filmed episodes return {min(returns):,.0f} to {max(returns):,.0f}"
    return f"{sum(film['success'] for film in part.films)} of {len(part.films)} filmed episodes reach the goal"


def _learning(part: Parts) -> str:
    run, measure = part.subject.run, part.subject.spec.measure
    values = [] if run is None else [row for row in run.metrics if row.get(measure.exploring) is not None]
    if not values:
        return ""
    last = values[-1]
    return f"{measure.name} while exploring is {measure.show(last[measure.exploring], True)} at step {last['step']:,}"


def _context(part: Parts) -> str:
    yes = [row.label for row in part.separabilities if row.knn > row.knn_chance_high]
    no = [row.label for row in part.separabilities if row.label not in yes]
    labels_by_verb = {"identifies": yes, "does not identify": no}
    phrases = [f"{verb} {conjunction(labels)}" for verb, labels in labels_by_verb.items() if labels]
    return f"the context {', and '.join(phrases)}" if phrases else ""


def _time(part: Parts) -> str:
    rows = [] if part.change is None else [row for row in part.change["rows"] if row["step"] >= 0]
    if part.change is None or not rows:
        return ""
    old, new = (
        {row["step"]: row["median"] for row in rows if row["to"] == f"{dynamics} dynamics"}
        for dynamics in ("old", "new")
    )
    nearer = [step for step in old if step in new and new[step] < old[step]]
    if not nearer:
        return f"after {part.change['change']}, the context stays nearer to that of the old dynamics"
    return f"{nearer[0]} steps after {part.change['change']}, the context is nearer to that of the new dynamics"


def _robustness(part: Parts) -> str:
    if len(part.robustness) < 2:
        return ""
    clean, *points = part.robustness
    task_set, measure = clean.evaluation.sets[0], clean.evaluation.measure
    severe = {point.kind: point for point in points}.values()  # the last of a kind is its most severe
    worst = min(severe, key=lambda point: point.score(task_set)[0])
    before, after = (measure.show(point.score(task_set)[0], True) for point in (clean, worst))
    effect = f"{worst.kind} of {worst.severity:g} {worst.unit}"
    return f"of all measured, {effect} costs most: {measure.name} in {task_set} tasks falls from {before} to {after}"


def _cost(part: Parts) -> str:
    if part.cost is None:
        return ""
    line = part.cost["lines"][-1]
    share = line["p50"] * 1e-6 * part.subject.spec.rate_hz
    return f"a step takes {line['p50']:.0f} µs at the median, {share:.2%} of the control period"


PHRASES = {
    "scores": _scores,
    "tasks": _tasks,
    "skills": _skills,
    "films": _films,
    "learning": _learning,
    "context": _context,
    "time": _time,
    "robustness": _robustness,
    "cost": _cost,
}
"""Functions that phrase the conclusion for one subject, by the key of the section."""
