"""`sami drive`: drive the robot that a file describes, episode by episode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..model_file import MODEL_HELP, model_file, named_file

PERSON, OUTPUT = "A person beside the loop", "What is kept and shown"
"""Panels of the help."""


def drive(
    robot: Annotated[
        Path, typer.Argument(metavar="ROBOT", help="File of the robot and what drives it, NAME.toml or NAME.json.")
    ],
    check: Annotated[
        bool,
        typer.Option("--check", help="Do everything but move: load, connect, read, judge. Exits with 4 if it fails."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Reset, read and infer, and write no action.")] = False,
    excite: Annotated[
        bool,
        typer.Option("--excite", help="Rest, then small steps in the policy's place, for `sami fit-gap`."),
    ] = False,
    model: Annotated[
        Path | None, typer.Option(help=f"{MODEL_HELP}; instead of the file's.", callback=model_file)
    ] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes, instead of the file's; 1 if left out.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Most steps of an episode, instead of the file's.")] = None,
    shadow: Annotated[
        Path | None,
        typer.Option(help="A second model that follows: where would it have acted otherwise?", callback=model_file),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Record every tick to NAME.mcap, instead of the file's.", rich_help_panel=OUTPUT),
    ] = None,
    keys: Annotated[
        bool | None,
        typer.Option(
            help="Pause, take over, judge and stop by keys; at a terminal if left out, but for --json.",
            rich_help_panel=PERSON,
        ),
    ] = None,
    pause: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="S",
            help="Seconds between two episodes; with keys until Enter if left out, else none.",
            rich_help_panel=PERSON,
        ),
    ] = None,
    browse: Annotated[
        bool, typer.Option("--live", help="Watch it in a browser of this machine.", rich_help_panel=OUTPUT)
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Drive a robot by a policy: one file says which robot, which model, and within which limits.

    Paths in the file are relative to its folder, and its modules may lie there. An option overrides the file.
    """
    from sami_runtime.errors import SamiError
    from sami_runtime.factories import look_beside
    from sami_runtime.robots.robot_file import RobotFile

    from .. import target as worlds
    from ..check_robot import check_robot
    from ..episode_loop import Plan, run_episodes

    if check and (dry_run or excite or browse):
        option = "--dry-run" if dry_run else "--excite" if excite else "--live"
        raise SamiError(f"--check reads once and begins no episode, so {option} has nothing to do. Leave out one.")
    options = {
        "model": model and str(model),
        "episodes": episodes,
        "steps": steps,
        "shadow": shadow and str(shadow),
        "record": record and str(record),
        "keys": keys,
        "pause_s": pause,
    }
    changes = {name: value for name, value in options.items() if value is not None}

    def load() -> RobotFile:
        look_beside(robot)
        return RobotFile.load(robot).model_copy(update=changes)

    if check:
        check_robot(robot, load, json)
        return
    file = load()
    target = worlds.robot(file.adapter, file.settings)
    run_episodes(Plan(target, named_file(file.model), file, dry_run=dry_run, excite=excite, live=browse, json=json))
