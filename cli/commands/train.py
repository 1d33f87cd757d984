"""`sami train`: train a policy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import JSON, keys_option
from ..output import print_text, text_console

if TYPE_CHECKING:
    from rich.table import Table

    from sami_train.config.resolve import Resolved


def train(
    env: Annotated[
        str | None,
        typer.Option(help="Environment: panda if left out, or that of --init; your own: MODULE:SPEC, or ROBOT.toml."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Method: tesac if left out, or that of --init; sac, sac-history and oracle are baselines."),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="Hyperparameters: fast-cpu or paper, adapted to the environment (--dry-run shows how).")
    ] = "fast-cpu",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/ENV-METHOD-SEED if left out.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Environment steps, instead of the preset's; with --resume, the new total.")
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            metavar="RUN|CHECKPOINT|FILE|MODEL",
            help="Start from the weights of a run, a checkpoint, a file, or a model that `sami models` lists.",
        ),
    ] = None,
    gap: Annotated[
        str, typer.Option(metavar="FILE", help="Train with this sim-to-real profile; ranges are drawn in each episode.")
    ] = "",
    override: Annotated[
        list[str] | None,
        keys_option(
            "Change a config key, such as learning.discount=0.9 or device=cuda; --dry-run lists all keys. "
            "collection.workers=0 collects and learns in one process: slower, but the same seed gives the same "
            "weights, bit for bit. collection.recordings=FILE,... also learns from recordings of `sami run`."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Continue an interrupted run, or extend a finished one to --steps."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the configuration and the reason for each value; start nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Train a policy. Ctrl-C stops at a checkpoint, from which `--resume RUN` continues."""
    if JSON.get() and not dry_run:
        raise typer.BadParameter("--json is valid only with --dry-run")
    if dry_run and resume is not None:
        raise typer.BadParameter(f"--dry-run is for a new run; the configuration of {resume} is in its config.json")
    from sami_runtime.errors import SamiError, in_shell
    from sami_train.config.recordings import recordings_of
    from sami_train.config.resolve import explain, parse_override
    from sami_train.config.schema import ENV, METHOD
    from sami_train.envs.catalog import by_name, environment

    if resume is None:
        overrides = dict(parse_override(text) for text in override or [])
        for name in ("env", "method", "preset", "seed", "steps", "gap", "init.source"):
            if name in overrides:
                option = f"--{name.partition('.')[0]}"
                raise SamiError(f"{name} has its own option; give {option} instead of --set {name}=...")
        if init is not None:
            from sami_train.config.weights import read_weights, weights_file

            source = read_weights(weights_file(init)).header
            env, method = env or source.env, method or source.method
            overrides["init.source"] = init
        if isinstance(recordings := overrides.get("collection.recordings"), str):
            overrides["collection.recordings"] = recordings.split(",")
        env, method = env or ENV, method or METHOD
        overrides |= {"env": env, "method": method, "seed": seed}
        if steps is not None:
            overrides["steps"] = steps
        if gap:
            from sami_runtime.gap.profile import GapProfile

            overrides["gap"] = GapProfile.load(gap).dumps()
        resolved = explain(preset, overrides)  # before torch loads, so that errors are reported at once
        if dry_run:
            if init is not None or recordings or resolved.config.device != "auto":
                from sami_train.runs.train import prepare

                prepare(resolved.config, recordings_of)  # raises the errors that the run would raise
            return _show(resolved)
        spec = environment(env)
        folder = out or Path("runs") / f"{spec.short_name}-{method}-{seed}"
        from ..model_file import engine_line

        if not quiet and (line := engine_line(spec.name, spec.engine)):
            print_text(line)
        from sami_train.runs.train import start

        agent = start(resolved.config, folder, show=not quiet, reader=recordings_of)
    else:
        if init or override or method or gap or out or seed or preset != "fast-cpu":
            options = "--init, --set, --method, --preset, --seed, --gap and --out"
            raise SamiError(f"--resume continues a run with its own configuration, in its folder; leave out {options}.")
        folder = resume
        from sami_train.runs.train import resume as go_on

        agent = go_on(folder, steps=steps, show=not quiet, reader=recordings_of)
    env_option, path = by_name(agent.config.env), in_shell(folder)
    if agent.finished:
        measure = environment(agent.config.env).measure
        mean = agent.task_record.mean(measure)
        reached = "- (no episode ended)" if mean is None or math.isnan(mean) else measure.show(mean, coarse=True)
        print_text(f"trained {agent.num_timesteps:,} steps, {measure.name} while exploring {reached}. Next:")
        print_text(f"  sami eval --run {path}{env_option}")
        if not agent.method.reads_task:  # an oracle cannot be exported
            print_text(f"  sami export --run {path} --out {in_shell(f'{folder.name}.onnx')}{env_option}")
    else:
        print_text(f"stopped after {agent.num_timesteps:,} of {agent.config.steps:,} steps. Go on with:")
        print_text(f"  sami train --resume {path}{env_option}")
        raise typer.Exit(130)


def _show(resolved: Resolved) -> None:
    """Print a configuration, the reasons for its values, and the length of the run."""
    import json

    if JSON.get():
        config = resolved.config
        document = {
            "config": config.to_dict(),
            "follows": [follow._asdict() for follow in resolved.derivations],
            "updates": config.updates_after(config.steps),
        }
        print(json.dumps(document, indent=2))
        return
    text_console().print(_configuration_table(resolved), highlight=False)
    print_text(_in_words(resolved))


def _configuration_table(resolved: Resolved) -> Table:
    """Return every key with its value, and the reason for it if it is not a default."""
    import json

    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1))
    table.add_column("key", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("because of", overflow="fold")
    reasons = {follow.key: follow.why for follow in resolved.derivations}
    section = ""
    for key, value in resolved.config.by_key().items():
        if section != (section := key.rpartition(".")[0]):
            table.add_section()
        table.add_row(key, value if isinstance(value, str) else json.dumps(value), reasons.get(key, ""))
    return table


def _in_words(resolved: Resolved) -> str:
    """Return the environment's properties, and the run's steps, updates and memory, in words."""
    from sami_train.config.preset import describe_conditions
    from sami_train.envs.catalog import environment

    config, spec = resolved.config, environment(resolved.config.env)
    updates, warmup = config.updates_after(config.steps), config.exploration.warmup_steps
    longest = (config.collection.episode_steps or spec.episode_steps) + 1
    size = config.learning.buffer_episodes * longest * spec.true_size * 4 if config.with_profile.keeps_true_state else 0
    note = f" The true state takes up to {size / 1e6:,.0f} MB of the buffer's memory." if size else ""
    return (
        f"{config.env} has {describe_conditions(spec)}.\n"
        f"{config.steps:,} environment steps: {warmup:,} of warm-up, then {updates:,} updates with "
        f"{updates * config.learning.steps_per_draw:,} gradient steps of actor and critics.{note} Nothing was started."
    )
