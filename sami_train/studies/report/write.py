"""Writes a report as a folder: report.html, which loads nothing from the network, and a PNG and CSV of each figure."""

from __future__ import annotations

import base64
import importlib.util
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.resources import files
from pathlib import Path
from typing import Any

from sami_runtime.distribution import installed_version
from sami_runtime.errors import SamiError
from sami_runtime.files import require_output
from sami_train.evaluation.intervals import interval_of
from sami_train.evaluation.paper import reported
from sami_train.files import make_folder, read_json, unfinished, write_json
from sami_train.runs.folder import RunError, git_state, versions
from sami_train.studies.charts.chart import page_variables
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.groups import ComparisonError, read_runs
from sami_train.studies.report.episodes import require_renderer
from sami_train.studies.report.parts import Cost, Parts, Progress, ReportPlan, measure_parts
from sami_train.studies.report.sections import Section, Tile, sections, tiles
from sami_train.studies.report.subject import Subject, require_alike


@dataclass(frozen=True)
class Head:
    """The head and the foot of the page."""

    title: str
    subtitle: str
    tiles: Mapping[str, Sequence[Tile]]
    """Tiles by subject."""
    facts: Mapping[str, Mapping[str, Any]]
    """Provenance of each subject, by its name."""
    provenance: Mapping[str, str]
    """Provenance of the page."""
    files: Sequence[str]
    """Paths of the other files, relative to the page."""


