"""The Panda's task in MuJoCo: first states, motor targets and observations."""

from __future__ import annotations

import mujoco
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sami_runtime.errors import SamiError
from sami_train.envs.panda.entry import PANDA
from sami_train.envs.panda.skill import HALF_WIDTH, skill_of
from sami_train.envs.panda_mujoco.kinematics import Kinematics, euler_of
from sami_train.envs.panda_mujoco.model import ARM, FINGERS, HOME, JOINTS, RATE, TIME_STEP, ghost_of, load_model

Array = NDArray[np.float64]

_REACH, _OPENING = 0.05, 0.2
"""Displacement of the hand, and change of the gripper's width, for an action of 1 [m]."""
_RANGE = 0.15
"""Largest distance of a cube or a goal from the origin along x and along y at the start [m]."""
assert PANDA.goal is not None
GOAL = PANDA.goal


class World:
    """The model and the functions of its state that the single environment and the batch share."""

    def __init__(self) -> None:
        self.model = model = load_model()
        self._kinematics = Kinematics(model)
        first = int(model.joint(ghost_of(JOINTS[0])).dofadr[0])
        self._ghosts = slice(first, first + len(JOINTS))
        self._low, self._high = np.array([model.joint(name).range for name in JOINTS]).T
        self._cube = int(model.joint("cube").qposadr[0])
        self._cube_dof = int(model.joint("cube").dofadr[0])
        self._cube_geom, self._table = model.geom("cube").id, model.geom("table").id
        self._fingers = [model.geom(name).id for name in FINGERS]
        box = spaces.Box(-10.0, 10.0, (3,), np.float32)
        self.observation_space = spaces.Dict(
            {"observation": spaces.Box(-10.0, 10.0, (19,), np.float32), "achieved_goal": box, "desired_goal": box}
        )

    def start(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw first positions (nq,) and a goal (3,) [m]; the same generator gives the same in PyBullet."""
        qpos = self.model.qpos0.copy()
        qpos[ARM] = HOME
        centre, spread = np.array([0.0, 0.0, HALF_WIDTH]), np.array([_RANGE, _RANGE, 0.0])
        goal = centre + rng.uniform(-spread, spread)
        rng.random()  # panda-gym draws here whether the goal is on the table; in this task it always is
        qpos[self._cube : self._cube + 3] = centre + rng.uniform(-spread, spread)
        return qpos, goal

    def targets(self, qpos: Array, qvel: Array, action: np.ndarray) -> Array:
        """Return the target positions of the joints of one simulation for an action, (9,) [rad, m].

        Args:
            qpos: positions, (nq,).
            qvel: velocities, (nv,).
            action: (4,), clipped to [-1, 1].

        Raises:
            SamiError: the action has another shape, or is not finite.
        """
        if action.shape != (4,):
            raise SamiError(f"got an action of shape {action.shape} for the Panda, expected (4,).")
        if not np.isfinite(action).all():
            raise SamiError(f"the action {action.tolist()} is not finite; check the policy that produced it.")
        act = np.clip(action.astype(np.float32), -1.0, 1.0).astype(np.float64)
        place = self._hand(qpos, qvel)[0] + act[:3] * _REACH
        place[2] = max(place[2], 0.0)
        targets = np.empty(9)
        targets[:7] = self._kinematics.reach(qpos[:7], place)
        targets[7:] = (self._width(qpos) + act[3] * _OPENING) / 2.0
        return np.clip(targets, self._low, self._high, out=targets)

    def drive(self, qpos: Array, qvel: Array, targets: Array) -> None:
        """Write the motors' velocities for the next time step into `qvel` (..., nv), of one simulation or many.

        The motors move as Bullet's do from `qpos` (..., nq) towards targets (..., 9), see `targets`.
        """
        qvel[..., self._ghosts] = RATE * (targets - qpos[..., ARM])

    def observe(self, qpos: Array, qvel: Array, goal: Array) -> np.ndarray:
        """Return the flat observation, (25,) float32, of positions (nq,), velocities (nv,) and a goal (3,) [m]."""
        hand, velocity = self._hand(qpos, qvel)
        cube, twist = qpos[self._cube : self._cube + 7], qvel[self._cube_dof : self._cube_dof + 6]
        place, spin = cube[:3], np.empty(3)
        mujoco.mju_rotVecQuat(spin, twist[3:], cube[3:])
        width, euler = (self._width(qpos),), euler_of(cube[3:].tolist())
        return np.concatenate((hand, velocity, width, place, euler, twist[:3], spin, place, goal), dtype=np.float32)

    def skill(self, data: mujoco.MjData) -> str:
        """Return the skill in the present state, see `skill_of`."""
        touching = {geom for pair in data.contact.geom.tolist() if self._cube_geom in pair for geom in pair}
        return skill_of(
            height=float(data.qpos[self._cube + 2]),
            velocity=data.qvel[self._cube_dof : self._cube_dof + 2],
            up=data.geom_xmat[self._cube_geom][6:],
            width=self._width(data.qpos),
            on_table=lambda: self._table in touching,
            fingers_touch=lambda: touching.issuperset(self._fingers),
        )

    def _hand(self, qpos: Array, qvel: Array) -> tuple[Array, Array]:
        """Return the hand's position [m] and velocity [m/s], (3,) each; as in Bullet, the position is a step old."""
        hand = self._kinematics.forward(qpos[:7])
        velocity = hand.jacobian[:3] @ qvel[:7]
        return hand.place - TIME_STEP * velocity, velocity

    def _width(self, qpos: Array) -> float:
        """Return the distance between the fingers [m]."""
        return float(qpos[7] + qpos[8])
