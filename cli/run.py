"""`sami run`: drive an environment with a model file, episode by episode."""

from __future__ import annotations

import json as json_module
import math
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sami_runtime.adapters import Adapter
    from sami_runtime.limits import Limits
    from sami_runtime.loop import EpisodeReport, OnStep
    from sami_runtime.replay import Shadow
    from sami_runtime.report import LoopReport
    from sami_runtime.tick import StepRecord
    from sami_train.tasks import Task

    from .film import Film

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
    limits: Annotated[Path | None, typer.Option(help="What may be written: NAME.toml or NAME.json.")] = None,
    record: Annotated[Path | None, typer.Option(help="Record every tick to NAME.mcap, for `sami replay`.")] = None,
    shadow: Annotated[
        Path | None, typer.Option(help="A second model that follows, and would have acted otherwise where?")
    ] = None,
    shadow_tolerance: Annotated[
        float, typer.Option(min=0.0, help="Difference of an action that still counts as alike.")
    ] = 0.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and infer, and write nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Run a policy and watch it adapt: mass, friction, skill, steps, success, and how its context moves."""
    from sami_runtime.adapters import DryRun, PandaAdapter
    from sami_runtime.clock import ManualClock, MonotonicClock
    from sami_runtime.loop import run_episode
    from sami_runtime.record import Recorder
    from sami_runtime.replay import Shadow
    from sami_runtime.report import LoopReport
    from sami_runtime.safety import SafetyGate
    from sami_runtime.session import Session
    from sami_train.envs import environment

    from .film import Film

    render = _renderer(render, gif, dry_run)
    film_path = _film_path(gif, model) if render == "gif" else None
    spec = environment(env)
    session = Session.load(model)
    allowed = _limits(limits)
    follower = Shadow(Session.load(shadow), session.contract, shadow_tolerance) if shadow else None
    chosen = _tasks(spec.tasks, tasks, {"mass": mass, "friction": friction})
    # The simulator's time is the loop's, so that ages and rates mean the same whether it runs in real time or not.
    clock = MonotonicClock() if real_time or render == "human" else ManualClock()
    film = Film(film_path, session.contract.rate_hz) if film_path else None
    rows: list[dict[str, Any]] = []
    total = LoopReport()
    with ExitStack() as closing:
        if not json:
            closing.callback(lambda: print(_ending(total, follower, film, record), end=""))
        arm = PandaAdapter(spec.make(tasks=chosen, render_mode="rgb_array" if render == "gif" else render), clock)
        closing.callback(arm.close)
        adapter: Adapter = DryRun(arm) if dry_run else arm
        gate = SafetyGate(adapter, session.contract, allowed)
        watching: list[OnStep] = [total.add]
        if record:
            facts = {"env": env, "seed": seed, "dry_run": dry_run}
            watching.append(closing.enter_context(Recorder(record, session, allowed, facts)))
        if follower:
            watching.append(follower)
        if film is not None:
            closing.callback(film.save)
            watching.append(lambda step: film.add(arm.render(), step))
        if not json:
            print(f"{'mass':>6} {'friction':>8}  {'skill':<14} {'steps':>5}  success  context moves")
        for number in range(episodes):
            skills: Counter[str] = Counter()

            def watch(step: StepRecord, skills: Counter[str] = skills) -> None:
                skills[step.info.get("skill", "none")] += 1
                for each in watching:
                    each(step)

            report = run_episode(session, adapter, seed + number, clock=clock, on_step=watch, gate=gate)
            rows.append(_row(number, report, skills, follower))
            print(json_module.dumps(rows[-1]) if json else _line(rows[-1], report), flush=True)
        if not json and not dry_run:
            _summary(rows)


def _renderer(render: str | None, gif: Path | None, dry_run: bool) -> str | None:
    from sami_runtime.errors import SamiError, UnknownName

    if render not in (None, "gif", "human"):
        raise UnknownName("renderer", str(render), ["gif", "human"])
    render = render or ("gif" if gif else None)
    if render == "gif" and dry_run:
        raise SamiError("--dry-run moves nothing that could be filmed; leave out --render gif.")
    return render


def _film_path(gif: Path | None, model: Path) -> Path:
    from sami_runtime.errors import SamiError

    path = gif or Path(f"{model.stem}.gif")
    if path.suffix != ".gif" or not path.parent.is_dir():
        raise SamiError(f"cannot write {path}; --gif must be NAME.gif in a folder that exists.")
    return path


def _limits(path: Path | None) -> Limits:
    from sami_runtime.limits import Limits

    limits = Limits.load(path) if path else Limits()
    if limits.max_age_s is None:
        # A simulator stands still while nothing is written: what it observes does not age.
        limits = limits.model_copy(update={"max_age_s": math.inf})
    return limits


def _tasks(space: Any, name: str, fixed: Mapping[str, float | None]) -> list[Task]:
    """The tasks to draw from: a set's (or all sets'), with some features fixed."""
    from sami_runtime.errors import UnknownName

    if name not in (*space.sets, "all"):
        raise UnknownName("task set", name, [*space.sets, "all"])
    names = list(space.sets) if name == "all" else [name]
    tasks = [task for each in names for task in space.resolve(each)]
    given = {feature: value for feature, value in fixed.items() if value is not None}
    return [space.check({**task, **given}) for task in tasks]


def _row(number: int, report: EpisodeReport, skills: Counter[str], follower: Shadow | None) -> dict[str, Any]:
    # An episode is named after its rarest skill that it needed: any lifting makes it Pick&Place (paper, appendix C.1).
    skill = next((s for s in ("pick_and_place", "other", "push") if skills[s]), "none")
    loop = report.loop
    row = {
        "episode": number,
        **report.info.get("task", {"mass": None, "friction": None}),
        "skill": skill,
        "steps": report.steps,
        "success": report.info.get("is_success") and bool(report.info["is_success"]),
        "context": [round(float(c), 4) for c in report.contexts[-1]],
        "infer_us": round(1e6 * float(loop.times[:, 1].mean()), 1),
        "outcomes": {outcome.value: count for outcome, count in loop.outcomes.items()},
        "missed": loop.missed,
        "limited": dict(loop.limited),
    }
    return row if follower is None else {**row, "shadow": follower.comparison.summary()}


def _line(row: Mapping[str, Any], report: EpisodeReport) -> str:
    import numpy as np

    speed = np.linalg.norm(np.diff(report.contexts, axis=0), axis=1)
    scale = max(float(speed.max(initial=0.0)), 1e-9)
    sparks = "".join(SPARKS[min(int(s / scale * len(SPARKS)), len(SPARKS) - 1)] for s in speed)
    won = {True: "yes", False: "no", None: "-"}[row["success"]]
    mass, friction = ("-" if row[name] is None else f"{row[name]:g}" for name in ("mass", "friction"))
    return f"{mass:>6} {friction:>8}  {row['skill']:<14} {row['steps']:>5}  {won:<7}  {sparks}"


def _ending(total: LoopReport, follower: Shadow | None, film: Film | None, record: Path | None) -> str:
    """What the run came to, printed also where it was cut off; nothing if it never began."""
    if not total.ticks:
        return ""
    parts = [str(total)]
    if follower:
        parts.append(f"shadow: {follower.comparison}")
    parts += [f"wrote {path}" for path in (record, film.path if film and film.frames else None) if path]
    return "\n".join(parts) + "\n"


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
