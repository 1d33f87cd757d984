"""`sami run`: drive an environment or a robot with a model file, episode by episode."""

from __future__ import annotations

import json as json_module
import math
import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..drive.load_adapter import HELP

if TYPE_CHECKING:
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.loop.report import LoopReport
    from sami_runtime.loop.run_episode import OnStep
    from sami_runtime.loop.tick import StepRecord
    from sami_runtime.recording.replay import Shadow
    from sami_runtime.safety.limits import Limits

    from ..show.film import Film

PREWARM_S, AWAKE_S = 0.0007, 0.0003
"""How long before each tick of a paced run the policy is warmed up, and the core kept awake [s]."""


def run(
    env: Annotated[str | None, typer.Option(help="Environment, e.g. panda; the model's own if left out.")] = None,
    model: Annotated[Path | None, typer.Option(help="Model file; models/ENV-satesac.onnx if left out.")] = None,
    adapter: Annotated[
        str | None, typer.Option(metavar="MODULE:FACTORY", help=f"Instead of a simulator: {HELP}")
    ] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes; 20 in a simulator, 1 on a robot.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Most steps of an episode.")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Task set to draw from: training, moderate, extreme; all if left out.")
    ] = None,
    mass: Annotated[float | None, typer.Option(help="Fix the mass: the cube's in kg, or a robot's scale.")] = None,
    friction: Annotated[float | None, typer.Option(help="Fix the table's lateral friction (Panda).")] = None,
    damping: Annotated[float | None, typer.Option(help="Fix the scale of the joints' damping (MuJoCo).")] = None,
    cripple: Annotated[
        str | None, typer.Option(help="Fix the crippled joints or legs, e.g. 3 or 0+4 or none (MuJoCo).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first episode; the next ones count on.")] = 0,
    render: Annotated[str | None, typer.Option(help="gif writes a file, human opens a window.")] = None,
    gif: Annotated[
        Path | None, typer.Option(help="Where --render gif writes; NAME.gif of the model if left out.")
    ] = None,
    real_time: Annotated[
        bool,
        typer.Option(
            "--real-time", help="Act at the policy's rate, warmed up before each tick; else as fast as it goes."
        ),
    ] = False,
    limits: Annotated[Path | None, typer.Option(help="What may be written: NAME.toml or NAME.json.")] = None,
    gap: Annotated[
        str, typer.Option(metavar="FILE", help="Gap to reality: NAME.toml or NAME.json, or modest, which comes along.")
    ] = "",
    record: Annotated[Path | None, typer.Option(help="Record every tick to NAME.mcap, for `sami replay`.")] = None,
    shadow: Annotated[
        Path | None, typer.Option(help="A second model that follows, and would have acted otherwise where?")
    ] = None,
    shadow_tolerance: Annotated[
        float, typer.Option(min=0.0, help="Difference of an action that still counts as alike.")
    ] = 0.0,
    provider: Annotated[str, typer.Option(help="What runs the graph: cpu, cuda, ...")] = "cpu",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and infer, and write nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Run a policy and watch it adapt: the hidden task, what came of it, and how the policy's context moves."""
    from sami_runtime.adapters import Adapter, DryRun, Gapped, require_compatible
    from sami_runtime.clock import ManualClock, MonotonicClock
    from sami_runtime.errors import SamiError
    from sami_runtime.loop.report import LoopReport
    from sami_runtime.loop.run_episode import run_episode
    from sami_runtime.loop.stopping import fatal_signals_raise
    from sami_runtime.recording.recorder import Recorder
    from sami_runtime.recording.replay import Shadow
    from sami_runtime.safety.gate import SafetyGate
    from sami_runtime.session.session import Session
    from sami_runtime.session.telemetry import Telemetry

    from ..drive import world as worlds
    from ..drive.model_and_env import model_and_environment
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
    session = Session.load(model, provider=provider)
    profile, allowed = _profile(gap), _limits(limits, bool(gap) or world.real, bool(gap))
    if shadow_tolerance and not shadow:
        raise SamiError("--shadow-tolerance says what is alike in a second model; name that one with --shadow.")
    if world.real and profile is not None and (profile.action_latency_s or profile.actuator_lag_s):
        raise SamiError(
            "a gap with action_latency_s or actuator_lag_s would write to the robot what the gate did not allow; leave "
            "them out of --gap, they are for simulators."
        )
    follower = Shadow(Session.load(shadow, provider=provider), session.contract, shadow_tolerance) if shadow else None
    # The simulator's time is the loop's, so that ages and rates mean the same whether it runs in real time or not.
    paced = real_time or render == "human" or world.real
    clock = MonotonicClock(AWAKE_S) if paced else ManualClock()
    film = Film(film_path, session.contract.rate_hz) if film_path else None
    rows: list[told.Row] = []
    total = LoopReport()
    with ExitStack() as closing:
        closing.enter_context(fatal_signals_raise())  # also between two episodes, recordings are closed
        if not json:
            closing.callback(lambda: print(_ending(total, follower, film, record), end=""))
        robot: Any = world.make(clock)
        closing.callback(robot.close)
        behind: Adapter = robot if profile is None else Gapped(robot, profile, session.contract.rate_hz)
        driven = DryRun(behind) if dry_run else behind
        require_compatible(session.contract, driven)  # before a recording is begun
        gate = SafetyGate(driven, session.contract, allowed)
        telemetry = Telemetry(session.contract)
        watching: list[OnStep] = [total.add]
        live = closing.enter_context(LiveLine(telemetry))
        if record:
            facts = {"env": world.name, "seed": seed, "dry_run": dry_run, "gap": profile and profile.to_dict()}
            watching.append(closing.enter_context(Recorder(record, session, allowed, facts)))
        if follower:
            watching.append(follower)
        if film is not None:
            closing.callback(film.save)
        if not json:
            watching.append(live)
            print(told.header(world, telemetry))
        for number in range(episodes or (1 if world.real else 20)):
            skills: Counter[str] = Counter()
            rewards: list[float] = []

            def watch(step: StepRecord, skills: Counter[str] = skills, rewards: list[float] = rewards) -> None:
                if "reward" in step.info:
                    rewards.append(step.info["reward"])
                if world.goal:
                    skills[step.info.get("skill", "none")] += 1
                for each in watching:
                    each(step)
                if film is not None and film.wants(step):
                    film.add(robot.render(), step, sum(rewards))

            report = run_episode(
                session,
                driven,
                seed + number,
                steps,
                clock=clock,
                on_step=watch,
                gate=gate,
                prewarm_s=PREWARM_S if paced else 0.0,
                telemetry=telemetry,
            )
            total_reward = sum(rewards) if rewards else None
            rows.append(told.row_of(number, report, world, skills, total_reward, follower, telemetry))
            text = json_module.dumps(rows[-1]) if json else told.line(rows[-1], world, report)
            live.clear()
            print(text, flush=True)
        if world.features and not json and not dry_run:
            told.summary(rows, world.features)


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


