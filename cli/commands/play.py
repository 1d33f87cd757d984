"""`sami play`: run an adopted policy in MuJoCo, in any MJCF robot whose joints have the policy's names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Model, keys_option, run_values


def play(
    model: Model,
    robot: Annotated[str, typer.Option(metavar="FILE", help="The robot: an MJCF file, or a TOML file that names one.")],
    command: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT|FILE",
            help="The robot's command: `forward=0.5,turn=0.2`, a timeline (NAME.csv, NAME.toml), `keys`, `gamepad`.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None, keys_option("Any key of a run, as of `sami run`, gap=FILE too; episodes=1 if left out.")
    ] = None,
    record: Annotated[Path | None, typer.Option(help="Record every tick to NAME.mcap, for `sami replay`.")] = None,
    render: Annotated[
        str | None, typer.Option(metavar="NAME.gif", help="Film it to this file; `human` opens a window.")
    ] = None,
    browse: Annotated[bool, typer.Option("--live", help="Watch it in a browser of this machine.")] = False,
) -> None:
    """Run an adopted policy in MuJoCo through the loop, gate and profile of a robot, and judge how it walks.

    It keeps real time where somebody looks on: with `--command keys` or `gamepad`, `--live` and `--render human`.
    `sami robustness MODEL --env FILE --gap latency` measures what a delay costs it.
    """
    from sami_runtime.robots.kit.commands import Steering, command_of
    from sami_runtime.robots.kit.gamepad import Gamepad
    from sami_runtime.robots.kit.quantities import COMMAND
    from sami_runtime.robots.robot_file import SimulatorKeys
    from sami_train.studies.play.env import play_environment

    from ..episode_loop import Plan, admission_of, run_episodes
    from ..film import film_of
    from ..target import simulator

    values = {"episodes": 1, **run_values(override), **({} if record is None else {"record": str(record)})}
    keys = SimulatorKeys.of(values, "--set")
    mode, film = film_of(render, keys.dry_run)
    spec = play_environment(admission_of(keys, rehearsed=False).admit(model).contract, robot)
    # --command leaves unnamed velocities at 0, and other unnamed elements as in the evaluation's first command.
    first = spec.tasks.sets["training"][0]
    rest = {name: 0.0 if name in COMMAND else value for name, value in first.items()}
    source = None if command is None else command_of(command, rest)
    target = simulator(spec, "training", first, mode, source)
    steering = source if isinstance(source, Steering) else None
    paced = isinstance(source, Steering | Gamepad) or browse or mode == "human"
    run_episodes(Plan(target, model, keys, paced, keys.dry_run, keys.excite, browse, film and film(model), steering))
