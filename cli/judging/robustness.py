"""`sami robustness`: what a model file does behind each kind of gap between simulation and reality."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..drive.model_file import Model

if TYPE_CHECKING:
    from rich.table import Table

    from sami_train.evaluation.robustness import Point


def robustness(
    model: Model,
    env: Annotated[str | None, typer.Option(help="Environment; the model's own if left out.")] = None,
    tasks: Annotated[str, typer.Option(help="Task sets, comma-separated.")] = "training",
    kinds: Annotated[str | None, typer.Option(help="Kinds of gap, comma-separated; all if left out.")] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes per task at each point.")] = 10,
    workers: Annotated[
        int, typer.Option(min=0, help="Cores: processes, or threads of a simulation that has them; 0 takes all.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for robustness.json and robustness.png.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace earlier ones in --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Measure success behind latency, jitter, dropout, noise, ...: one kind of gap at a time, the rest as simulated."""
    from rich.console import Console
    from rich.progress import Progress

    from sami_runtime.model.artifact import read_artifact
    from sami_train.evaluation import robustness as measuring
    from sami_train.evaluation.evaluate import count_results
    from sami_train.evaluation.results import TaskResult
    from sami_train.machine.cores import usable_cores

    from ..drive.model_and_env import environment_of, task_set_names
    from ..show.out_folder import findings

    contract = read_artifact(model).contract
    spec = environment_of(contract, env)
    names = task_set_names(tasks, spec)
    chosen = measuring.kinds(None if kinds is None else [name.strip() for name in kinds.split(",")])
    files = findings(out, "robustness", force)
    total = count_results(spec, names, episodes) * (1 + sum(len(kind.severities) for kind in chosen))
    with Progress(console=Console(stderr=True), disable=json, transient=True) as bar:
        shown = bar.add_task("measuring", total=total)

        def arrived(_: TaskResult) -> None:
            bar.advance(shown)

        points = measuring.sweep(model, spec.name, names, chosen, episodes, workers or usable_cores(), arrived)
    document = {
        "env": spec.name,
        "model": model.name,
        "weights_sha256": contract.weights_sha256,
        f"episodes_per_{spec.measure.per}": episodes,
        "points": [point.to_dict() for point in points],
    }
    if files is not None:
        from sami_train.report.figures.robustness import draw_robustness

        files[0].write_text(json_module.dumps(document, indent=1) + "\n", encoding="utf-8")
        draw_robustness(points, files[1])
    if json:
        print(json_module.dumps(document))
        return
    Console().print(_table(points, names))
    for path in files or ():
        print(f"wrote {path}")


def _table(points: list[Point], task_sets: list[str]) -> Table:
    from rich.table import Table

    episodes = [sum(result.episodes for result in points[0].evaluation.of(name)) for name in task_sets]
    title = f"episodes a point: {', '.join(f'{n} {name}' for n, name in zip(episodes, task_sets, strict=True))}"
    table = Table(title=title, title_justify="left")
    for name in ("gap", "severity"):
        table.add_column(name)
    for name in task_sets:
        table.add_column(name, justify="right")
    measure, kind = points[0].evaluation.measure, ""
    for point in points:
        if point.kind != kind:
            kind = point.kind
            table.add_section()
        cells = []
        for name in task_sets:
            value, error = point.score(name)
            cells.append(f"{measure.show(value)} ± {measure.show(error)}")
        table.add_row(point.kind or "none", f"{point.severity:g} {point.unit}" if point.kind else "", *cells)
    return table
