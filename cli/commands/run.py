"""`sami run`: run a model file in a simulator, episode by episode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import ModelEnvironment, OptionalModel, keys_option, run_values


def run(
    env: ModelEnvironment = None,
    model: OptionalModel = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes; 20 if left out.")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Task set to draw from: training, moderate, extreme; all if left out.")
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Fix a feature of the task: mass=3, friction=0.5, damping=2, crippled=0+4."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the first episode; 0 if left out. Each episode adds 1.")
    ] = None,
    real_time: Annotated[
        bool,
        typer.Option(
            "--real-time",
            help="Act at the policy's rate, with a warm-up before each tick; otherwise as fast as possible.",
        ),
    ] = False,
    gap: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Sim-to-real profile: NAME.toml or NAME.json, or modest, which is built in."),
    ] = None,
    override: Annotated[
        list[str] | None,
        keys_option(
            "Any other key of a run, as in a robot.toml: limits (a file), steps, shadow, shadow_tolerance, "
            "provider, trusted, expect_sha256, watch_model, command_delay_s, priority, lock_memory, keys, pause_s; "
            "also dry_run and excite. docs/reference/robot-file.md explains them."
        ),
    ] = None,
    record: Annotated[Path | None, typer.Option(help="Record every tick to NAME.mcap, for `sami replay`.")] = None,
    render: Annotated[
        str | None,
        typer.Option(metavar="NAME.gif", help="Film it to this file; `gif` writes MODEL.gif, `human` opens a window."),
    ] = None,
    browse: Annotated[bool, typer.Option("--live", help="Show it in a browser on this machine.")] = False,
) -> None:
    """Run a policy in a simulator; print the hidden task and outcome of each episode, and how the context moves.

    `sami drive` drives a robot.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.robots.robot_file import RobotFile, SimulatorKeys

    from .. import target
    from ..episode_loop import Plan, admission_of, run_episodes
    from ..film import film_of
    from ..model_file import model_and_environment

    values = run_values(override)
    options = {"gap": gap, "record": record and str(record), "episodes": episodes, "seed": seed}
    values |= {name: value for name, value in options.items() if value is not None}
    for key in values.keys() & (RobotFile.model_fields.keys() - SimulatorKeys.model_fields.keys()):
        value = ",".join(values[key]) if key == "unguarded" else values[key]
        raise SamiError(f"{key}={value} is for robots, which `sami drive robot.toml` drives; leave it out.")
    keys = SimulatorKeys.of(values, "--set")
    mode, film = film_of(render, keys.dry_run)
    model, spec = model_and_environment(model, env, admission_of(keys, rehearsed=False))
    world = target.simulator(spec, tasks or "all", target.task_features(fix or []), mode)
    # The simulator's time is the loop's, so that ages and rates mean the same whether it runs in real time or not.
    paced = real_time or mode == "human"
    path = film and film(model)
    run_episodes(Plan(world, model, keys, paced, keys.dry_run, keys.excite, browse, film=path))
