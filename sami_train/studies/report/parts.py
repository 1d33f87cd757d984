"""What a report measures of each subject; every part is kept as soon as it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.errors import SamiError
from sami_train.envs.measure import SUCCESS
from sami_train.envs.tasks import Task, label
from sami_train.evaluation.robustness import RobustnessPoint
from sami_train.files import read_json
from sami_train.studies.charts.contexts import labels_of
from sami_train.studies.contexts.change import DynamicsChange
from sami_train.studies.report.changed import contexts_around, usual_change
from sami_train.studies.report.films import film, typical, usual_tasks
from sami_train.studies.report.kept import Kept
from sami_train.studies.report.mapped import Separability, plane, separability
from sami_train.studies.report.played import SEED, Played, play_episodes, schedule
from sami_train.studies.report.subject import Subject

PARTS = ("episodes", "maps", "change", "films", "cost")
"""What is measured anew; each may be left out."""
EPISODES_PER_TASK = 12
STEPS_PER_SET = 60_000
"""Where the return counts: about so many steps are played in each set, in at least this many episodes:"""
FEWEST_PER_SET = 20
CHANGED = 20
"""Starts of a change."""
LONG = 200
"""Steps of an episode above which a change has half as many."""

Tell = Callable[[str, int, int], None]
"""Told of a part's progress: its name, how many are done since it was told last, and how many there are."""
Cost = Callable[[Path], Mapping[str, Any]]
"""Measures what a step of a model file costs, as plain values."""


