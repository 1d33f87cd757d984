"""Environments: the built-in ones, which an import registers with Gymnasium, and the parts to define your own."""

from sami_train.envs.catalog import ENVIRONMENTS, add_environment, environment
from sami_train.envs.go2.entry import GO2
from sami_train.envs.layout import Layout, signal
from sami_train.envs.measure import Goal
from sami_train.envs.mujoco.table import MUJOCO
from sami_train.envs.panda.entry import PANDA, PANDA_BOTH, PANDA_MUJOCO
from sami_train.envs.panda.heavy import PANDA_HEAVY
from sami_train.envs.so101.entry import SO101
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Feature, Range, TaskSpace, task_space

for _spec in (PANDA, PANDA_HEAVY, PANDA_MUJOCO, PANDA_BOTH, *MUJOCO, GO2, SO101):
    ENVIRONMENTS[_spec.name] = _spec
    add_environment(_spec)

__all__ = [
    "ENVIRONMENTS",
    "EnvironmentSpec",
    "Feature",
    "Goal",
    "Layout",
    "Range",
    "TaskSpace",
    "environment",
    "signal",
    "task_space",
]
