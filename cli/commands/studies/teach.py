"""`sami teach` and `sami distil`: a teacher that reads privileged information, and a student that does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ...output import print_text


def teach(
    out: Annotated[Path, typer.Option(help="Folder of the teacher and its metrics.jsonl; a teacher in it continues.")],
    env: Annotated[str, typer.Option(help="Environment: go2, half-cheetah ..., or ROBOT.toml.")] = "go2",
    steps: Annotated[int, typer.Option(min=1, help="Environment steps in all, with those already done.")] = 30_000_000,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    blind: Annotated[
        bool, typer.Option("--blind", help="Let the actor read the robot's observation alone: no teacher, a baseline.")
    ] = False,
) -> None:
    """Train a teacher by PPO on privileged information. Ctrl-C saves; the same command continues."""
    from sami_runtime.errors import in_shell
    from sami_train.envs.catalog import by_name
    from sami_train.studies.teacher.teacher import TeacherConfig, train_teacher

    config = TeacherConfig(env=env, seed=seed, blind=blind)
    teacher = train_teacher(out, config, steps, every=max(1, min(500_000, steps // 10)), on_measured=_show)
    line = f"  sami distil --teacher {in_shell(out)} --out {in_shell(f'{out}-student')}{by_name(env)}"
    _show_end(f"The teacher in {out}", teacher.steps, steps, *([] if blind else [line]))


def distil(
    teacher: Annotated[Path, typer.Option(help="Folder of the teacher.")],
    out: Annotated[Path, typer.Option(help="Run folder of the student; if it has one, training continues.")],
    steps: Annotated[int, typer.Option(min=1, help="Environment steps in all, with those already done.")] = 3_000_000,
    env: Annotated[str | None, typer.Option(help="The teacher's environment, where it is your own code.")] = None,
    method: Annotated[str, typer.Option(help="tesac: a student with a context; sac: one without memory.")] = "tesac",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Distil a teacher into a policy that a robot can run. Ctrl-C saves; the same command continues."""
    from sami_runtime.errors import in_shell
    from sami_train.envs.catalog import by_name
    from sami_train.studies.teacher.student import distil as train_student

    agent = train_student(teacher, out, steps, method, seed, _show_losses, env)
    option, run, file = by_name(agent.config.env), in_shell(out), in_shell(f"{out.name}.onnx")
    lines = [f"  sami eval --run {run}{option}", f"  sami export --run {run} --out {file}{option}"]
    _show_end(f"The student in {out}", agent.num_timesteps, steps, *lines)


def _show_end(name: str, done: int, steps: int, *commands: str) -> None:
    if done < steps:
        print_text(f"{name} stopped after {done:,} of {steps:,} steps. The same command continues.")
        raise typer.Exit(130)
    print_text(f"{name} has learned from {done:,} steps.", *(["Next:", *commands] if commands else []))


def _show_losses(line: Mapping[str, float]) -> None:
    errors = ", ".join(f"{name.partition('/')[2]} {value:.3g}" for name, value in line.items() if "train/" in name)
    print_text(f"{line['step']:>12,} steps {line['time/seconds'] / 60:6.1f} min  {errors}")


def _show(line: Mapping[str, Any]) -> None:
    returns = ", ".join(f"{name} {metrics['return']:.3g}" for name, metrics in line["sets"].items())
    print_text(f"{line['steps']:>12,} steps {line['seconds'] / 60:6.1f} min  return: {returns}")
