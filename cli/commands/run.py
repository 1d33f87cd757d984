"""`sami run`: drive an environment or a robot with a model file, episode by episode."""

from __future__ import annotations

import json as json_module
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..load_adapter import CONFIG_HELP, DELAY_HELP, FALLBACK_HELP, HELP, SLOWER_HELP
from ..model_file import MODEL_HELP, Expected, Trusted, model_file

if TYPE_CHECKING:
    from sami_runtime.loop.tick import StepRecord

HIDDEN_TASK, LOOP, PERSON, OUTPUT = (
    "Hidden task of each episode, in a simulator",
    "Loop",
    "A person beside the loop",
    "What is kept and shown",
)
"""Panels of the help."""
PRIORITY_HELP = "Real-time priority of the loop (SCHED_FIFO), where cores are busy: 50."
PREWARM_S, AWAKE_S = 0.0007, 0.0003
"""How long before each tick of a paced run the policy is warmed up, and the core kept awake [s]."""


def run(
    env: Annotated[str | None, typer.Option(help="Environment, e.g. panda; the model's own if left out.")] = None,
    model: Annotated[
        Path | None, typer.Option(help=f"{MODEL_HELP}; ENV-satesac if left out.", callback=model_file)
    ] = None,
    expect_sha256: Expected = None,
    trusted: Trusted = None,
    adapter: Annotated[
        str | None, typer.Option(metavar="MODULE:FACTORY", help=f"Instead of a simulator: {HELP}")
    ] = None,
    adapter_config: Annotated[Path | None, typer.Option(help=CONFIG_HELP)] = None,
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
    fix: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Fix any feature of the task.", rich_help_panel=HIDDEN_TASK),
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
    watchdog: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.001,
            help="Stop the robot from a process of its own when the loop is silent for so long, or killed.",
            rich_help_panel=LOOP,
        ),
    ] = None,
    emergency_stop: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FACTORY",
            help="How the watchdog does it; emergency_stop of the adapter's module if left out.",
            rich_help_panel=LOOP,
        ),
    ] = None,
    loop_hz: Annotated[
        float | None,
        typer.Option(
            help="Write to a robot so often a second, a multiple of the policy's rate; that if left out.",
            rich_help_panel=LOOP,
        ),
    ] = None,
    slower: Annotated[int | None, typer.Option(min=1, metavar="N", help=SLOWER_HELP, rich_help_panel=LOOP)] = None,
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
    unguarded: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Turn off what judges a robot's observations by default: ranges, ood, frozen, by commas.",
            rich_help_panel=LOOP,
        ),
    ] = None,
    fallback: Annotated[
        str | None, typer.Option(metavar="MODULE:FACTORY", help=FALLBACK_HELP, rich_help_panel=LOOP)
    ] = None,
    gap: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Gap to reality: NAME.toml or NAME.json, or modest, which comes along.",
            rich_help_panel=LOOP,
        ),
    ] = "",
    command_delay: Annotated[float | None, typer.Option(min=0.0, help=DELAY_HELP, rich_help_panel=LOOP)] = None,
    record: Annotated[
        Path | None, typer.Option(help="Record every tick to NAME.mcap, for `sami replay`.", rich_help_panel=OUTPUT)
    ] = None,
    browse: Annotated[
        bool, typer.Option("--live", help="Watch it in a browser of this machine.", rich_help_panel=OUTPUT)
    ] = False,
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
    priority: Annotated[int | None, typer.Option(min=1, max=99, help=PRIORITY_HELP, rich_help_panel=LOOP)] = None,
    lock_memory: Annotated[
        bool, typer.Option("--lock-memory", help="Keep all memory from being swapped out.", rich_help_panel=LOOP)
    ] = False,
    excite: Annotated[
        bool,
        typer.Option(
            "--excite", help="Rest, then small steps in the policy's place, for `sami fit-gap`.", rich_help_panel=LOOP
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and infer, and write nothing.", rich_help_panel=LOOP)
    ] = False,
    keys: Annotated[
        bool | None,
        typer.Option(
            help="Pause, take over, judge and stop by keys; at a terminal in real time if left out, but for --json.",
            rich_help_panel=PERSON,
        ),
    ] = None,
    pause: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="S",
            help="Seconds between two episodes; on a robot with keys until Enter if left out, else none.",
            rich_help_panel=PERSON,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Run a policy and watch it adapt: the hidden task, what came of it, and how the policy's context moves."""
    from sami_runtime import realtime
    from sami_runtime.clock import ManualClock, MonotonicClock
    from sami_runtime.errors import SamiError
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.loop.pilot import Ending
    from sami_runtime.loop.stopping import fatal_signals_raise
    from sami_runtime.recording.replay import Shadow
    from sami_runtime.recording.view.feed import watching
    from sami_runtime.run import Run
    from sami_runtime.safety.limits import Limits
    from sami_runtime.session.admission import Admission
    from sami_runtime.values import number_in

    from .. import attend
    from .. import episodes as told
    from .. import target as worlds
    from ..film import Film, film_path_of, renderer
    from ..live import LiveLine
    from ..load_adapter import load_fallback, read_settings
    from ..model_and_env import model_and_environment
    from ..watchdog_option import guards_off, safety_warnings_shown, watchdog_of
    from ..watched_model import WatchedModel

    render = renderer(render, gif, dry_run)
    fixed = {"mass": mass, "friction": friction, "damping": damping}
    named = worlds.fixed(fix)
    settings = read_settings(adapter_config)
    if adapter is None:
        robots = {"adapter-config": adapter_config, "loop-hz": loop_hz, "fallback": fallback, "slower": slower}
        robots["unguarded"] = unguarded
        worlds.refuse_robot_options(robots)
        model, spec = model_and_environment(model, env, Admission(expect_sha256, trusted, rehearsed=False))
        mode = "rgb_array" if render == "gif" else render
        world = worlds.simulator(spec, tasks or "all", {**fixed, "crippled": worlds.parts(cripple), **named}, mode)
    else:
        given = {"env": env, "tasks": tasks, **fixed, "cripple": cripple, "fix": fix, "render": render}
        worlds.refuse_simulator_options(given)
        if model is None:
            raise SamiError(f"which model is to drive {adapter}? Name its file with --model.")
        world = worlds.robot(adapter, settings)
    dog = watchdog_of(adapter, watchdog, emergency_stop)
    off = guards_off(unguarded)
    film_path = film_path_of(gif, model) if render == "gif" else None
    watched = WatchedModel(model) if watch_model else None
    admission = Admission(expect_sha256, trusted, rehearsed=world.real)
    session = admission.load(model, provider)
    profile, allowed = GapProfile.load(gap) if gap else None, Limits.load(limits) if limits else None
    if shadow_tolerance and not shadow:
        raise SamiError("--shadow-tolerance says what is alike in a second model; name that one with --shadow.")
    follower = Shadow(admission.another.load(shadow, provider), session.contract, shadow_tolerance) if shadow else None
    # The simulator's time is the loop's, so that ages and rates mean the same whether it runs in real time or not.
    paced = real_time or render == "human" or world.real
    if priority and not paced:
        raise SamiError("--priority is for a loop that sleeps between its ticks; add --real-time.")
    clock = MonotonicClock(AWAKE_S) if paced else ManualClock()
    listens = attend.listens(keys, paced and not json)
    film = Film(film_path, session.contract.rate_hz) if film_path else None
    rows, hopeless = list[told.Row](), told.at_floor(session.contract)
    with ExitStack() as closing:
        closing.enter_context(fatal_signals_raise())  # also while the adapter is made and closed
        if dog is not None:
            closing.enter_context(dog)  # it can stop the robot before anything moves that
        facts = {"env": world.name, "seed": seed, **({"excited": True} if excite else {})}
        made = {"simulator": not world.real, "dry_run": dry_run, "gap": bool(gap)}
        feed = closing.enter_context(watching(browse, session, session.contract.name, facts | made))
        closing.enter_context(realtime.real_time(priority, lock_memory))
        robot: Any = world.make(clock, session.contract)
        closing.callback(robot.close)
        pilot = attend.keyboard(closing, session.contract, allowed) if listens else None
        excited = attend.excitation(pilot, session.contract, allowed, world.real, loop_hz, seed) if excite else pilot
        with safety_warnings_shown():
            driving = Run(
                session,
                robot,
                clock,
                simulator=not world.real,
                limits=allowed,
                unguarded=off,
                gap=profile,
                dry_run=dry_run,
                prewarm_s=PREWARM_S if paced else 0.0,
                record=record,
                facts=facts,
                shadow=follower,
                watchdog=dog,
                loop_hz=loop_hz,
                slower=slower or 1,
                command_delay_s=command_delay,
                fallback=load_fallback(fallback, clock, session.contract, settings) if fallback else None,
                pilot=excited,
                admission=admission,
            )
        if not json:
            closing.callback(lambda: print(told.ending(driving, film, record), end=""))
        closing.enter_context(driving)
        live = closing.enter_context(LiveLine(driving.telemetry, status=attend.status_of(pilot)))
        if film is not None:
            closing.callback(film.save)
        if not json:
            print(told.header(world, driving.telemetry, hopeless))
        number, wanted, going = 0, episodes or (1 if world.real else 20), True
        wait_s = 0.0 if pause is None and not (pilot and world.real) else pause
        while going and number < wanted:
            skills: Counter[str] = Counter()
            rewards: list[float] = []
            if watched and (note := watched.take_over(driving)):
                typer.echo(note, err=True)
                hopeless = told.at_floor(driving.session.contract)

            def watch(step: StepRecord, skills: Counter[str] = skills, rewards: list[float] = rewards) -> None:
                if (reward := number_in(step.info, "reward")) is not None:
                    rewards.append(reward)
                if "skill" in step.info:
                    skills[str(step.info["skill"])] += 1
                feed(step)
                if not json:
                    live(step)
                if film is not None and film.wants(step):
                    film.add(robot.render(), step, sum(rewards))

            report = driving.episode(seed + number, steps, watch)
            total_reward = sum(rewards) if rewards else None
            row = told.row_of(number, report, world, skills, total_reward, follower, driving.telemetry)
            live.clear()
            if not json:
                print(told.line(row, world, report, hopeless), flush=True)
            said, going = attend.between(driving, report, pilot, wait_s, last=number + 1 == wanted)
            feed.ended(said)
            if said is not report:
                row |= {"ended": said.ended.value, "success": said.success}
            if json:
                print(json_module.dumps(row, default=str), flush=True)
            if said.ended is not Ending.REDO:
                rows.append(row)
                number += 1
        if world.real and not json and (text := told.successes(rows)):
            print(text)
        if world.features and not json and not dry_run:
            told.summary(rows, world, hopeless)
