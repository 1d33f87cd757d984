"""`sami run`: run a model file in a simulator, episode by episode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..model_file import MODEL_HELP, model_file

if TYPE_CHECKING:
    from sami_runtime.robots.robot_file import SimulatorKeys

    from ..episode_loop import Plan

TASK, LOOP, OUTPUT = "Hidden task of each episode", "Loop", "What is kept and shown"
"""Panels of the help."""
HIDDEN = typer.Option(hidden=True)
"""An option that still works, and is not shown: `--fix` and `--set` say the same, or `sami drive`."""
MOVED = (
    "sami run --adapter is deprecated, and the next version does not have it: write its options into a robot.toml and "
    "drive by `sami drive robot.toml`; see docs/reference/robot-file.md."
)


def run(
    env: Annotated[str | None, typer.Option(help="Environment, e.g. panda; the model's own if left out.")] = None,
    model: Annotated[
        Path | None, typer.Option(help=f"{MODEL_HELP}; ENV-satesac if left out.", callback=model_file)
    ] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes; 20 if left out.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Most steps of an episode.")] = None,
    tasks: Annotated[
        str | None,
        typer.Option(help="Task set to draw from: training, moderate, extreme; all if left out.", rich_help_panel=TASK),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Fix a feature of the task: mass=3, friction=0.5, damping=2, crippled=0+4.",
            rich_help_panel=TASK,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the first episode, 0; the next ones count on.", rich_help_panel=TASK),
    ] = None,
    real_time: Annotated[
        bool,
        typer.Option(
            "--real-time",
            help="Act at the policy's rate, warmed up before each tick; else as fast as it goes.",
            rich_help_panel=LOOP,
        ),
    ] = False,
    limits: Annotated[
        Path | None, typer.Option(help="What may be written: NAME.toml or NAME.json.", rich_help_panel=LOOP)
    ] = None,
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Sim-to-real profile: NAME.toml or NAME.json, or modest, which is built in.",
            rich_help_panel=LOOP,
        ),
    ] = None,
    shadow: Annotated[
        Path | None,
        typer.Option(
            help="A second model that follows, and would have acted otherwise where?",
            callback=model_file,
            rich_help_panel=LOOP,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Another key of a run, as in robot.toml, such as provider=cuda; docs/reference/robot-file.md.",
            rich_help_panel=LOOP,
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Record every tick to NAME.mcap, for `sami replay`.", rich_help_panel=OUTPUT)
    ] = None,
    render: Annotated[
        str | None,
        typer.Option(
            metavar="NAME.gif",
            help="Film it to this file, or to MODEL.gif by `gif`; `human` opens a window.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    browse: Annotated[
        bool, typer.Option("--live", help="Watch it in a browser of this machine.", rich_help_panel=OUTPUT)
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.", rich_help_panel=OUTPUT)] = False,
    # What --fix and --render say:
    mass: Annotated[float | None, HIDDEN] = None,
    friction: Annotated[float | None, HIDDEN] = None,
    damping: Annotated[float | None, HIDDEN] = None,
    cripple: Annotated[str | None, HIDDEN] = None,
    gif: Annotated[Path | None, HIDDEN] = None,
    # What --set says:
    expect_sha256: Annotated[str | None, HIDDEN] = None,
    trusted: Annotated[Path | None, HIDDEN] = None,
    watch_model: Annotated[bool, HIDDEN] = False,
    command_delay: Annotated[float | None, typer.Option(min=0.0, hidden=True)] = None,
    shadow_tolerance: Annotated[float | None, typer.Option(min=0.0, hidden=True)] = None,
    provider: Annotated[str | None, HIDDEN] = None,
    priority: Annotated[int | None, typer.Option(min=1, max=99, hidden=True)] = None,
    lock_memory: Annotated[bool, HIDDEN] = False,
    excite: Annotated[bool, HIDDEN] = False,
    dry_run: Annotated[bool, HIDDEN] = False,
    keys: Annotated[bool | None, HIDDEN] = None,
    pause: Annotated[float | None, typer.Option(min=0.0, hidden=True)] = None,
    # What `sami drive` reads in a file:
    adapter: Annotated[str | None, HIDDEN] = None,
    adapter_config: Annotated[Path | None, HIDDEN] = None,
    watchdog: Annotated[float | None, typer.Option(min=0.001, hidden=True)] = None,
    emergency_stop: Annotated[str | None, HIDDEN] = None,
    loop_hz: Annotated[float | None, HIDDEN] = None,
    slower: Annotated[int | None, typer.Option(min=1, hidden=True)] = None,
    unguarded: Annotated[str | None, HIDDEN] = None,
    fallback: Annotated[str | None, HIDDEN] = None,
) -> None:
    """Run a policy in a simulator and watch it adapt: the hidden task, what came of it, how the context moves.

    `sami drive` drives a robot.
    """
    from sami_runtime.safety.limits import Limits

    from .. import target as worlds
    from ..episode_loop import run_episodes
    from ..run_keys import simulator_keys
    from ..watchdog_option import watchdog_of

    options = {
        "expect_sha256": expect_sha256,
        "trusted": trusted and str(trusted),
        "provider": provider,
        "gap": gap,
        "command_delay_s": command_delay,
        "record": record and str(record),
        "shadow": shadow and str(shadow),
        "shadow_tolerance": shadow_tolerance,
        "watch_model": watch_model or None,
        "priority": priority,
        "lock_memory": lock_memory or None,
        "episodes": episodes,
        "steps": steps,
        "seed": seed,
        "keys": keys,
        "pause_s": pause,
        "dry_run": dry_run or None,
        "excite": excite or None,
    }
    values = simulator_keys(set_, {name: value for name, value in options.items() if value is not None})
    if limits is not None:
        values = values.model_copy(update={"limits": Limits.load(limits)})
    robots = {"loop-hz": loop_hz, "fallback": fallback, "slower": slower, "unguarded": unguarded}
    fixed = {"mass": mass, "friction": friction, "damping": damping}
    watchdog_of(adapter, watchdog, emergency_stop)  # refuses one without the other, and both in a simulator
    if adapter is None:
        worlds.refuse_robot_options({"adapter-config": adapter_config, **robots})
        drawn = {**fixed, "crippled": worlds.parts(cripple), **worlds.fixed(fix)}
        plan = _simulated(values, model, env, tasks or "all", drawn, render, gif, real_time)
    else:
        worlds.refuse_simulator_options(
            {"env": env, "tasks": tasks, **fixed, "cripple": cripple, "fix": fix, "render": render or gif}
        )
        watched = {"watchdog_s": watchdog, "emergency_stop": emergency_stop, "settings": adapter_config}
        plan = _driven(values, model, adapter, watched | robots)
    run_episodes(replace(plan, live=browse, json=json))


def _simulated(
    values: SimulatorKeys,
    model: Path | None,
    env: str | None,
    tasks: str,
    fixed: dict[str, Any],
    render: str | None,
    gif: Path | None,
    real_time: bool,
) -> Plan:
    """Return what runs in a simulator."""
    from .. import target as worlds
    from ..episode_loop import Plan, admission_of
    from ..film import film_of
    from ..model_and_env import model_and_environment

    mode, path = film_of(render, gif, values.dry_run)
    model, spec = model_and_environment(model, env, admission_of(values, rehearsed=False))
    film = path and path(model)
    # The simulator's time is the loop's, so that ages and rates mean the same whether it runs in real time or not.
    return Plan(
        worlds.simulator(spec, tasks, fixed, mode),
        model,
        values,
        paced=real_time or mode == "human",
        dry_run=values.dry_run,
        excite=values.excite,
        film=film,
    )


def _driven(values: SimulatorKeys, model: Path | None, adapter: str, robot: dict[str, Any]) -> Plan:
    """Return what drives a robot by options, as the versions before `sami drive` did."""
    from sami_runtime.errors import SamiError

    from .. import target as worlds
    from ..episode_loop import Plan
    from ..load_adapter import read_settings
    from ..run_keys import as_robot

    if model is None:
        raise SamiError(f"which model is to drive {adapter}? Name its file with --model.")
    guards = robot.pop("unguarded")
    changes = {name.replace("-", "_"): value for name, value in robot.items() if value is not None}
    changes["settings"] = read_settings(robot["settings"])
    changes["unguarded"] = [name.strip() for name in guards.split(",")] if guards is not None else []
    file = as_robot(values, str(model), adapter, changes)
    target = worlds.robot(adapter, file.settings)
    return Plan(target, model, file, dry_run=values.dry_run, excite=values.excite, notice=MOVED)
