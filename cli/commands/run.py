"""`sami run`: drive an environment or a robot with a model file, episode by episode."""

from __future__ import annotations

import json as json_module
import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..drive.load_adapter import HELP
from ..drive.model_file import MODEL_HELP, model_file

if TYPE_CHECKING:
    from sami_runtime.loop.tick import StepRecord
    from sami_runtime.run import Run

    from ..show.film import Film

HIDDEN_TASK, LOOP, OUTPUT = "Hidden task of each episode, in a simulator", "Loop", "What is kept and shown"
"""Panels of the help."""
PREWARM_S, AWAKE_S = 0.0007, 0.0003
"""How long before each tick of a paced run the policy is warmed up, and the core kept awake [s]."""


def run(
    env: Annotated[str | None, typer.Option(help="Environment, e.g. panda; the model's own if left out.")] = None,
    model: Annotated[
        Path | None, typer.Option(help=f"{MODEL_HELP}; ENV-satesac if left out.", callback=model_file)
    ] = None,
    adapter: Annotated[
        str | None, typer.Option(metavar="MODULE:FACTORY", help=f"Instead of a simulator: {HELP}")
    ] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes; 20 in a simulator, 1 on a robot.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Most steps of an episode.")] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Task set to draw from: training, moderate, extreme; all if left out.", rich_help_panel=HIDDEN_TASK
        ),
    ] = None,
    mass: Annotated[
        float | None,
        typer.Option(help="Fix the mass: the cube's in kg, or a robot's scale.", rich_help_panel=HIDDEN_TASK),
    ] = None,
    friction: Annotated[
        float | None, typer.Option(help="Fix the table's lateral friction (Panda).", rich_help_panel=HIDDEN_TASK)
    ] = None,
    damping: Annotated[
        float | None, typer.Option(help="Fix the scale of the joints' damping (MuJoCo).", rich_help_panel=HIDDEN_TASK)
    ] = None,
    cripple: Annotated[
        str | None,
        typer.Option(
            help="Fix the crippled joints or legs, e.g. 3 or 0+4 or none (MuJoCo).", rich_help_panel=HIDDEN_TASK
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of the first episode; the next ones count on.", rich_help_panel=HIDDEN_TASK),
    ] = 0,
    render: Annotated[
        str | None, typer.Option(help="gif writes a file, human opens a window.", rich_help_panel=OUTPUT)
    ] = None,
    gif: Annotated[
        Path | None,
        typer.Option(help="Where --render gif writes; NAME.gif of the model if left out.", rich_help_panel=OUTPUT),
    ] = None,
    real_time: Annotated[
        bool,
        typer.Option(
            "--real-time",
            help="Act at the policy's rate, warmed up before each tick; else as fast as it goes.",
            rich_help_panel=LOOP,
        ),
    ] = False,
    watch_model: Annotated[
        bool,
        typer.Option(
            "--watch-model",
            help="When the model file changes on disk, the next episode is driven by the new one.",
            rich_help_panel=LOOP,
        ),
    ] = False,
    limits: Annotated[
        Path | None, typer.Option(help="What may be written: NAME.toml or NAME.json.", rich_help_panel=LOOP)
    ] = None,
    gap: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Gap to reality: NAME.toml or NAME.json, or modest, which comes along.",
            rich_help_panel=LOOP,
        ),
    ] = "",
    record: Annotated[
        Path | None,
        typer.Option(help="Record every tick to NAME.mcap, for `sami replay`.", rich_help_panel=OUTPUT),
    ] = None,
    shadow: Annotated[
        Path | None,
        typer.Option(
            help="A second model that follows, and would have acted otherwise where?",
            callback=model_file,
            rich_help_panel=LOOP,
        ),
    ] = None,
    shadow_tolerance: Annotated[
        float,
        typer.Option(min=0.0, help="Difference of an action that still counts as alike.", rich_help_panel=LOOP),
    ] = 0.0,
    provider: Annotated[str, typer.Option(help="What runs the graph: cpu, cuda, ...", rich_help_panel=LOOP)] = "cpu",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and infer, and write nothing.", rich_help_panel=LOOP)
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Run a policy and watch it adapt: the hidden task, what came of it, and how the policy's context moves."""
    from sami_runtime.clock import ManualClock, MonotonicClock
    from sami_runtime.errors import SamiError
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.loop.stopping import fatal_signals_raise
    from sami_runtime.recording.replay import Shadow
    from sami_runtime.run import Run
    from sami_runtime.safety.limits import Limits
    from sami_runtime.session.session import Session

    from ..drive import world as worlds
    from ..drive.model_and_env import model_and_environment
    from ..drive.watched_model import WatchedModel
    from ..show import episodes as told
    from ..show.film import Film
    from ..show.live import LiveLine

    render = _renderer(render, gif, dry_run)
    fixed = {"mass": mass, "friction": friction, "damping": damping}
    if adapter is None:
        model, spec = model_and_environment(model, env)
        mode = "rgb_array" if render == "gif" else render
        world = worlds.simulator(spec, tasks or "all", {**fixed, "crippled": worlds.parts(cripple)}, mode)
    else:
        given = {"env": env, "tasks": tasks, **fixed, "cripple": cripple, "render": render}
        worlds.refuse_simulator_options(given)
        if model is None:
            raise SamiError(f"which model is to drive {adapter}? Name its file with --model.")
        world = worlds.robot(adapter)
    film_path = _film_path(gif, model) if render == "gif" else None
    watched = WatchedModel(model) if watch_model else None
    session = Session.load(model, provider=provider)
    profile, allowed = GapProfile.load(gap) if gap else None, Limits.load(limits) if limits else None
    if shadow_tolerance and not shadow:
        raise SamiError("--shadow-tolerance says what is alike in a second model; name that one with --shadow.")
    follower = Shadow(Session.load(shadow, provider=provider), session.contract, shadow_tolerance) if shadow else None
    # The simulator's time is the loop's, so that ages and rates mean the same whether it runs in real time or not.
    paced = real_time or render == "human" or world.real
    clock = MonotonicClock(AWAKE_S) if paced else ManualClock()
    film = Film(film_path, session.contract.rate_hz) if film_path else None
    rows: list[told.Row] = []
    hopeless = told.at_floor(session.contract)
    with ExitStack() as closing:
        closing.enter_context(fatal_signals_raise())  # also while the adapter is made and closed
        robot: Any = world.make(clock)
        closing.callback(robot.close)
        driving = Run(
            session,
            robot,
            clock,
            simulator=not world.real,
            limits=allowed,
            gap=profile,
            dry_run=dry_run,
            prewarm_s=PREWARM_S if paced else 0.0,
            record=record,
            facts={"env": world.name, "seed": seed},
            shadow=follower,
        )
        if not json:
            closing.callback(lambda: print(_ending(driving, film, record), end=""))
        closing.enter_context(driving)
        live = closing.enter_context(LiveLine(driving.telemetry))
        if film is not None:
            closing.callback(film.save)
        if not json:
            print(told.header(world, driving.telemetry, hopeless))
        for number in range(episodes or (1 if world.real else 20)):
            skills: Counter[str] = Counter()
            rewards: list[float] = []
            if watched and (note := watched.take_over(driving)):
                typer.echo(note, err=True)
                hopeless = told.at_floor(driving.session.contract)

            def watch(step: StepRecord, skills: Counter[str] = skills, rewards: list[float] = rewards) -> None:
                if "reward" in step.info:
                    rewards.append(step.info["reward"])
                if "skill" in step.info:
                    skills[step.info["skill"]] += 1
                if not json:
                    live(step)
                if film is not None and film.wants(step):
                    film.add(robot.render(), step, sum(rewards))

            report = driving.episode(seed + number, steps, watch)
            total_reward = sum(rewards) if rewards else None
            rows.append(told.row_of(number, report, world, skills, total_reward, follower, driving.telemetry))
            text = json_module.dumps(rows[-1]) if json else told.line(rows[-1], world, report, hopeless)
            live.clear()
            print(text, flush=True)
        if world.features and not json and not dry_run:
            told.summary(rows, world, hopeless)


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
    if path.suffix != ".gif" or path.is_dir() or not os.access(path.parent, os.W_OK):
        raise SamiError(f"cannot write {path}; --gif must be NAME.gif in a folder that exists and may be written to.")
    return path


def _ending(driving: Run, film: Film | None, record: Path | None) -> str:
    """Return what the run came to, printed also where it was cut off; nothing if it never began."""
    if not driving.total.ticks:
        return ""
    parts = [str(driving.total)]
    if driving.shadow:
        parts.append(f"shadow: {driving.shadow.comparison}")
    parts += [f"wrote {path}" for path in (record, film.path if film and film.frames else None) if path]
    return "\n".join(parts) + "\n"
