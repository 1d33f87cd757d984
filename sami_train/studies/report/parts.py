"""The measurements of a report, part by part for each subject; each part is stored as soon as it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.errors import SamiError
from sami_runtime.model.atlas import label
from sami_train.envs.measure import SUCCESS
from sami_train.envs.tasks import Task
from sami_train.evaluation.model_policy import Source
from sami_train.evaluation.play import OnRound
from sami_train.evaluation.result_store import edited_name
from sami_train.evaluation.robustness import RobustnessPoint
from sami_train.files import make_folder, read_json, write_json
from sami_train.studies.charts.contexts import labels_of
from sami_train.studies.contexts.adaptation import contexts_around, usual_change
from sami_train.studies.contexts.changed_episodes import DynamicsChange
from sami_train.studies.report.episodes import SEED, ReportEpisode, film, play_episodes, schedule, typical, usual_tasks
from sami_train.studies.report.mapped import Separability, plane, separability
from sami_train.studies.report.subject import Subject

VERSION = 1
"""Version of the stored parts; parts of another version are measured again."""


class PartStore:
    """Stores parts in a folder, which it creates; reads a stored part back as long as its inputs are the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def part(self, name: str, key: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """Return the stored part if its key is the same; else make it, as plain values, and store it.

        The key has everything that the part depends on, as plain values.
        """
        path = self.folder / f"{name}.json"
        full_key = {"version": VERSION, **key}
        if path.is_file():
            try:
                document = read_json(path)
                if document["key"] == full_key:
                    return document["part"]
            except (SamiError, KeyError, TypeError):
                pass  # the file is damaged: make the part again
        value = make()
        make_folder(self.folder)
        write_json(path, {"key": full_key, "part": value})
        return read_json(path)["part"]  # in the form of a stored part: lists for tuples


PARTS = ("episodes", "maps", "change", "films", "cost")
"""The parts that a report measures; `ReportPlan.without` can leave out each."""
EPISODES_PER_TASK = 12
STEPS_PER_SET = 60_000
"""Steps to play in each set if the measure is the return, in at least `FEWEST_PER_SET` episodes."""
FEWEST_PER_SET = 20
CHANGED_EPISODES = 20
"""Number of starts of a change."""
LONG = 200
"""Length of an episode [steps] above which a change has half as many starts."""

Progress = Callable[[str, int, int], None]
"""Called with a part's progress: its name, the number of items done since the last call, and their total number."""
Cost = Callable[[Path], Mapping[str, Any]]
"""Measures the duration of a model file's step; returns plain values."""


@dataclass(frozen=True)
class ReportPlan:
    """Options of a report."""

    episodes: int | None = None
    """Episodes in each task, or in each set if the measure is the return; a default by measure if None."""
    change: str | None = None
    """A change of the dynamics in the form of `sami adapt`; `usual_change` if None."""
    films: Sequence[Task] | None = None
    """Tasks to film; `usual_tasks` if None."""
    without: frozenset[str] = frozenset()
    """Parts, of `PARTS`, to leave out."""
    processes: int = 1
    results: tuple[Path, ...] = ()
    """Files of `sami robustness`, or folders with them, to search for the same weights."""

    def episodes_of(self, subject: Subject) -> int:
        """Return the number of episodes to play in each task or set."""
        if self.episodes is not None:
            return self.episodes
        if subject.spec.measure is SUCCESS:
            return EPISODES_PER_TASK
        return max(FEWEST_PER_SET, STEPS_PER_SET // subject.spec.episode_steps)


@dataclass
class Parts:
    """The measurements of a subject; a part that was left out or failed is empty, and `missing` has the reason."""

    subject: Subject
    episodes: list[ReportEpisode] = field(default_factory=list)
    planes: dict[str, np.ndarray] = field(default_factory=dict)
    mapped: list[ReportEpisode] = field(default_factory=list)
    """The episodes in the maps: those of more than one step."""
    separabilities: list[Separability] = field(default_factory=list)
    change: Mapping[str, Any] | None = None
    films: list[dict[str, Any]] = field(default_factory=list)
    cost: Mapping[str, Any] | None = None
    robustness: list[RobustnessPoint] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """The reason why a part is missing, by the part's name."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time that each part took [s]."""


def measure_parts(subject: Subject, plan: ReportPlan, folder: Path, cost: Cost | None, progress: Progress) -> Parts:
    """Measure the parts of a subject, or read those that an earlier call stored in the folder, beside its films.

    If `cost` is None, this part is left out.

    Raises:
        SamiError: the change in `plan` is not possible, a path in `plan.results` is missing, or a measurement fails.
    """
    parts = Parts(subject, missing={name: f"left out by without={name}" for name in sorted(plan.without)})
    parts.robustness = find_robustness([*plan.results, *subject.shipped_robustness], subject)
    source = subject.source()
    if source is None:
        for name in PARTS:
            parts.missing.setdefault(name, "only numbers are stored; give a model file or a run folder")
        return parts
    if cost is None or subject.model is None:
        parts.missing.setdefault("cost", "only a model file is timed")
    of = _Measurement(parts, plan, PartStore(folder / "parts"), source, cost, progress)
    for name, measure in zip(PARTS, (of.episodes, of.maps, of.change, of.films, of.cost), strict=True):
        if name not in parts.missing:
            start = time.perf_counter()
            measure()
            parts.seconds[name] = round(time.perf_counter() - start, 2)
    return parts


class _Measurement:
    """Measures the parts of a subject, a method each."""

    def __init__(
        self, parts: Parts, plan: ReportPlan, store: PartStore, source: Source, timed: Cost | None, progress: Progress
    ) -> None:
        self.parts, self.plan, self.store, self.source, self.timed = parts, plan, store, source, timed
        self.progress = progress
        self.subject, self.spec = parts.subject, parts.subject.spec
        self.key = {"weights": self.subject.weights, "env": edited_name(self.spec)}

    def episodes(self) -> None:
        episodes = self.plan.episodes_of(self.subject)
        scheduled = schedule(self.spec, episodes, SEED)
        on_round = self._progress("playing episodes", len(scheduled))

        def make() -> list[dict[str, Any]]:
            processes = self.plan.processes
            results = play_episodes(self.source, self.spec, scheduled, processes=processes, on_round=on_round)
            return [episode.to_dict() for episode in results]

        documents = self.store.part("episodes", {**self.key, "episodes": episodes, "seed": SEED}, make)
        self.parts.episodes = [ReportEpisode.from_dict(episode) for episode in documents]

    def maps(self) -> None:
        parts = self.parts
        if not parts.episodes:
            parts.missing["maps"] = "no episode was played"
            return
        # An episode of one step began at its goal, so that its context has no information.
        parts.mapped = [episode for episode in parts.episodes if len(episode.contexts) > 1]
        final = np.stack([episode.contexts[-1] for episode in parts.mapped]) if parts.mapped else np.zeros((0, 0))
        if len(final) < 20:
            parts.missing["maps"] = f"{len(final)} contexts are no map; play 20 or more episodes"
            return
        if final.shape[1] < 2:
            parts.missing["maps"] = f"a map needs contexts of 2 or more numbers; the policy's have {final.shape[1]}"
            return
        on_round = self._progress("mapping contexts", 1)

        def make() -> dict[str, Any]:
            labels = labels_of(self.spec, parts.mapped)
            measured = [row for name, values in labels.items() if (row := separability(name, final, values))]
            planes = {name: points.round(5).tolist() for name, points in plane(final).items()}
            return {"planes": planes, "told": [asdict(row) for row in measured]}

        key = {**self.key, "episodes": len(final), "sum": round(float(final.sum()), 3)}
        maps = self.store.part("maps", key, make)
        parts.planes = {name: np.array(points) for name, points in maps["planes"].items()}
        parts.separabilities = [Separability(**row) for row in maps["told"]]
        on_round(1)

    def change(self) -> None:
        spec, model, contract, missing = self.spec, self.subject.model, self.subject.contract, self.parts.missing
        if model is None or contract is None:
            missing["change"] = "a change is shown of a model file alone: sami export --run RUN"
            return
        if not contract.context or not contract.context.size:
            missing["change"] = "the model infers no context"
            return
        try:
            spec.require_changes()
        except SamiError as error:
            if self.plan.change is not None:
                raise
            missing["change"] = str(error)
            return
        if self.plan.change is None:
            change = usual_change(spec, [len(episode.contexts) for episode in self.parts.episodes])
        else:
            change = DynamicsChange.parse(self.plan.change, spec.tasks, spec.episode_steps)
        starts = CHANGED_EPISODES // 2 if spec.episode_steps > LONG else CHANGED_EPISODES
        on_round = self._progress("changing the dynamics", starts)
        key = {**self.key, "change": str(change), "starts": starts}
        make = partial(contexts_around, model, spec, change, starts, on_round)
        self.parts.change = self.store.part("change", key, make)

    def films(self) -> None:
        tasks = usual_tasks(self.spec, self.subject.evaluation) if self.plan.films is None else self.plan.films
        on_round = self._progress("filming", len(tasks))
        for number, task in enumerate(tasks):
            path, start = self.store.folder.parent / f"film-{number + 1}.webp", typical(self.parts.episodes, task)
            make = partial(film, self.source, self.spec, task, path, start)
            if not path.is_file():
                (self.store.folder / f"{path.stem}.json").unlink(missing_ok=True)  # the film was deleted: film again
            key = {**self.key, "task": dict(task), "episode": start}
            try:
                self.parts.films.append(self.store.part(path.stem, key, make))
            except SamiError as error:
                # Without OpenGL, or if the environment renders nothing, the report has no films.
                self.parts.missing["films"] = f"{label(task)}: {error}"
                return
            on_round(1)

    def cost(self) -> None:
        measure, model = self.timed, self.subject.model
        assert measure is not None
        assert model is not None
        on_round = self._progress("timing a step", 1)
        self.parts.cost = self.store.part("cost", self.key, lambda: dict(measure(model)))
        on_round(1)

    def _progress(self, part: str, count: int) -> OnRound:
        """Report that a part begins; return a callback that takes the number of items done since its last call."""
        self.progress(part, 0, count)
        return lambda rounds: self.progress(part, rounds, count)


def find_robustness(places: Sequence[Path], subject: Subject) -> list[RobustnessPoint]:
    """Return the measurement of `sami robustness` with the most points for the subject's weights; empty if none.

    The places are files, and folders to search recursively.

    Raises:
        SamiError: a file or folder does not exist, or a file is damaged.
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
