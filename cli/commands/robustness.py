"""`sami robustness`: measure a model file under each kind of disturbance of a sim-to-real profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..measuring import On, cluster_of, count_results, findings, place_of, task_progress, write_findings
from ..model_file import environment_of, model_file, task_set_names
from ..options import JSON, MODEL_HELP, ModelEnvironment
from ..output import print_table, print_text

if TYPE_CHECKING:
    from rich.table import Table

    from sami_train.evaluation.robustness import RobustnessPoint


def robustness(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|RESULT",
            help=f"{MODEL_HELP}. Or an earlier --out, or its JSON: prints the table and measures nothing.",
            callback=model_file,
        ),
    ],
    env: ModelEnvironment = None,
    tasks: Annotated[str, typer.Option(help="Task sets, comma-separated.")] = "training",
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS|FILE",
            help="Kinds of disturbance, comma-separated, such as latency,dropout; all if left out. Or a sim-to-real "
            "profile, NAME.toml, NAME.json or modest: measured as a whole, and key by key.",
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes per task at each point, each with its start.")] = 50,
    out: Annotated[Path | None, typer.Option(help="Folder for robustness.json and robustness.png.")] = None,
    on: On = None,
) -> None:
    """Measure success with latency, jitter, dropout, noise of positions, ...: one disturbance at a time.

    The folder --out also stores finished tasks (where returns count, task sets), so the same command continues after an
    interruption. On a cluster, the jobs share the tasks and must see that folder.
    """
    place = place_of(on)
    if model.is_dir() or model.suffix == ".json":
        print(_read(model))  # Markdown for a page, or JSON
        return

    from sami_runtime.errors import SamiError
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.model.artifact import read_artifact
    from sami_train.envs.catalog import of_commands
    from sami_train.evaluation import robustness as measuring
    from sami_train.machine import usable_cores

    contract = read_artifact(model).contract
    spec = environment_of(contract, env)
    if place.is_cluster and spec.name in of_commands:
        raise SamiError(f"{spec.name} is played on this machine only; leave out --on, or give it a number.")
    names = task_set_names(tasks, spec)
    if gap is not None and (gap == "modest" or Path(gap).suffix in (".toml", ".json")):
        profile = GapProfile.load(gap)
        profile.require_fit(spec.signals, spec.action.elements)
        kinds = measuring.parts_of(profile)
    else:
        kinds = measuring.kinds(None if gap is None else [name.strip() for name in gap.split(",")])
    files = findings(out, "robustness")
    total = count_results(spec, names, episodes) * (1 + sum(len(kind.severities) for kind in kinds))
    keep = files[0] if files else None
    cluster = cluster_of(place, keep)
    with task_progress("measuring", total, keep) as on_task:
        cores = place.jobs or usable_cores()
        if cluster is not None:
            from sami_train.studies.sweep.spread import spread

            assert keep is not None
            gaps = measuring.gaps_of(spec, kinds)
            spread(cluster, {"model": str(model)}, model, spec.name, names, gaps, episodes, keep, on_task)
        report = on_task if cluster is None else None
        points = measuring.sweep(model, spec.name, names, kinds, episodes, cores, report, keep)
        document = {
            "env": spec.name,
            "model": model.name,
            **({"scene_of": str(model)} if spec.name in of_commands else {}),
            "weights_sha256": contract.weights_sha256,
            f"episodes_per_{spec.measure.per}": episodes,
            "points": [point.to_dict() for point in points],
        }
        if files is not None:
            from sami_train.studies.charts.scores import robustness as chart_of

            write_findings(files, json.dumps(document, indent=1), chart_of(points).savefig)
    if JSON.get():
        print(json.dumps(document))
        return
    print_table(_table(points, names))
    for path in files or ():
        print_text(f"wrote {path}")


def _read(path: Path) -> str:
    """Return an earlier measurement as a Markdown table with a row for each kind of disturbance, or as JSON."""
    from sami_runtime.errors import SamiError
    from sami_runtime.files import read_document
    from sami_runtime.model.artifact import read_artifact
    from sami_train.evaluation.robustness import RobustnessPoint

    document: dict[str, Any] = read_document(path / "robustness.json" if path.is_dir() else path, "measurements")
    if JSON.get():
        return json.dumps(document)
    if not document.get("points"):
        raise SamiError(f"{path} has no points; give what sami robustness wrote: its folder, or robustness.json in it.")
    if "scene_of" in document:  # an environment made for this policy
        environment_of(read_artifact(document["scene_of"]).contract, document["env"])
    points = [RobustnessPoint.from_dict(line, document["env"]) for line in document["points"]]
    sets = points[0].evaluation.sets
    tracked = [name for name in sets if points[0].tracking_error(name) is not None]
    errors = (f"{name}: tracking error" for name in tracked)
    heads = ["gap", "sizes", *(_title(points[0], name) for name in sets), *errors]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind in dict.fromkeys(point.kind for point in points):
        of_kind = [point for point in points if point.kind == kind]
        sizes = f"{', '.join(f'{point.severity:g}' for point in of_kind)} {of_kind[0].unit}" if kind else ""
        cells = [", ".join(_score(point, name, 2) for point in of_kind) for name in sets]
        cells += [", ".join(f"{point.tracking_error(name):.3f}" for point in of_kind) for name in tracked]
        lines.append(f"| {' | '.join([kind or 'none', sizes, *cells])} |")
    return "\n".join(lines)


def _title(point: RobustnessPoint, task_set: str) -> str:
    from sami_train.evaluation.intervals import scores_of_starts

    results, starts = point.evaluation.of(task_set), len(scores_of_starts(point.evaluation, task_set))
    episodes = sum(result.episodes for result in results)
    return f"{task_set} ({episodes} episodes a point{f', {starts} starts' if starts else ''})"


def _score(point: RobustnessPoint, task_set: str, digits: int | None = None) -> str:
    """Return a score with its interval, as `0.62 [0.55, 0.69]`."""
    measure = point.evaluation.measure
    value, interval = point.score(task_set)

    def show(number: float) -> str:
        return measure.show(number) if digits is None or not measure.bounds else f"{number:.{digits}f}"

    return show(value) + (f" [{show(interval[0])}, {show(interval[1])}]" if interval else "")


def _table(points: list[RobustnessPoint], task_sets: list[str]) -> Table:
    from rich.table import Table

    table = Table(title="95 % intervals over starts and what their profiles drew", title_justify="left")
    for name in ("gap", "severity"):
        table.add_column(name)
    for name in task_sets:
        table.add_column(_title(points[0], name), justify="right")
    tracked = [name for name in task_sets if points[0].tracking_error(name) is not None]
    for name in tracked:
        table.add_column(f"{name}: tracking error", justify="right")
    kind = points[0].kind
    for point in points:
        if point.kind != kind:
            kind = point.kind
            table.add_section()
        scores = [_score(point, name) for name in task_sets] + [f"{point.tracking_error(name):.3f}" for name in tracked]
        table.add_row(point.kind or "none", f"{point.severity:g} {point.unit}" if point.kind else "", *scores)
    return table
