"""`sami train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sami_train.config.resolve import Resolved

CHANGES, RUN_FOLDER, MACHINE = "Changes to the preset", "Run folder", "How it runs"
BEGINNING = "What it begins with"
"""Panels of the help."""
WIDTH = 160
"""Columns of a configuration that is not printed to a terminal."""


def train(
    env: Annotated[
        str | None,
        typer.Option(help="Environment: panda if left out, or that of --init; your own: MODULE:SPEC, or ROBOT.toml."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Method: satesac if left out, or that of --init; sac, sac-history and oracle are baselines."),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="Hyperparameters, fast-cpu or paper; what each means follows from the environment.")
    ] = "fast-cpu",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/ENV-METHOD-SEED if left out.", rich_help_panel=RUN_FOLDER)
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Environment steps, instead of the preset's; with --resume, how long the run becomes.",
            rich_help_panel=CHANGES,
        ),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|CHECKPOINT|FILE|MODEL",
            help="Start from the weights of a run, a checkpoint, a file, or a model that `sami models` lists.",
            rich_help_panel=BEGINNING,
        ),
    ] = None,
    recordings: Annotated[
        str | None,
        typer.Option(
            metavar="FILE,...",
            help="Learn also from these recordings of `sami run --record`.",
            rich_help_panel=BEGINNING,
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.", rich_help_panel=MACHINE)] = "auto",
    gap: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Train behind this gap to reality; ranges are drawn in each episode.",
            rich_help_panel=CHANGES,
        ),
    ] = "",
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a config key, e.g. learning.discount=0.9.",
            rich_help_panel=CHANGES,
        ),
    ] = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            help="Collect and learn in step: the same seed gives the same weights, bit for bit. Slower.",
            rich_help_panel=MACHINE,
        ),
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Go on with an interrupted run, or a finished one by --steps; all else stays as it was.",
            rich_help_panel=RUN_FOLDER,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show the configuration and what follows from what; start nothing.",
            rich_help_panel=MACHINE,
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="With --dry-run: print it as JSON.", rich_help_panel=MACHINE)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=MACHINE)] = False,
) -> None:
    """Train a policy. Ctrl-C stops at a safe place, and `--resume RUN` goes on from there."""
    if json and not dry_run:
        raise typer.BadParameter("--json goes with --dry-run")
    if dry_run and resume is not None:
        raise typer.BadParameter(f"--dry-run is for a new run; what {resume} was told is in its config.json")
    from sami_runtime.errors import SamiError
    from sami_train.config.resolve import explain, parse_override
    from sami_train.envs.catalog import by_name, environment

    if resume is None:
        overrides = dict(parse_override(text) for text in override or [])
        own_options = {name: name for name in ("env", "method", "preset", "seed", "steps", "device", "gap")}
        for name, option in (own_options | {"init.source": "init", "collection.recordings": "recordings"}).items():
            if name in overrides:
                raise SamiError(f"{name} has an option of its own; give --{option} instead of --set {name}=...")
        if init is not None:
            from sami_train.config.warm_start.find import load_weights, weights_file

            source = load_weights(weights_file(init)).header
            env, method = env or source.env, method or source.method
            overrides["init.source"] = init
        if recordings is not None:
            overrides["collection.recordings"] = recordings.split(",")
        env, method = env or "panda", method or "satesac"
        overrides |= {"env": env, "method": method, "seed": seed, "device": device}
        if steps is not None:
            overrides["steps"] = steps
        if gap:
            from sami_runtime.gap.profile import GapProfile

            overrides["gap"] = GapProfile.load(gap).dumps()
        if deterministic and overrides.setdefault("collection.collectors", 0) != 0:
            raise SamiError(
                f"collection.collectors={overrides['collection.collectors']} collects beside the learner, in an order "
                "that no seed repeats; leave it out, or leave out --deterministic."
            )
        resolved = explain(preset, overrides)  # before torch loads: a typing error should not have to wait for it
        if dry_run:
            return _show(resolved, json)
        spec = environment(env)
        folder = out or Path("runs") / f"{spec.short_name}-{method}-{seed}"
        from ..model_and_env import engine_line

        if not quiet and (line := engine_line(spec.name, spec.engine)):
            print(line)
        from sami_train.runs.train import start

        agent = start(resolved.config, folder, show=not quiet)
    else:
        if init is not None or recordings is not None:
            raise SamiError("--resume goes on with a run that has begun; leave out --init and --recordings.")
        folder = resume
        from sami_train.runs.train import resume as go_on

        agent = go_on(folder, steps=steps, show=not quiet)
    named = by_name(agent.config.env)
    if agent.finished:
        measure = environment(agent.config.env).measure
        reached = measure.show(agent.task_record.mean(measure), coarse=True)
        print(f"trained {agent.num_timesteps:,} steps, {measure.name} while exploring {reached}. Next:")
        print(f"  sami eval --run {folder}{named}")
        if not agent.method.is_told:  # nobody tells a robot its task
            print(f"  sami export --run {folder} --out {folder.name}.onnx{named}")
    else:
        print(f"stopped after {agent.num_timesteps:,} of {agent.config.steps:,} steps. Go on with:")
        print(f"  sami train --resume {folder}{named}")
        raise typer.Exit(130)


def _show(resolved: Resolved, as_json: bool) -> None:
    import json

    from rich.console import Console

    from .. import configuration

    if as_json:
        print(json.dumps(configuration.as_json(resolved), indent=2))
        return
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    console.print(configuration.configuration_table(resolved), highlight=False)
    print(configuration.in_words(resolved))