@dataclass(frozen=True)
class Wishes:
    """What a report shall hold."""

    episodes: int | None = None
    """In each task, or in each set where returns count; as many as two minutes allow if None."""
    change: str | None = None
    """As `sami adapt` reads it; see `usual_change`."""
    films: Sequence[Task] | None = None
    """See `usual_tasks`."""
    without: frozenset[str] = frozenset()
    """Of `PARTS`, those that are left out."""
    processes: int = 1
    results: tuple[Path, ...] = ()
    """Folders and files to look for measurements of the same weights in."""

    def episodes_of(self, subject: Subject) -> int:
        """Return how many episodes are played in each task or set."""
        if self.episodes is not None:
            return self.episodes
        if subject.spec.measure is SUCCESS:
            return EPISODES_PER_TASK
        return max(FEWEST_PER_SET, STEPS_PER_SET // subject.spec.episode_steps)


@dataclass
class Parts:
    """What was measured of a subject; empty where it was left out or could not be, for which `missing` has a reason."""

    subject: Subject
    played: list[Played] = field(default_factory=list)
    planes: dict[str, np.ndarray] = field(default_factory=dict)
    mapped: list[Played] = field(default_factory=list)
    """The episodes in these maps."""
    separabilities: list[Separability] = field(default_factory=list)
    change: Mapping[str, Any] | None = None
    films: list[dict[str, Any]] = field(default_factory=list)
    cost: Mapping[str, Any] | None = None
    robustness: list[RobustnessPoint] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Why a part is not there, by its name."""
    seconds: dict[str, float] = field(default_factory=dict)
    """What each part took."""


def measure_parts(subject: Subject, wishes: Wishes, folder: Path, cost: Cost | None, tell: Tell) -> Parts:
    """Measure a subject, or read what was kept of the same measurement.

    Args:
        subject: a model, or a run.
        wishes: what is measured.
        folder: where parts are kept, and films lie.
        cost: measures a step; None leaves it out.
        tell: told of the progress.

    Raises:
        SamiError: something that was asked for cannot be measured.
    """
    parts = Parts(subject, missing={name: f"left out by without={name}" for name in sorted(wishes.without)})
    parts.robustness = find_robustness(wishes.results, subject)
    store = Kept(folder / "parts")
    source = subject.source()
    if source is None:
        for name in PARTS:
            parts.missing.setdefault(name, f"{subject.name} keeps numbers alone; give a model file or a run folder")
        return parts
    key = {"weights": subject.weights, "env": subject.spec.name}
    if "episodes" not in wishes.without:
        with _timed(parts, "episodes"):
            _play(parts, source, wishes, store, key, tell)
    if "maps" not in parts.missing:
        with _timed(parts, "maps"):
            _map(parts, store, key, tell)
    if "change" not in parts.missing:
        with _timed(parts, "change"):
            _change(parts, wishes, store, key, tell)
    if "films" not in parts.missing:
        with _timed(parts, "films"):
            _film(parts, source, wishes, store, key, tell)
    if "cost" not in parts.missing:
        if cost is None or subject.model is None:
            parts.missing["cost"] = "only a model file is timed"
        else:
            with _timed(parts, "cost"):
                tell("timing a step", 0, 1)
                model = subject.model
                parts.cost = store.part("cost", key, lambda: dict(cost(model)))
                tell("timing a step", 1, 1)
    return parts


@contextmanager
def _timed(parts: Parts, name: str) -> Any:
    begun = time.perf_counter()
    yield
    parts.seconds[name] = round(time.perf_counter() - begun, 2)


def _play(parts: Parts, source: Any, wishes: Wishes, store: Kept, key: Mapping[str, Any], tell: Tell) -> None:
    subject, episodes = parts.subject, wishes.episodes_of(parts.subject)
    scheduled = schedule(subject.spec, episodes, SEED)
    what = "playing episodes"
    tell(what, 0, len(scheduled))

    def make() -> list[dict[str, Any]]:
        played = play_episodes(
            source,
            subject.spec,
            scheduled,
            processes=wishes.processes,
            on_round=lambda done: tell(what, done, len(scheduled)),
        )
        return [episode.to_dict() for episode in played]

    episodes_played = store.part("episodes", {**key, "episodes": episodes, "seed": SEED}, make)
    parts.played = [Played.from_dict(episode) for episode in episodes_played]


def _map(parts: Parts, store: Kept, key: Mapping[str, Any], tell: Tell) -> None:
    if not parts.played:
        parts.missing["maps"] = "no episode was played"
        return
    # One step tells nothing: such an episode began at its goal.
    parts.mapped = [episode for episode in parts.played if len(episode.contexts) > 1]
    final = np.stack([episode.contexts[-1] for episode in parts.mapped]) if parts.mapped else np.zeros((0, 0))
    if len(final) < 20 or final.shape[1] < 2:
        parts.missing["maps"] = f"{len(final)} contexts of {final.shape[-1]} numbers are no map; play 20 or more"
        return
    what = "mapping contexts"
    tell(what, 0, 1)

    def make() -> dict[str, Any]:
        labels = labels_of(parts.subject.spec, parts.mapped)
        measured = [one for name, values in labels.items() if (one := separability(name, final, values))]
        planes = {name: points.round(5).tolist() for name, points in plane(final).items()}
        return {"planes": planes, "told": [one.to_dict() for one in measured]}

    maps = store.part("maps", {**key, "episodes": len(final), "sum": round(float(final.sum()), 3)}, make)
    parts.planes = {name: np.array(points) for name, points in maps["planes"].items()}
    parts.separabilities = [Separability(**one) for one in maps["told"]]
    tell(what, 1, 1)


def _change(parts: Parts, wishes: Wishes, store: Kept, key: Mapping[str, Any], tell: Tell) -> None:
    spec, model, contract = parts.subject.spec, parts.subject.model, parts.subject.contract
    if model is None or contract is None:
        parts.missing["change"] = "a change is shown of a model file alone: sami export --run RUN"
        return
    if not contract.context or not contract.context.size:
        parts.missing["change"] = "the model infers no context"
        return
    try:
        spec.require_changes()
    except SamiError as error:
        if wishes.change is not None:
            raise
        parts.missing["change"] = str(error)
        return
    if wishes.change is None:
        change = usual_change(spec, parts.played)
    else:
        change = DynamicsChange.parse(wishes.change, spec.tasks, spec.episode_steps)
    starts = CHANGED // 2 if spec.episode_steps > LONG else CHANGED
    what = "changing the dynamics"
    tell(what, 0, starts)
    parts.change = store.part(
        "change",
        {**key, "change": str(change), "starts": starts},
        lambda: contexts_around(model, spec, change, starts, lambda done: tell(what, done, starts)),
    )


def _film(parts: Parts, source: Any, wishes: Wishes, store: Kept, key: Mapping[str, Any], tell: Tell) -> None:
    subject = parts.subject
    tasks = usual_tasks(subject.spec, subject.evaluation) if wishes.films is None else wishes.films
    what = "filming"
    tell(what, 0, len(tasks))
    folder = store.folder.parent
    for number, task in enumerate(tasks):
        path = folder / f"film-{number + 1}.webp"
        start = typical(parts.played, task)
        if not path.is_file():
            (store.folder / f"{path.stem}.json").unlink(missing_ok=True)  # filmed, and the film is gone

        def make(task: Task = task, path: Path = path, start: int = start) -> dict[str, Any]:
            return film(source, subject.spec, task, path, start)

        try:
            parts.films.append(store.part(path.stem, {**key, "task": dict(task), "start": start}, make))
        except SamiError as error:
            # No OpenGL, a world that renders nothing: a report without films is one, too.
            parts.missing["films"] = f"{label(task)}: {error}"
            return
        tell(what, 1, len(tasks))


def find_robustness(places: Sequence[Path], subject: Subject) -> list[RobustnessPoint]:
    """Return the measurement of `sami robustness` with the most points of these very weights; empty where none is.

    Args:
        places: folders, searched whole, and files.
        subject: whose weights.

    Raises:
        SamiError: a place is not there.
    """
    most: list[RobustnessPoint] = []
    for place in places:
        if not place.exists():
            raise SamiError(f"there is no {place}; --results names folders or files that `sami robustness` wrote.")
        for path in [place] if place.is_file() else sorted(place.rglob("*.json")):
            if path.stat().st_size > 50_000_000 or '"points"' not in path.read_text(encoding="utf-8"):
                continue
            document = read_json(path)
            if document.get("weights_sha256") == subject.weights and document.get("env") == subject.spec.name:
                points = [RobustnessPoint.from_dict(point, document["env"]) for point in document["points"]]
                most = max(most, points, key=len)
    return most
