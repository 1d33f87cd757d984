"""`sami run`: drive an environment with a model file, episode by episode."""

from __future__ import annotations

import json as json_module
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sami_runtime.loop import EpisodeReport
    from sami_train.tasks import Task, TaskSpace

SPARKS = "▁▂▃▄▅▆▇█"
SPARKS_SHOWN = 50
"""Most bars that a line shows of how the context moves."""


def run(
    env: Annotated[str, typer.Option(help="Environment, e.g. panda or half-cheetah.")] = "panda",
    model: Annotated[Path | None, typer.Option(help="Model file; models/ENV-satesac.onnx if left out.")] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to run.")] = 20,
    steps: Annotated[int | None, typer.Option(min=1, help="Most steps of an episode.")] = None,
    tasks: Annotated[str, typer.Option(help="Task set to draw from: training, moderate, extreme, or all.")] = "all",
    mass: Annotated[float | None, typer.Option(help="Fix the mass: the cube's in kg, or a robot's scale.")] = None,
    friction: Annotated[float | None, typer.Option(help="Fix the table's lateral friction (Panda).")] = None,
    damping: Annotated[float | None, typer.Option(help="Fix the scale of the joints' damping (MuJoCo).")] = None,
    cripple: Annotated[
        str | None, typer.Option(help="Fix the crippled joints or legs, e.g. 3 or 0,4 or none (MuJoCo).")
    ] = None,
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
    """Run a policy and watch it adapt: the hidden task, what came of it, and how the policy's context moves."""
    from sami_runtime.clock import MonotonicClock
    from sami_runtime.errors import SamiError, UnknownName
    from sami_runtime.loop import StepRecord, run_episode
    from sami_runtime.session import Session
    from sami_train.envs import environment

    from .film import Film

    spec = environment(env)
    model = model or Path("models") / f"{spec.name}-satesac.onnx"
    if render not in (None, "gif", "human"):
        raise UnknownName("renderer", str(render), ["gif", "human"])
    if gif is not None and render is None:
        render = "gif"
    film_path = gif or Path(f"{model.stem}.gif")
    if render == "gif" and (film_path.suffix != ".gif" or not film_path.parent.is_dir()):
        raise SamiError(f"cannot write {film_path}; --gif must be NAME.gif in a folder that exists.")
    session = Session.load(model)
    fixed = {"mass": mass, "friction": friction, "damping": damping, "crippled": _parts(cripple)}
    chosen = _tasks(spec.tasks, tasks, fixed)
    world = spec.make(tasks=chosen, render_mode={"gif": "rgb_array", None: None}.get(render, render))
    adapter = spec.adapter(world)
    clock = MonotonicClock() if real_time or render == "human" else None
    film = Film(film_path, session.contract.rate_hz) if render == "gif" else None
    rows: list[dict[str, Any]] = []
    features = [feature.name for feature in spec.tasks.features]
    try:
        if not json:
            print(_header(features, spec.goal is not None))
        for number in range(episodes):
            skills: Counter[str] = Counter()
            rewards: list[float] = []

            def watch(record: StepRecord, skills: Counter[str] = skills, rewards: list[float] = rewards) -> None:
                rewards.append(record.info["reward"])
                if "skill" in record.info:
                    skills[record.info["skill"]] += 1
                if film is not None and film.wants(record):
                    film.add(adapter.render(), record, sum(rewards))

            report = run_episode(session, adapter, seed + number, steps, clock, watch)
            row = _row(number, report, skills, sum(rewards))
            rows.append(row)
            if json:
                print(json_module.dumps(row), flush=True)
            else:
                print(_line(row, features, report), flush=True)
    finally:
        adapter.close()
        if film is not None and film.frames:
            film.save()
    if not json:
        _summary(rows, features)
        if film is not None:
            print(f"wrote {film.path}")


def _parts(text: str | None) -> Any:
    """Numbers of crippled parts; text that is none is left for the task's own check to refuse."""
    if text is None or text == "none":
        return text and []
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        return text


def _tasks(space: TaskSpace, name: str, fixed: Mapping[str, Any]) -> list[Task]:
    """The tasks to draw from: a set's (or all sets'), with some features fixed."""
    from sami_runtime.errors import UnknownName

    if name not in (*space.sets, "all"):
        raise UnknownName("task set", name, [*space.sets, "all"])
    names = list(space.sets) if name == "all" else [name]
    tasks = [task for each in names for task in space.resolve(each)]
    given = {feature: value for feature, value in fixed.items() if value is not None}
    return [space.check({**task, **given}) for task in tasks]


def _row(number: int, report: EpisodeReport, skills: Counter[str], total: float) -> dict[str, Any]:
    row: dict[str, Any] = {"episode": number, **report.info["task"]}
    if skills:
        # An episode is named after its rarest skill that it needed: any lifting makes it Pick&Place (paper, C.1).
        row["skill"] = next(s for s in ("pick_and_place", "other", "push") if skills[s])
    row["steps"] = report.steps
    if "is_success" in report.info:
        row["success"] = bool(report.info["is_success"])
    return row | {
        "return": round(total, 3),
        "context": [round(float(c), 4) for c in report.contexts[-1]],
        "infer_us": round(1e6 * float(report.times[:, 1].mean()), 1),
    }


def _header(features: list[str], goal: bool) -> str:
    names = " ".join(f"{name:>8}" for name in features)
    return (
        f"{names}  "
        + ("skill          " if goal else "")
        + "steps"
        + ("  success" if goal else "    return")
        + ("  context moves")
    )


def _line(row: Mapping[str, Any], features: list[str], report: EpisodeReport) -> str:
    import numpy as np

    from sami_train.tasks import shown

    speed = np.linalg.norm(np.diff(report.contexts, axis=0), axis=1)
    # A long episode is shown in stretches of equal length.
    speed = np.array([part.mean() for part in np.array_split(speed, min(len(speed), SPARKS_SHOWN) or 1) if len(part)])
    scale = max(float(speed.max(initial=0.0)), 1e-9)
    sparks = "".join(SPARKS[min(int(s / scale * len(SPARKS)), len(SPARKS) - 1)] for s in speed)
    task = " ".join(f"{shown(row[name]):>8}" for name in features)
    if "success" in row:
        won = "yes" if row["success"] else "no"
        return f"{task}  {row['skill']:<14} {row['steps']:>5}  {won:<7}  {sparks}"
    return f"{task}  {row['steps']:>5}  {row['return']:>8.1f}  {sparks}"


def _summary(rows: list[dict[str, Any]], features: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from sami_train.tasks import shown

    table = Table(title=f"{len(rows)} episodes", title_justify="left")
    told = ("episodes", "success", "lifted", "steps") if "success" in rows[0] else ("episodes", "return", "steps")
    for name in (*features, *told):
        table.add_column(name, justify="right")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: [row[name] for name in features]):
        groups.setdefault(tuple(shown(row[name]) for name in features), []).append(row)
    for key, same in groups.items():
        table.add_row(*key, *_shares(same))
    table.add_section()
    table.add_row("all", *[""] * (len(features) - 1), *_shares(rows), style="bold")
    Console().print(table)


def _shares(rows: list[dict[str, Any]]) -> list[str]:
    n = len(rows)
    steps = f"{sum(row['steps'] for row in rows) / n:.1f}"
    if "success" not in rows[0]:
        return [str(n), f"{sum(row['return'] for row in rows) / n:.1f}", steps]
    success = sum(row["success"] for row in rows) / n
    lifted = sum(row["skill"] == "pick_and_place" for row in rows) / n
    return [str(n), f"{success:.2f}", f"{lifted:.2f}", steps]
