"""The MuJoCo environments as rows of the paper's two tables of environmental features, without a simulator.

The tables do not give observations, rewards and starts; these follow the reference code, which produced the paper's
numbers. docs/explanation/paper.md lists every choice with its reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from sami_runtime.errors import SamiError, UnknownName, require_known
from sami_train.envs.layout import Layout
from sami_train.envs.measure import RETURN
from sami_train.envs.mujoco.bodies import (
    ANT,
    ANT_LINKS,
    HALF_CHEETAH,
    HOPPER,
    HUMANOID,
    WALKER,
    WALKER_LINKS,
    Body,
    Links,
    Reward,
    RunForward,
    StandUp,
    StayUp,
)
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Crippled, Feature, Task, TaskSpace

_LYING = dataclasses.replace(HUMANOID, xml="humanoidstandup.xml")


@dataclass(frozen=True)
class Options:
    """Variants of an environment, which change results; most are departures of the reference code from the paper."""

    control_cost: float | None = None
    """Weight of the control cost; the environment's if None."""
    contact_cost: bool = False
    """Subtract the contact cost; the reference code has it, but the contact forces in its MuJoCo were always zero."""
    legacy_ant_scaling: bool = False
    """Scale as CaDM does: front legs by m and d, back legs by 1/m and 1/d, damping by body instead of joint indices."""
    lying_start: bool = False
    """SlimHumanoid on the model of HumanoidStandup, as in the reference code."""
    scale_inertia: bool = False
    """Scale the links' inertia with their mass."""
    shrink_geoms: bool = False
    """Halve the links of crippled parts and move them closer, as the reference code does; see `Links`."""


@dataclass(frozen=True)
class Row:
    """One environment of the benchmark."""

    name: str
    """Name on the command line."""
    body: Body
    reward: Reward
    tasks: TaskSpace
    episode_steps: int
    options: tuple[str, ...] = ()
    """Options of this environment besides those of all environments."""
    links: Mapping[int, Links] = field(default_factory=dict)
    """How links shrink, by the number of the crippled part, for the option `shrink_geoms`."""

    @property
    def id(self) -> str:
        """Gymnasium id."""
        words = ["CaDM" if word == "cadm" else word.capitalize() for word in self.name.split("-")]
        return f"sami/{''.join(words)}-v0"

    def choose(self, options: Mapping[str, Any]) -> Options:
        """Check options by name and return them.

        Raises:
            UnknownName: this environment does not have an option of that name.
            SamiError: the control cost is not a number of at least 0.
        """
        valid = ("control_cost", "scale_inertia", *self.options)
        require_known(f"option of {self.name}", options, valid)
        settings = Options(**options)
        cost = settings.control_cost
        if cost is not None and not 0.0 <= cost < float("inf"):
            raise SamiError(f"control_cost is {cost!r}; it must be a number of at least 0.")
        return settings

    def body_for(self, options: Options) -> Body:
        """Return the robot under these options."""
        return _LYING if options.lying_start else self.body

    def reward_for(self, options: Options) -> Reward:
        """Return the reward under these options."""
        if options.control_cost is None:
            return self.reward
        return dataclasses.replace(self.reward, control_cost=float(options.control_cost))


Scales = tuple[float, ...]
Parts = Sequence[tuple[int, ...]]
"""Combinations of parts that are crippled together."""

_SCALES = (
    Feature("mass", "(times the robot's own)", 0.0, low_open=True, default=1.0),
    Feature("damping", "(times the robot's own)", 0.0, default=1.0),
)
_FINE: Scales = (0.75, 0.85, 1.0, 1.15, 1.25)
_COARSE: Scales = (0.75, 1.0, 1.25)
_NEAR: Scales = (0.4, 0.5, 1.5, 1.6)
_FAR: Scales = (0.2, 0.4, 1.6, 1.8)
_FARTHEST: Scales = (*_FAR, 4.0)
_HUMANOID_FINE: Scales = (0.8, 0.9, 1.0, 1.15, 1.25)
_HUMANOID_NEAR: Scales = (0.6, 0.7, 1.5, 1.6)
_HUMANOID_FAR: Scales = (0.4, 0.5, 1.7, 1.8)


Set = tuple[Scales, Parts | None]
"""Scales of mass and damping, and combinations of crippled parts; None if the environment has no crippled parts."""


