"""`sami run`: drive an environment with a model file, episode by episode."""

from __future__ import annotations

import json as json_module
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sami_runtime.loop import EpisodeReport
    from sami_train.tasks import Task

SPARKS = "▁▂▃▄▅▆▇█"


def run(
    env: Annotated[str, typer.Option(help="Environment, e.g. panda.")] = "panda",
    model: Annotated[Path, typer.Option(help="Model file.")] = Path("models/panda-satesac.onnx"),
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to run.")] = 20,
    tasks: Annotated[str, typer.Option(help="Task set to draw from: training, moderate, extreme, or all.")] = "all",
    mass: Annotated[float | None, typer.Option(help="Fix the cube's mass, kg.")] = None,
    friction: Annotated[float | None, typer.Option(help="Fix the table's lateral friction.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode; the next ones count on.")] = 0,
    render: Annotated[str | None, typer.Option(help="gif writes a file, human opens a window.")] = None,
    gif: Annotated[
        Path | None, typer.Option(help="Where --render gif writes; NAME.gif of the model if left out.")
    ] = None,
    real_time: Annotated[
        bool, typer.Option("--real-time", help="Act at the policy's rate instead of as fast as possible.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Run a policy and watch it adapt: mass, friction, skill, steps, success, and how its context moves."""
    from sami_runtime.adapters.panda import PandaAdapter
    from sami_runtime.clock import MonotonicClock
    from sami_runtime.errors import SamiError, UnknownName
    from sami_runtime.loop import StepRecord, run_episode
    from sami_runtime.session import Session
    from sami_train.envs import environment

    from .film import Film

    if render not in (None, "gif", "human"):
        raise UnknownName("renderer", str(render), ["gif", "human"])
    if gif is not None and render is None:
        render = "gif"
    film_path = gif or Path(f"{model.stem}.gif")
    if render == "gif" and (film_path.suffix != ".gif" or not film_path.parent.is_dir()):
        raise SamiError(f"cannot write {film_path}; --gif must be NAME.gif in a folder that exists.")
    spec = environment(env)
    session = Session.load(model)
    chosen = _tasks(spec.tasks, tasks, {"mass": mass, "friction": friction})
    world = spec.make(tasks=chosen, render_mode={"gif": "rgb_array", None: None}.get(render, render))
    adapter = PandaAdapter(world)
    clock = MonotonicClock() if real_time or render == "human" else None
    film = Film(film_path, session.contract.rate_hz) if render == "gif" else None
    rows: list[dict[str, Any]] = []
    try:
        if not json:
            print(f"{'mass':>6} {'friction':>8}  {'skill':<14} {'steps':>5}  success  context moves")
        for number in range(episodes):
            skills: Counter[str] = Counter()

            def watch(record: StepRecord, skills: Counter[str] = skills) -> None:
                skills[record.info["skill"]] += 1
                if film is not None:
                    film.add(adapter.render(), record)

            report = run_episode(session, adapter, seed=seed + number, clock=clock, on_step=watch)
            row = _row(number, report, skills)
            rows.append(row)
            if json:
                print(json_module.dumps(row), flush=True)
            else:
                print(_line(row, report), flush=True)
    finally:
        adapter.close()
        if film is not None and film.frames:
            film.save()
    if not json:
        _summary(rows)
        if film is not None:
            print(f"wrote {film.path}")


def _tasks(space: Any, name: str, fixed: Mapping[str, float | None]) -> list[Task]:
    """The tasks to draw from: a set's (or all sets'), with some features fixed."""
    from sami_runtime.errors import UnknownName

    if name not in (*space.sets, "all"):
        raise UnknownName("task set", name, [*space.sets, "all"])
    names = list(space.sets) if name == "all" else [name]
    tasks = [task for each in names for task in space.resolve(each)]
    given = {feature: value for feature, value in fixed.items() if value is not None}
    return [space.check({**task, **given}) for task in tasks]


def _row(number: int, report: EpisodeReport, skills: Counter[str]) -> dict[str, Any]:
    # An episode is named after its rarest skill that it needed: any lifting makes it Pick&Place (paper, appendix C.1).
    skill = next((s for s in ("pick_and_place", "other", "push") if skills[s]), "none")
    return {
        "episode": number,
        **report.info["task"],
        "skill": skill,
        "steps": report.steps,
        "success": bool(report.info["is_success"]),
        "context": [round(float(c), 4) for c in report.contexts[-1]],
        "infer_us": round(1e6 * float(report.times[:, 1].mean()), 1),
    }


def _line(row: Mapping[str, Any], report: EpisodeReport) -> str:
    import numpy as np

    speed = np.linalg.norm(np.diff(report.contexts, axis=0), axis=1)
    scale = max(float(speed.max(initial=0.0)), 1e-9)
    sparks = "".join(SPARKS[min(int(s / scale * len(SPARKS)), len(SPARKS) - 1)] for s in speed)
    won = "yes" if row["success"] else "no"
    return f"{row['mass']:>6g} {row['friction']:>8g}  {row['skill']:<14} {row['steps']:>5}  {won:<7}  {sparks}"


def _summary(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{len(rows)} episodes", title_justify="left")
    for name in ("mass", "friction", "episodes", "success", "lifted", "steps"):
        table.add_column(name, justify="right")
    keys = sorted({(row["mass"], row["friction"]) for row in rows})
    for mass, friction in keys:
        same = [row for row in rows if (row["mass"], row["friction"]) == (mass, friction)]
        table.add_row(f"{mass:g}", f"{friction:g}", *_shares(same))
    table.add_section()
    table.add_row("all", "", *_shares(rows), style="bold")
    Console().print(table)


def _shares(rows: list[dict[str, Any]]) -> list[str]:
    n = len(rows)
    success = sum(row["success"] for row in rows) / n
    lifted = sum(row["skill"] == "pick_and_place" for row in rows) / n
    return [str(n), f"{success:.2f}", f"{lifted:.2f}", f"{sum(row['steps'] for row in rows) / n:.1f}"]
