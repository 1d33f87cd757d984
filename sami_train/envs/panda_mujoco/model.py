"""The Panda with its cube as a MuJoCo model: `panda.xml`, with PyBullet's motors, frictions and softness."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError
from sami_train.envs.panda.skill import HALF_WIDTH
from sami_train.envs.tasks import Task

FILE = Path(__file__).with_name("panda.xml")
"""The arm, the table, the cube and the goal: kinematics, inertias, shapes, colours and lights."""
TIME_STEP = 0.002
"""Time step of the simulation [s], that of panda-gym."""
SUBSTEPS = 20
"""Time steps per action."""
HOME = np.array([0.0, 0.41, 0.0, -1.85, 0.0, 2.26, 0.79, 0.0, 0.0])
"""Joint angles [rad] and finger positions [m] at the start of an episode."""

JOINTS = (*(f"panda_joint{i}" for i in range(1, 8)), "panda_finger_joint1", "panda_finger_joint2")
ARM = slice(0, 9)
"""Columns of `JOINTS` in `qpos` and `qvel`; the arm comes first in the model's file."""
FINGERS = ("finger0", "finger1")
"""Geoms of the fingers."""
_FORCES = (87.0, 87.0, 87.0, 87.0, 12.0, 120.0, 120.0, 170.0, 170.0)
"""Largest torque [N m] or force [N] of each motor in panda-gym."""

RATE = 0.1 / TIME_STEP
"""Target velocity over position error [1/s]: Bullet's position motors remove 0.1 of the error in a time step."""
_GHOST = 1000.0
"""Inertia of the ghosts, see `_set_motors` [kg m2, kg]: so large that no joint slows a ghost."""
_GRIP = ((0.00002, 1.0), (0.999, 0.9999, 0.001, 0.5, 2.0))
"""`solref` and `solimp` of the motors' dry friction: it acts at once and hardly creeps below the motor's limit."""

_LATERAL = {"cube": 0.5, "table": None, "plane": 0.5, "hand": 0.5, "link7": 0.5, "link6": 0.5, "finger": 1.0}
"""Bullet's friction coefficient of each body, for the table that of the task; a pair's coefficient is the product."""
MOST_FRICTION = 10.0
"""Bullet's upper bound on the product."""
_HARD = ((0.005, 1.0), (0.99, 0.999, 0.0005, 0.5, 2.0))
"""`solref` and `solimp` of contacts that are hard in Bullet."""
_SOFT = ((-17000.0, -1000.0), (0.8, 0.8, 0.001, 0.5, 2.0))
"""`solref` and `solimp` of the fingers' contacts: about 15 kN/m and 0.9 kN s/m at each point. The arm's file has 30 and
1, but Bullet has one contact point for a resting finger and up to four for a moving one, and MuJoCo always has four."""
_SOFT_MARGIN = 0.001
"""Bullet's collision margin [m]: a finger's contact begins at this distance from its surface."""

_PAIRS = (
    ("cube", "table"),
    ("cube", "plane"),
    ("cube", "finger0"),
    ("cube", "finger1"),
    ("cube", "hand"),
    ("cube", "link7"),
    ("cube", "link6"),
    ("table", "finger0"),
    ("table", "finger1"),
    ("table", "hand"),
)
"""Pairs of geoms that can collide. The arm does not collide with itself, as in Bullet by default."""


@cache
def _compiled() -> mujoco.MjModel:
    if not hasattr(mujoco.mjtIntegrator, "mjINT_DISCRETE"):
        raise AdapterError(
            f"mujoco is {mujoco.__version__}, and the Panda's motors need the integrator of 4.0; install it with: "
            f"{install_hint('panda-mujoco')}."
        )
    spec = mujoco.MjSpec.from_file(str(FILE))
    option = spec.option
    option.timestep, option.integrator = TIME_STEP, mujoco.mjtIntegrator.mjINT_DISCRETE
    option.cone, option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 50.0
    option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    for name in JOINTS:
        spec.joint(name).solref_limit, spec.joint(name).solimp_limit = _HARD
    _set_pairs(spec)
    _set_motors(spec)
    return spec.compile()


def _set_pairs(spec: mujoco.MjSpec) -> None:
    for a, b in _PAIRS:
        soft = "finger" in a + b
        solref, solimp = _SOFT if soft else _HARD
        spec.add_pair(
            name=f"{a}-{b}",
            geomname1=a,
            geomname2=b,
            condim=3,
            solref=solref,
            solimp=solimp,
            margin=_SOFT_MARGIN if soft else 0.0,
        )


def _set_motors(spec: mujoco.MjSpec) -> None:
    """Give each joint a motor like Bullet's: a constraint on its velocity with a bounded force.

    MuJoCo's dry friction is such a constraint. Each joint has a ghost, a heavy body that moves with the motor's target
    velocity. A tendon with dry friction drags the joint along with the ghost, with at most the motor's force.
    """
    for name, force in zip(JOINTS, _FORCES, strict=True):
        ghost = spec.worldbody.add_body(name=ghost_of(name), pos=(0.0, 0.0, -10.0), mass=1.0, inertia=(1.0, 1.0, 1.0))
        ghost.gravcomp = 1.0
        ghost.add_joint(name=ghost_of(name), type=mujoco.mjtJoint.mjJNT_SLIDE, axis=(0.0, 0.0, 1.0), armature=_GHOST)
        tendon = spec.add_tendon(name=name, frictionloss=force, solref_friction=_GRIP[0], solimp_friction=_GRIP[1])
        tendon.wrap_joint(name, 1.0)
        tendon.wrap_joint(ghost_of(name), -1.0)


def ghost_of(joint: str) -> str:
    """Return the name of a joint's ghost, see `_set_motors`."""
    return f"{joint}-motor"


def load_model() -> mujoco.MjModel:
    """Return a copy of the model before any task is applied to it.

    Raises:
        AdapterError: MuJoCo is older than 4.0.
    """
    return _compiled().__copy__()


_DRAG = 0.04 * (1.0 + 1.0)
"""Damping rate of a free body [1/s]: Bullet's is 0.04 (1 + velocity), here constant with a velocity of 1 m/s."""


def dynamics(model: mujoco.MjModel, task: Task) -> dict[str, NDArray[np.float64]]:
    """Return the model's fields under a task, by MuJoCo's names, without the constants derived from them."""
    mass, inertia, friction = model.body_mass.copy(), model.body_inertia.copy(), model.pair_friction.copy()
    cube = model.body("cube").id
    mass[cube] = task["mass"]
    inertia[cube] = task["mass"] * (2.0 * HALF_WIDTH) ** 2 / 6.0
    damping, first = model.dof_damping.copy(), int(model.joint("cube").dofadr[0])
    damping[first : first + 3], damping[first + 3 : first + 6] = _DRAG * mass[cube], _DRAG * inertia[cube]
    for a, b in _PAIRS:
        left, right = (_LATERAL[geom.rstrip("01")] for geom in (a, b))
        product = (task["friction"] if left is None else left) * (task["friction"] if right is None else right)
        friction[model.pair(f"{a}-{b}").id] = (*(min(product, MOST_FRICTION),) * 2, 0.0, 0.0, 0.0)
    return {"body_mass": mass, "body_inertia": inertia, "dof_damping": damping, "pair_friction": friction}
