"""`sami report`: collect the results of a model or of runs in one HTML file."""

from __future__ import annotations

import json
import sys
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...measuring import bars, phase
from ...model_file import environment_of, model_file
from ...options import FORCE, JSON, Key, set_option, set_values
from ...output import print_text
from ...target import task_features

if TYPE_CHECKING:
    from sami_train.studies.report.subject import Subject

SUBJECTS = (
    "Model files, names of shipped models, run folders, runs.jsonl files, folders that hold some; PATH:PATTERN takes "
    "runs by name."
)
SETTINGS = {
    "episodes": Key(int, "to play in each task; where returns count, in each set", 1),
    "change": Key(str, "change of the dynamics to show, as sami adapt takes it, such as mass=1:10,friction=0.1@4"),
    "films": Key(str, "tasks to film, such as mass=1,friction=0.1; parted by semicolons"),
    "without": Key(str, "what to leave out, comma-separated: episodes, maps, change, films, cost"),
    "processes": Key(int, "that play (one a core)", 1),
}
SECONDS = 1.0
"""Time for which each way to step a model is measured [s]."""


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="MODEL|RUN...", help=SUBJECTS)],
    out: Annotated[Path, typer.Option(help="Folder for report.html, and a PNG and a CSV of each figure.")],
    env: Annotated[str | None, typer.Option(help="Environment of models; their own if left out.")] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder or file of `sami robustness`; results of the same weights are shown. Repeatable. A checkout's "
            "results of a shipped model are shown without it."
        ),
    ] = None,
    override: Annotated[list[str] | None, set_option(SETTINGS)] = None,
) -> None:
    """Write one HTML report on models and runs; measurements that --out already holds are reused."""
    from sami_runtime.errors import require_known
    from sami_train.machine import usable_cores
    from sami_train.studies.contexts.changed_episodes import DynamicsChange
    from sami_train.studies.report.parts import PARTS, ReportPlan
    from sami_train.studies.report.write import check_out, write_report

    settings = set_values(SETTINGS, override)
    left_out = [name.strip() for name in settings.get("without", "").split(",") if name.strip()]
    require_known("part", left_out, PARTS)
    check_out(out, FORCE.get())
    subjects = _subjects(paths, env)
    spec = subjects[0].spec
    change, films = settings.get("change"), settings.get("films")
    tasks = None if films is None else [spec.tasks.check(task_features(text.split(","))) for text in films.split(";")]
    plan = ReportPlan(
        episodes=settings.get("episodes"),
        change=change,
        films=tasks,
        without=frozenset(left_out),
        processes=settings.get("processes") or usable_cores(),
        results=tuple(results or ()),
    )
    if change is not None:
        DynamicsChange.parse(change, spec.tasks, spec.episode_steps)  # reports errors now rather than after minutes
    with bars() as bar:
        task_of = cache(partial(phase, bar))

        def progress(part: str, rounds: int, count: int) -> None:
            if rounds == 0:
                bar.reset(task_of(part, count))
            bar.advance(task_of(part, count), rounds)

        try:
            summary = write_report(subjects, plan, out, ["sami", *sys.argv[1:]], progress, _cost)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; {out} has the finished parts, and the same command continues") from None
    if JSON.get():
        print(json.dumps(summary, indent=2))
        return
    without: dict[tuple[str, str], list[str]] = {}  # names of subjects by part and reason
    for subject in summary["subjects"]:
        for entry in subject["missing"].items():
            without.setdefault(entry, []).append(subject["name"])
    for (part, reason), names in without.items():
        listed = ", ".join(names) if len(names) < 4 else f"{len(names)} of {len(summary['subjects'])} subjects"
        print_text(f"{listed}: no {part}: {reason}")
    print_text(
        f"wrote {summary['report']}: {summary['bytes'] / 1e6:.1f} MB in {summary['seconds']:.0f} s, "
        f"and {len(summary['files'])} files beside it"
    )


def _subjects(paths: list[Path], env: str | None) -> list[Subject]:
    """Return the models and runs at these paths; raise SamiError if a report cannot combine them."""
    from sami_runtime.model.artifact import read_artifact
    from sami_train.studies.report.subject import Subject, merged, require_alike
    from sami_train.studies.sweep.study import find_runs

    subjects = []
    for path in paths:
        file = path if path.exists() or path.suffix or len(path.parts) > 1 or ":" in str(path) else model_file(path)
        if file is not None and file.suffix == ".onnx":
            subjects.append(Subject.of_model(file, environment_of(read_artifact(file).contract, env)))
        else:
            subjects += [Subject.of_run(record) for record in find_runs([path])]
    subjects = merged(subjects)
    require_alike(subjects)
    return subjects


def _cost(model: Path) -> dict[str, Any]:
    """Time a model's step, back to back and at its own rate."""
    import os
    import platform
    from dataclasses import asdict

    from sami_runtime.checks import bench
    from sami_runtime.model.artifact import read_artifact

    artifact = read_artifact(model)
    candidates = [way for way in bench.candidates(artifact) if way.name.startswith((bench.BOUND, bench.SESSION))]
    lines = []
    for rate in (None, artifact.contract.rate_hz):
        pace = "back to back" if rate is None else f"at {rate:g} Hz"
        timings = bench.summarise(bench.measure(candidates, SECONDS * (1 if rate is None else 2), rate))
        lines += [{"pace": pace, "name": name, **asdict(timing)} for name, timing in timings.items()]
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores{load}"
    return {"machine": machine, "lines": lines}
