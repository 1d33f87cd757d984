"""The Panda's task in MuJoCo, for many worlds at once: where episodes begin, what motors are told, what is observed."""

from __future__ import annotations

import mujoco
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_train.envs.panda.entry import PANDA
from sami_train.envs.panda.skill import HALF_WIDTH, skill_of
from sami_train.envs.panda_mujoco.kinematics import Kinematics
from sami_train.envs.panda_mujoco.model import (
    BASE,
    FINGERS,
    HOME,
    JOINTS,
    RATE,
    TIME_STEP,
    arm_columns,
    ghost_of,
    load_model,
)
from sami_train.envs.panda_mujoco.rotation import euler_of, rotated

Array = NDArray[np.float64]

_REACH, _OPENING = 0.05, 0.2
"""Metres that an action of 1 moves the hand by, and the fingers apart."""
_RANGE = 0.15
"""How far from the origin a cube or a goal may be along x and y [m]."""
assert PANDA.goal is not None
GOAL = PANDA.goal


class World:
    """What the plain environment and the batch are made of: the model, and functions of states of n worlds."""

    def __init__(self) -> None:
        self.model = model = load_model()
        self._kinematics = Kinematics(BASE)
        self._arm = arm_columns(model)
        self._dofs = np.array([model.joint(name).dofadr[0] for name in JOINTS])
        self._ghosts = np.array([model.joint(ghost_of(name)).dofadr[0] for name in JOINTS])
        self._low, self._high = np.array([model.joint(name).range for name in JOINTS]).T
        self._cube = int(model.joint("cube").qposadr[0])
        self._cube_dof = int(model.joint("cube").dofadr[0])
        self._cube_geom, self._table = model.geom("cube").id, model.geom("table").id
        self._fingers = [model.geom(name).id for name in FINGERS]
        box = spaces.Box(-10.0, 10.0, (3,), np.float32)
        self.observation_space = spaces.Dict(
            {"observation": spaces.Box(-10.0, 10.0, (19,), np.float32), "achieved_goal": box, "desired_goal": box}
        )
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)

    def start(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Positions (nq,) and the goal (3,) [m] of a new episode: those of PyBullet's, by the same generator."""
        qpos = self.model.qpos0.copy()
        qpos[self._arm] = HOME
        centre, spread = np.array([0.0, 0.0, HALF_WIDTH]), np.array([_RANGE, _RANGE, 0.0])
        goal = centre + rng.uniform(-spread, spread)
        rng.random()  # panda-gym draws whether a goal lies on the table; here each does
        qpos[self._cube : self._cube + 3] = centre + rng.uniform(-spread, spread)
        return qpos, goal

    def targets(self, qpos: Array, qvel: Array, actions: np.ndarray) -> Array:
        """Return where actions (n, 4) send the joints, (n, 9) [rad, m].

        Args:
            qpos: (n, nq).
            qvel: (n, nv).
            actions: (n, 4), from -1 to 1; what lies beyond is cut off.

        Raises:
            SamiError: the actions have another shape, or one is not finite.
        """
        if actions.shape != (len(qpos), 4):
            raise SamiError(f"got actions of shape {actions.shape} for the Panda, expected {(len(qpos), 4)}.")
        if not np.isfinite(actions).all():
            raise SamiError(f"the actions {actions.tolist()} are not all finite; check the policy that produced them.")
        act = np.clip(actions.astype(np.float32), -1.0, 1.0).astype(np.float64)
        place = self._hand(qpos, qvel)[0] + act[:, :3] * _REACH
        place[:, 2] = np.maximum(place[:, 2], 0.0)
        joints = self._kinematics.reach(qpos[:, self._arm[:7]], place)
        finger = (self._width(qpos) + act[:, 3:] * _OPENING) / 2.0
        return np.clip(np.concatenate((joints, finger, finger), 1), self._low, self._high)

    def drive(self, qpos: Array, qvel: Array, targets: Array) -> None:
        """Let the motors of the next time step move as Bullet's do towards targets (n, 9): writes into `qvel`."""
        qvel[:, self._ghosts] = RATE * (targets - qpos[:, self._arm])

    def observe(self, qpos: Array, qvel: Array, goals: Array) -> np.ndarray:
        """Return what is observed, flat: (n, 25) float32.

        Args:
            qpos: (n, nq).
            qvel: (n, nv).
            goals: (n, 3) [m].
        """
        hand, velocity = self._hand(qpos, qvel)
        at, dof = self._cube, self._cube_dof
        place, quaternion = qpos[:, at : at + 3], qpos[:, at + 3 : at + 7]
        spin = rotated(quaternion, qvel[:, dof + 3 : dof + 6])
        moving = qvel[:, dof : dof + 3]
        parts = (hand, velocity, self._width(qpos), place, euler_of(quaternion), moving, spin, place, goals)
        return np.concatenate(parts, 1, dtype=np.float32)

    def skill(self, data: mujoco.MjData) -> str:
        """Return the skill being executed now, see `skill_of`."""
        touching = {
            int(other) for pair in data.contact.geom for geom, other in (pair, pair[::-1]) if geom == self._cube_geom
        }
        return skill_of(
            height=float(data.qpos[self._cube + 2]),
            velocity=data.qvel[self._cube_dof : self._cube_dof + 2],
            up=data.geom_xmat[self._cube_geom][6:],
            width=self._width(data.qpos[None]).item(),
            on_table=lambda: self._table in touching,
            fingers_touch=lambda: touching.issuperset(self._fingers),
        )

    def _hand(self, qpos: Array, qvel: Array) -> tuple[Array, Array]:
        """Return the hand's position and velocity, (n, 3) each; Bullet tells the position of a time step ago."""
        place, _, jacobian = self._kinematics.forward(qpos[:, self._arm[:7]])
        velocity = (jacobian[:, :3] @ qvel[:, self._dofs[:7], None])[..., 0]
        return place - TIME_STEP * velocity, velocity

    def _width(self, qpos: Array) -> Array:
        """Return how far the fingers are apart, (n, 1) [m]."""
        return qpos[:, self._arm[7:]].sum(1, keepdims=True)
