"""Every environment that there is, and how one is found."""

from __future__ import annotations

from sami_runtime.errors import UnknownName
from sami_train.envs.mujoco.entries import MUJOCO
from sami_train.envs.panda.entry import PANDA
from sami_train.envs.spec import EnvironmentSpec

ENVIRONMENTS = {spec.name: spec for spec in (PANDA, *MUJOCO)}


def environment(name: str) -> EnvironmentSpec:
    """Look an environment up by its name or its Gymnasium id.

    Raises:
        UnknownName: there is none; lists those that there are.
    """
    for spec in ENVIRONMENTS.values():
        if name in (spec.name, spec.id):
            return spec
    raise UnknownName("environment", name, list(ENVIRONMENTS))


def find(name: str) -> EnvironmentSpec | None:
    """As `environment`, but None where there is none: agents also learn on environments that are not ours."""
    try:
        return environment(name)
    except UnknownName:
        return None