def render(head: Head, sections: Sequence[Section], folder: Path) -> str:
    """Return the page as HTML with its films, which are read from the folder.

    Raises:
        ModuleNotFoundError: jinja2 or matplotlib is not installed.
    """
    from jinja2 import Environment, StrictUndefined

    def inlined(block_folder: str, name: str) -> str:
        content = base64.b64encode((folder / block_folder / name).read_bytes()).decode("ascii")
        return f"data:image/webp;base64,{content}"

    room = files("sami_train.studies.report")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    template = environment.from_string((room / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        head=head,
        sections=sections,
        inlined=inlined,
        style=(room / "page.css").read_text(encoding="utf-8"),
        colours=page_variables().values(),
    )


PAGE, SUMMARY = "report.html", "report.json"
NEEDED = ("jinja2", "sklearn", "umap", "matplotlib")
"""Modules that the extra `report` installs."""
FIGURE_PACKAGES = ("scikit-learn", "umap-learn", "matplotlib")
"""Packages whose versions affect figures only."""


def check_out(out: Path, force: bool) -> None:
    """Check, before anything is measured, that a report can be written to the folder `out`.

    An earlier report in the folder is continued: its stored parts are read if their inputs are the same.

    Raises:
        SamiError: `out` is a file or may not be written to; or it has files, no report, and `force` is False.
        ModuleNotFoundError: a package of the extra `report` is not installed.
    """
    for name in NEEDED:
        # Only look for the module: importing umap takes seconds, and the report may not need it.
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    require_output(out / SUMMARY, force=True, makes_folder=True)
    report = (out / SUMMARY).is_file() or any(out.glob("*/parts"))
    if out.is_dir() and any(out.iterdir()) and not report and not force:
        raise SamiError(f"{out} holds something that is no report; choose another --out, or take it with --force.")


def write_report(
    subjects: Sequence[Subject],
    plan: ReportPlan,
    out: Path,
    command: Sequence[str],
    progress: Progress,
    cost: Cost | None = None,
) -> dict[str, Any]:
    """Measure the parts that are not stored yet, and write the report.

    Args:
        subjects: models and runs of one environment.
        plan: options of the report.
        out: the folder, see `check_out`.
        command: the arguments of the command that makes the report, which the report quotes.
        progress: called with the progress.
        cost: measures a step; None leaves this part out.

    Returns:
        The report's summary, as plain values; also written to report.json.

    Raises:
        SamiError: see `require_alike` and `measure_parts`.
    """
    start = time.perf_counter()
    require_alike(subjects)
    if "films" not in plan.without and any(subject.weights for subject in subjects):
        require_renderer(subjects[0].spec)
    make_folder(out)
    parts = [measure_parts(subject, plan, out / subject.name, cost, progress) for subject in subjects]
    page_sections = sections(parts, _comparison(subjects))
    blocks = [block for section in page_sections for block in section.blocks]
    count, paths = sum(len(block.figures) for block in blocks), list[Path]()
    progress("drawing", 0, count)
    for block in blocks:
        for figure in block.figures:
            paths += figure.write(out / block.folder)
            progress("drawing", 1, count)
    films = [out / part.subject.name / film[key] for part in parts for film in part.films for key in ("film", "still")]
    file_names = [path.relative_to(out).as_posix() for path in (*paths, *films)]
    seconds = time.perf_counter() - start
    page = render(_head(parts, command, file_names, seconds), page_sections, out)
    with unfinished(out / PAGE) as path:
        path.write_text(page, encoding="utf-8")
    summary = {
        "report": (out / PAGE).as_posix(),
        "bytes": (out / PAGE).stat().st_size,
        "seconds": round(time.perf_counter() - start, 1),
        "command": list(command),
        "subjects": [_summary(part) for part in parts],
        "files": file_names,
    }
    write_json(out / SUMMARY, summary)
    return read_json(out / SUMMARY)


def _comparison(subjects: Sequence[Subject]) -> MethodComparison | None:
    """Return the comparison of the runs among the subjects; None if fewer than two, or they cannot be compared."""
    runs = [subject.run for subject in subjects if subject.run is not None and subject.evaluation is not None]
    if len(runs) < 2:
        return None
    try:
        return MethodComparison(read_runs([Path(run.address) for run in runs]))
    except (ComparisonError, RunError):
        return None  # the evaluations differ: the report has only the table of scores


def _head(parts: Sequence[Parts], command: Sequence[str], files: Sequence[str], seconds: float) -> Head:
    names = [part.subject.name for part in parts]
    first = parts[0].subject
    title = names[0] if len(names) == 1 else f"{len(names)} policies on {first.spec.name}"
    listed = f": {', '.join(names)}" if 1 < len(names) <= 8 else ""
    git = git_state()
    tools = versions() | {name: number for name in FIGURE_PACKAGES if (number := installed_version(name)) is not None}
    spent_by_part = {name: sum(p.seconds.get(name, 0.0) for p in parts) for p in parts for name in p.seconds}
    return Head(
        title=title,
        subtitle=f"{' and '.join(dict.fromkeys(part.subject.method for part in parts))} on {first.spec.name}{listed}",
        tiles={part.subject.name: tiles(part) for part in parts} if len(parts) <= 6 else {},
        facts={part.subject.name: part.subject.training() for part in parts},
        provenance={
            "command": shlex.join(command),
            "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": f"{git['commit']}{', with local changes' if git['dirty'] else ''}" if git else "",
            "versions": ", ".join(f"{name} {number}" for name, number in tools.items()),
            "took": f"{seconds:.0f} s; " + ", ".join(f"{name} {cost:.1f} s" for name, cost in spent_by_part.items()),
        },
        files=files,
    )


def _summary(part: Parts) -> dict[str, Any]:
    subject, evaluation = part.subject, part.subject.evaluation
    scores = {}
    if evaluation is not None:
        for name in evaluation.sets:
            interval, paper = interval_of(evaluation, name), reported(evaluation.env, subject.method, name)
            scores[name] = {"score": evaluation.score(name), "interval": interval, "paper": paper and paper.mean}
    return {
        "name": subject.name,
        "env": subject.spec.name,
        "method": subject.method,
        "weights_sha256": subject.weights,
        "scores": scores,
        "episodes": len(part.episodes),
        "told": [asdict(separability) for separability in part.separabilities],
        "change": part.change and part.change["change"],
        "films": [film["film"] for film in part.films],
        "cost": part.cost,
        "robustness_points": len(part.robustness),
        "missing": part.missing,
        "seconds": part.seconds,
    }
