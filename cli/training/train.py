"""`sami train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CHANGES, RUN_FOLDER, MACHINE = "Changes to the preset", "Run folder", "How it runs"
"""Panels of the help."""


def train(
    env: Annotated[str, typer.Option(help="Environment, e.g. panda or half-cheetah.")] = "panda",
    method: Annotated[str, typer.Option(help="Method, e.g. satesac or tesac.")] = "satesac",
    preset: Annotated[
        str, typer.Option(help="Set of hyperparameters for this kind of environment: fast-cpu or paper.")
    ] = "fast-cpu",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/ENV-METHOD-SEED if left out.", rich_help_panel=RUN_FOLDER)
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Environment steps, instead of the preset's.", rich_help_panel=CHANGES)
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
            help="Go on with an interrupted run; the other options stay as they were.",
            rich_help_panel=RUN_FOLDER,
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=MACHINE)] = False,
) -> None:
    """Train a policy. Ctrl-C stops at a safe place, and `--resume RUN` goes on from there."""
    from sami_runtime.errors import SamiError
    from sami_train.config.resolve import parse_override, resolve

    if resume is None:
        overrides = dict(parse_override(text) for text in override or [])
        for name in ("env", "method", "preset", "seed", "steps", "device", "gap"):
            if name in overrides:
                raise SamiError(f"{name} has an option of its own; give --{name} instead of --set {name}=...")
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
        config = resolve(preset, overrides)  # before torch loads: a typing error should not have to wait for it
        folder = out or Path("runs") / f"{env}-{method}-{seed}"
        from sami_train.runs.train import start

        agent = start(config, folder, show=not quiet)
    else:
        folder = resume
        from sami_train.runs.train import resume as go_on

        agent = go_on(folder, show=not quiet)
    if agent.finished:
        from sami_train.envs.catalog import environment

        measure = environment(agent.config.env).measure
        reached = measure.show(agent.task_record.mean(measure), coarse=True)
        print(f"trained {agent.num_timesteps:,} steps, {measure.name} while exploring {reached}. Next:")
        print(f"  sami eval --run {folder}\n  sami export --run {folder} --out {folder.name}.onnx")
    else:
        print(f"stopped after {agent.num_timesteps:,} of {agent.config.steps:,} steps. Go on with:")
        print(f"  sami train --resume {folder}")
        raise typer.Exit(130)
