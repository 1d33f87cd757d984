"""`sami teach` and `sami distil`: a teacher that reads privileged information, and a student that does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer


def teach(
    out: Annotated[Path, typer.Option(help="Folder of the teacher; one that has a teacher is gone on with.")],
    env: Annotated[str, typer.Option(help="Environment, which needs a batch with privileged information.")] = "go2",
    steps: Annotated[
        int, typer.Option(min=1, help="Environment steps in all, those already done included.")
    ] = 30_000_000,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    rows: Annotated[int, typer.Option(min=2, help="Robots that are simulated side by side.")] = 256,
    blind: Annotated[
        bool, typer.Option("--blind", help="Let the actor read the robot's observation alone: no teacher, a baseline.")
    ] = False,
) -> None:
    """Train a teacher by PPO, which reads privileged information. Ctrl-C keeps it; the same command goes on."""
    from sami_train.studies.teacher.teacher import TeacherConfig, train_teacher

    config = TeacherConfig(env=env, seed=seed, rows=rows, blind=blind)
    teacher = train_teacher(out, config, steps, every=500_000, on_measured=_show)
    print(f"The teacher in {out} has learned from {teacher.steps:,} steps.")


def _show(line: Mapping[str, Any]) -> None:
    cells = [
        f"{name} " + " ".join(f"{value:.3g}" for value in metrics.values()) for name, metrics in line["sets"].items()
    ]
    names = ", ".join(next(iter(line["sets"].values())))
    print(f"{line['steps']:>12,} steps {line['seconds'] / 60:6.1f} min  ({names}) {'; '.join(cells)}", flush=True)
