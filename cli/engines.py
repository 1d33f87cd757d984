"""The options that say where jobs run: this machine, Slurm or Ray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sami_train.studies.sweep.engines import Engine

SlurmOption = Annotated[bool, typer.Option("--slurm", help="Give the jobs to Slurm.")]
SlurmSetting = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="An option of sbatch: partition=gpu, time=240 (minutes), cpus_per_task=4."),
]
RayOption = Annotated[str, typer.Option(metavar="ADDRESS", help="Give the jobs to a Ray cluster, e.g. auto.")]
RaySetting = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="What a job needs of Ray: num_cpus=4, num_gpus=1."),
]

JobsOption = Annotated[
    int | None, typer.Option(min=1, help="Parts of a measurement, each a job of the cluster; 16 if left out.")
]
PARTS = 16


def settings_of(slurm: bool, slurm_set: list[str] | None, ray: str, ray_set: list[str] | None) -> dict[str, Any]:
    """Return what the cluster is told of each job.

    Raises:
        typer.BadParameter: options that do not go together.
        SamiError: a setting is not KEY=VALUE.
    """
    if slurm_set and not slurm:
        raise typer.BadParameter("--slurm-set needs --slurm")
    if ray_set and not ray:
        raise typer.BadParameter("--ray-set needs --ray")
    if slurm and ray:
        raise typer.BadParameter("give either --slurm or --ray")
    from sami_train.config.resolve import parse_override

    return dict(parse_override(text) for text in (slurm_set if slurm else ray_set) or [])


def engine_for(keep: Path | None, jobs: int | None, slurm: bool, ray: str, settings: dict[str, Any]) -> Engine | None:
    """Return the cluster that a measurement is spread over; None where this machine makes it.

    Args:
        keep: the file that the results are for.
        jobs: parts of the measurement.
        slurm: whether it is Slurm.
        ray: address of the Ray cluster.
        settings: what the cluster is told of each job.

    Raises:
        typer.BadParameter: options that do not go together.
        SweepError: there is no such cluster, or it would not take such jobs.
    """
    if not (slurm or ray):
        if jobs is not None:
            raise typer.BadParameter("--jobs goes with --slurm or --ray; on this machine --workers says how many cores")
        return None
    if keep is None:
        raise typer.BadParameter("--slurm and --ray need --out: the jobs leave there what they measure")
    from sami_train.studies.sweep.engines import engine_of

    return engine_of(slurm, ray, jobs or PARTS, settings)