def _space(training: Set, moderate: Set, extreme: Set, crippled: Crippled | None = None) -> TaskSpace:
    """Return tasks for each combination of a mass scale, a damping scale and, if any, crippled parts."""
    sets = {}
    for name, (scales, parts) in {"training": training, "moderate": moderate, "extreme": extreme}.items():
        pairs: list[Task] = [{"mass": mass, "damping": damping} for mass in scales for damping in scales]
        sets[name] = tuple(pairs)
        if parts is not None:
            sets[name] = tuple({**pair, "crippled": list(part)} for pair in pairs for part in parts)
    if crippled is not None:
        return TaskSpace((*_SCALES, crippled), sets)
    hint = "Joints and legs are crippled in the environments whose names begin with crippled-."
    return TaskSpace(_SCALES, sets, hint)


def _tasks(training: Scales, moderate: Scales, extreme: Scales) -> TaskSpace:
    return _space((training, None), (moderate, None), (extreme, None))


def _singles(*parts: int) -> Parts:
    return [(part,) for part in parts]


def _joints(body: Body, most: int) -> Crippled:
    return Crippled("joint", body.joints, most, motors=tuple((joint,) for joint in range(len(body.joints))))


_HUMANOID_TASKS = _tasks(_HUMANOID_FINE, _HUMANOID_NEAR, _HUMANOID_FAR)
_UNCRIPPLED: Parts = [()]
_CHEETAH_JOINTS = _joints(HALF_CHEETAH, most=2)
_LEGS = ("front left", "front right", "back left", "back right")
_ANT_LEGS = Crippled("leg", _LEGS, most=2, motors=((2, 3), (4, 5), (6, 7), (0, 1)))
_HOPPER_JOINTS = _joints(HOPPER, most=1)
_WALKER_JOINTS = _joints(WALKER, most=3)

_GALLOP = RunForward(control_cost=0.1)
_CRAWL = RunForward(control_cost=0.01, alive=1.0, contact_cost=0.5)
_CADM_CRAWL = RunForward(control_cost=0.005, alive=0.05, contact_cost=0.5)
_HOP = RunForward(control_cost=0.1, alive=1.0)
_WALK = RunForward(control_cost=1e-3, alive=1.0)
_ANT_OPTIONS = ("contact_cost", "legacy_ant_scaling")

ROWS = (
    Row("half-cheetah", HALF_CHEETAH, _GALLOP, _tasks(_FINE, _NEAR, _FARTHEST), 1000),
    # The paper prints the moderate set under training and the extreme one under moderate: a slip of one column.
    Row("ant", ANT, _CRAWL, _tasks(_FINE, _NEAR, _FARTHEST), 1000, _ANT_OPTIONS),
    Row("hopper", HOPPER, _HOP, _tasks(_COARSE, _NEAR, _FARTHEST), 1000),
    Row("walker", WALKER, _WALK, _tasks(_COARSE, _NEAR, _FARTHEST), 2000),
    Row("slim-humanoid", HUMANOID, StayUp(), _HUMANOID_TASKS, 1000, ("lying_start",)),
    Row(
        "humanoid-standup",
        _LYING,
        StandUp(),
        _tasks(_HUMANOID_FINE, _HUMANOID_NEAR, (*_HUMANOID_FAR, 4.0)),
        1000,
        ("contact_cost",),
    ),
    Row(
        "crippled-half-cheetah",
        HALF_CHEETAH,
        _GALLOP,
        _space(
            training=(_FINE, _singles(3, 4, 5)),
            moderate=(_NEAR, _singles(0, 1, 2)),
            extreme=(_FAR, list(combinations(range(6), 2))),
            crippled=_CHEETAH_JOINTS,
        ),
        2000,
    ),
    Row(
        "crippled-ant",
        ANT,
        _CRAWL,
        _space(
            training=(_FINE, [*_UNCRIPPLED, *_singles(0, 1, 2, 3)]),
            moderate=(_NEAR, _singles(0, 1, 2, 3)),
            # The paper prints {0,...,5} here; an ant has four legs.
            extreme=(_FAR, list(combinations(range(4), 2))),
            crippled=_ANT_LEGS,
        ),
        2000,
        options=("contact_cost", "shrink_geoms"),
        links=ANT_LINKS,
    ),
    Row(
        "crippled-hopper",
        HOPPER,
        _WALK,
        _space((_COARSE, _UNCRIPPLED), (_NEAR, _UNCRIPPLED), (_FARTHEST, _singles(0, 1, 2)), _HOPPER_JOINTS),
        1000,
    ),
    Row(
        "crippled-walker",
        WALKER,
        _WALK,
        _space(
            training=(_COARSE, [(0, 1, 2)]),
            moderate=(_NEAR, _singles(0, 1, 2)),
            extreme=(_FARTHEST, _singles(3, 4, 5)),
            crippled=_WALKER_JOINTS,
        ),
        2000,
        options=("shrink_geoms",),
        links=WALKER_LINKS,
    ),
    # The four settings of the paper's comparison with DOMINO and CaDM.
    Row("half-cheetah-cadm", HALF_CHEETAH, _GALLOP, _tasks(_FINE, _NEAR, _FAR), 1000),
    Row("ant-cadm", ANT, _CADM_CRAWL, _tasks(_FINE, _NEAR, _FAR), 1000, _ANT_OPTIONS),
    Row("slim-humanoid-cadm", HUMANOID, StayUp(), _HUMANOID_TASKS, 500, ("lying_start",)),
    Row(
        "crippled-half-cheetah-cadm",
        HALF_CHEETAH,
        _GALLOP,
        _space(
            training=(_FINE, _singles(0, 1, 2, 3)),
            moderate=(_NEAR, _singles(4, 5)),
            # The paper prints {4,5} for both test sets; CaDM cripples one joint in the first and both in the second.
            extreme=(_FAR, [(4, 5)]),
            crippled=_CHEETAH_JOINTS,
        ),
        1000,
    ),
)
"""The ten environments of the paper's table of environmental features, then those of its comparison."""


