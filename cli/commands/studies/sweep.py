"""`sami sweep`: train and evaluate a grid of settings."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...measuring import CLUSTERS, JobPlace, place_of
from ...options import JSON, keys_option
from ...output import plain_table, print_text, text_console

if TYPE_CHECKING:
    from rich.console import Console, Group

    from sami_train.envs.measure import Measure
    from sami_train.studies.sweep.engines import Engine
    from sami_train.studies.sweep.grid import Grid
    from sami_train.studies.sweep.sweep import CellRow, Sweep

OF_THE_GRID = ("env", "method", "seed", "steps", "override", "episodes")
FRAME = 8
"""Number of lines of the live table besides the rows of cells."""
STATES = ("failed", "stopped", "running", "evaluating", "pending", "done", "waiting")
COLORS = {"done": "green", "failed": "red", "stopped": "yellow", "pending": "dim", "waiting": "dim"}


def sweep(
    context: typer.Context,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the sweep, with a run folder for each cell. In the folder of an earlier sweep, cells that "
            "are not done continue from their checkpoints."
        ),
    ],
    env: Annotated[str, typer.Option(help="Environments, comma-separated; also your own, as MODULE:SPEC.")] = "panda",
    method: Annotated[str, typer.Option(help="Methods, comma-separated.")] = "tesac",
    seed: Annotated[str, typer.Option(help="Seeds, comma-separated.")] = "0",
    steps: Annotated[str | None, typer.Option(help="Environment steps, instead of the preset's.")] = None,
    override: Annotated[
        list[str] | None,
        keys_option(
            "Values of a config key, e.g. contrast.coefficient=0,1, or preset=fast-cpu,paper, or device=cuda.",
            metavar="KEY=VALUES",
        ),
    ] = None,
    episodes: Annotated[
        int, typer.Option(min=1, help="Evaluation episodes per task; per task set if judged by return.")
    ] = 100,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Where the cells run. A number, such as 2: so many at once here (one per core if left out). "
            f"gpu:4: four at once on each of its GPUs. {CLUSTERS} jobs=N: N at once (all if left out).",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and their states; run none.")] = False,
) -> None:
    """Train and evaluate a grid of settings. Ctrl-C stops at checkpoints; --out alone continues."""
    options_of_grid = {name for name in OF_THE_GRID if context.get_parameter_source(name).name == "COMMANDLINE"}  # type: ignore[union-attr]
    place = place_of(on, gpus=True)

    from sami_runtime.errors import in_shell
    from sami_train.envs.catalog import by_name
    from sami_train.studies.sweep.sweep import Sweep

    own_code = options_of_grid == {"env"} and (out / "sweep.json").is_file()  # --env lets it be imported
    if own_code or not options_of_grid:
        grid = Sweep.open(out)
    else:
        options = {"env": env, "method": method, "seed": seed, "steps": steps}
        grid = Sweep.begin(out, _grid(options, override or []), episodes)
    live = text_console(error=JSON.get())
    if dry_run:
        grid.look_for_owners()
    else:
        if place.is_cluster:
            grid.cluster |= place.settings
        engine = _engine(grid, place)
        with _Display(grid, engine.jobs, live) as display:
            is_complete = grid.run(engine, display.update)
    if JSON.get():
        print(json.dumps(_summary(grid), indent=2))
    elif dry_run or not live.is_terminal:
        live.print(_table(grid))
    if dry_run:
        if not JSON.get():
            print_text(f"{len(grid.rows)} cells, {grid.count('done')} of them done")
        return
    where = {"slurm": " --on slurm", "ray": f" --on ray:{place.address}"}.get(place.kind, "")
    sources = by_name(*(row.cell.config.env for row in grid.rows))
    again = f"sami sweep --out {in_shell(grid.path)}{where}{sources}"
    for row in grid.rows:
        if row.state == "failed":
            print_text(f"{row.cell.name} failed: {row.reason}", f"  log: {row.log}", error=JSON.get())
    if not is_complete:
        still = grid.count("running", "evaluating")
        rest = f"; {still} jobs have not stopped yet and go on to their next checkpoint" if still else ""
        counts = f"{grid.count('done')} of {len(grid.rows)} cells done"
        print_text(f"stopped with {counts}{rest}. Go on with:", f"  {again}", error=JSON.get())
        raise typer.Exit(130)
    if grid.count("done") < len(grid.rows):
        print_text("Try those that are not done again with:", f"  {again}", error=JSON.get())
        raise typer.Exit(1)
    print_text(
        f"all {len(grid.rows)} cells are trained and evaluated in {grid.path}; their results, a line each, are in "
        f"{grid.study.name} there",
        error=JSON.get(),
    )


def _engine(sweep: Sweep, place: JobPlace) -> Engine:
    from sami_train.machine import usable_cores
    from sami_train.studies.sweep.engines import Local, SweepError, usable_gpus

    cells = len(sweep.rows)
    if place.kind == "gpu":
        gpus = usable_gpus()
        if not gpus:
            raise SweepError(f"--on gpu:{place.jobs} needs a GPU, and torch finds none here; --on N is for processors.")
        if on_cpu := [row.cell.name for row in sweep.rows if row.cell.config.device == "cpu"]:
            raise SweepError(f"{on_cpu[0]} is trained on the CPU; --on gpu:N goes with device=cuda or auto.")
        return Local(min((place.jobs or 1) * len(gpus), cells), gpus)
    jobs = place.jobs or (cells if place.is_cluster else usable_cores())
    return place.engine(min(jobs, cells), sweep.cluster)


def _grid(options: dict[str, str | None], overrides: list[str]) -> Grid:
    from sami_runtime.errors import SamiError
    from sami_train.studies.sweep.grid import Grid, parse_axis

    axes = dict(parse_axis(f"{name}={values}") for name, values in options.items() if values is not None)
    axes |= {"preset": ["fast-cpu"], "device": ["auto"]}
    overridden: set[str] = set()
    for text in overrides:
        key, values = parse_axis(text)
        if key in options:
            raise SamiError(f"{key} has its own option; give --{key} instead of --set {key}=...")
        if key in overridden:
            raise SamiError(f"--set {key}=... was given twice; give all values at once, e.g. {key}=1,2.")
        overridden.add(key)
        axes[key] = values
    return Grid(axes)


class _Display:
    """Shows a live table on a terminal, or else prints a line whenever a cell changes its state."""

    def __init__(self, sweep: Sweep, jobs: int, console: Console) -> None:
        from rich.live import Live

        self.sweep, self.jobs, self.console = sweep, jobs, console
        self._live = Live(console=console, auto_refresh=False)
        self._lines: dict[str, str] = {}

    def __enter__(self) -> _Display:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self) -> None:
        """Show the present rows."""
        if self._live.is_started:
            self._live.update(_table(self.sweep, self.jobs, self.console.height), refresh=True)
            return
        for row in self.sweep.rows:
            if self._lines.get(row.cell.name, "waiting") != row.state:
                progress = f" after {row.status.steps:,} steps" if row.status.steps else ""
                text_of = _format_of(row)
                note = ", ".join(f"{name} {text_of(value)}" for name, value in row.status.sets.items()) or row.reason
                line = f"{row.cell.name} {row.state}{progress}{': ' if note else ''}{note}"
                print_text(line, error=self.console.stderr)
            self._lines[row.cell.name] = row.state


def _table(sweep: Sweep, jobs: int = 0, height: int | None = None) -> Group:
    from rich.console import Group
    from rich.text import Text

    seconds = sweep.seconds_left if jobs else None
    counts = [f"{sweep.count(state)} {state}" for state in STATES if sweep.count(state)]
    about = [f"about {_duration(seconds / jobs)} left"] if seconds else []
    totals = {row.cell.config.steps for row in sweep.rows}
    equal_totals = [f"{min(totals):,} steps each"] if len(totals) == 1 else []
    table = plain_table()
    table.add_column("cell", overflow="fold", min_width=20)
    for name in ("state", "steps", "exploring", "left", *_sets(sweep)):
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    rows = sweep.rows
    if height is not None and len(rows) > height - FRAME:
        rows = sorted(rows, key=lambda row: STATES.index(row.state))  # rows that do not fit are cut off at the bottom
    for row in rows:
        status, total = row.status, row.cell.config.steps
        speed = status.steps / status.seconds if status.seconds else 0.0
        text_of = _format_of(row)
        table.add_row(
            row.cell.name,
            row.state,
            f"{min(1.0, status.steps / total):.0%}" + ("" if equal_totals else f" of {total:,}"),
            "" if status.exploring is None else text_of(status.exploring),
            _duration((total - status.steps) / speed) if speed and row.state == "running" else "",
            *(text_of(status.sets[name]) if name in status.sets else "" for name in _sets(sweep)),
            style=COLORS.get(row.state),
        )
    notes = [Text(f"{row.cell.name} {row.reason.splitlines()[0]}") for row in sweep.rows if row.reason]
    return Group(Text(f"{sweep.path}: {', '.join(counts + equal_totals + about)}"), *notes, table)


def _measure(row: CellRow) -> Measure:
    from sami_train.envs.catalog import environment

    return environment(row.cell.config.env).measure


def _format_of(row: CellRow) -> Callable[[float], str]:
    return functools.partial(_measure(row).show, coarse=True)


def _sets(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(name for row in sweep.rows for name in row.status.sets))


def _duration(seconds: float) -> str:
    minutes = round(max(0.0, seconds) / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"


def _summary(sweep: Sweep) -> dict[str, Any]:
    def cell(row: CellRow) -> dict[str, Any]:
        return {
            "name": row.cell.name,
            "folder": str(sweep.folder(row.cell)),
            "settings": dict(row.cell.overrides),
            "state": row.state,
            "steps": row.status.steps,
            _measure(row).name: dict(row.status.sets),
            "reason": row.reason,
            "log": None if row.log is None else str(row.log),
        }

    return {"sweep": str(sweep.path), "done": sweep.count("done"), "cells": [cell(row) for row in sweep.rows]}
