"""Chooses where jobs run: Slurm, a Ray cluster, or this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sami_train.studies.sweep.engine import Engine
from sami_train.studies.sweep.local import Local
from sami_train.studies.sweep.on_ray import Ray
from sami_train.studies.sweep.slurm import Slurm


def engine_of(slurm: bool, ray: str, jobs: int, settings: Mapping[str, Any], gpus: Sequence[str] = ()) -> Engine:
    """Return the engine that somebody asked for: Slurm, a Ray cluster, or this machine.

    Args:
        slurm: whether it is Slurm.
        ray: address of the Ray cluster; empty if it is none.
        jobs: most jobs at once.
        settings: what the cluster is told of each.
        gpus: of this machine, which its jobs share; see `Local`.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        SweepError: there is no such cluster, or it would not take such jobs.
    """
    if slurm:
        return Slurm(jobs, settings)
    return Ray(jobs, ray, settings) if ray else Local(jobs, gpus)