def find_row(name: str) -> Row:
    """Return the row of a name; UnknownName if there is none."""
    rows = {row.name: row for row in ROWS}
    if name not in rows:
        raise UnknownName("MuJoCo environment", name, list(rows))
    return rows[name]


# Hyperparameters for robots that fall. A fallen robot learns nothing, so episodes are shorter. Ants and walkers always
# get the bonus of 1 per step, so an offset removes it; humanoids' returns are so large that critics take long to reach
# them, so rewards are scaled. Target critics follow faster, and a minimum temperature keeps up exploration.
_CRIPPLED_ANT = {
    "steps": 1_200_000,
    "learning.reward_offset": 1.0,
    "learning.critic_target_rate": 0.02,
    "learning.initial_temperature": 0.02,
    "learning.minimum_temperature": 0.02,
    "collection.episode_steps": 400,
}
_WALKER = {
    "steps": 1_500_000,
    "learning.reward_offset": 1.0,
    "learning.critic_target_rate": 0.01,
    "learning.minimum_temperature": 0.01,
    "collection.episode_steps": 300,
}
_HUMANOID = {
    "learning.reward_scale": 0.1,
    "learning.critic_target_rate": 0.01,
    "learning.minimum_temperature": 0.01,
    "collection.episode_steps": 200,
}
# The reward of a step is about 40 for lying and 150 for sitting.
_STANDUP = {
    "steps": 800_000,
    "learning.reward_offset": 40.0,
    "learning.reward_scale": 0.02,
    "collection.episode_steps": 500,
}
_HYPERPARAMETERS = {
    "walker": _WALKER,
    "slim-humanoid": _HUMANOID,
    "humanoid-standup": _STANDUP,
    "crippled-ant": _CRIPPLED_ANT,
    "crippled-walker": _WALKER,
}


def _entry(row: Row) -> EnvironmentSpec:
    """Return the catalogue's entry of one row."""
    return EnvironmentSpec(
        name=row.name,
        id=row.id,
        entry_point="sami_train.envs.mujoco.env:MujocoSkillEnv",
        vector_entry_point="sami_train.envs.mujoco.batch:MujocoVectorEnv",
        batch_entry_point="sami_train.envs.mujoco.batch:MujocoBatch",
        arguments={"name": row.name},
        tasks=row.tasks,
        layout=Layout.of(row.body.signals),
        action=row.body.action,
        rate_hz=row.body.rate_hz,
        episode_steps=row.episode_steps,
        measure=RETURN,
        ends_early=False,
        extra="mujoco",
        hyperparameters={"fast-cpu": _HYPERPARAMETERS[row.name]} if row.name in _HYPERPARAMETERS else {},
    )


MUJOCO = tuple(_entry(row) for row in ROWS)