def _profile(gap: str) -> GapProfile | None:
    from sami_runtime.gap.profile import GapProfile

    return GapProfile.load(gap) if gap else None


def _limits(path: Path | None, aging: bool, noisy: bool) -> Limits:
    """The limits of a file; `aging` where the world goes on while nothing is written, `noisy` behind a gap."""
    from sami_runtime.safety.limits import Limits

    limits = Limits.load(path) if path else Limits()
    if not aging:
        # A simulator stands still while nothing is written. Behind a gap it does not.
        still = {name: math.inf for name in ("max_age_s", "max_pause_s") if getattr(limits, name) is None}
        limits = limits.model_copy(update=still)
    if noisy and "out_of_bounds" not in limits.model_fields_set:
        # Errors that a gap adds to a signal at its bounds lead beyond them, and were asked for.
        limits = limits.model_copy(update={"out_of_bounds": "act"})
    return limits


def _ending(total: LoopReport, follower: Shadow | None, film: Film | None, record: Path | None) -> str:
    """What the run came to, printed also where it was cut off; nothing if it never began."""
    if not total.ticks:
        return ""
    parts = [str(total)]
    if follower:
        parts.append(f"shadow: {follower.comparison}")
    parts += [f"wrote {path}" for path in (record, film.path if film and film.frames else None) if path]
    return "\n".join(parts) + "\n"
