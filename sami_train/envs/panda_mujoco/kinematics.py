"""Where the Panda's hand is, and PyBullet's inverse kinematics of it."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_HAND = "panda_grasptarget"
"""The point between the fingertips."""
_DOWN = np.array([0.0, 1.0, 0.0, 0.0])
"""How panda-gym holds the hand, as a quaternion."""
_DAMPING = 0.5
"""Square of Bullet's damping."""
_ITERATIONS = 20
"""Of Bullet's, of which `_TOGETHER` share a Jacobian here: that is 5 times as fast, and 0.05 mm away on average."""
_TOGETHER = 5
_DAMPED = _DAMPING * np.eye(6)


class HandPose(NamedTuple):
    """Where the hand is; views, which the next call writes over."""

    place: Array
    """(3,) [m]."""
    turn: Array
    """Quaternion (4,)."""
    axes: Array
    """Rotation (9,), row by row."""
    jacobian: Array
    """Velocity and turning (6,) over the joints' velocities, (6, 7)."""


class Kinematics:
    """The arm of a model, whose first seven joints are its own: MuJoCo's kinematics, of one pose at a time."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model, self._data = model, mujoco.MjData(model)
        self._number, self._jacobian = model.body(_HAND).id, np.zeros((6, model.nv))

    def forward(self, joints: Array) -> HandPose:
        """Return where the hand of an arm is whose joints are at (7,) [rad]."""
        model, data, number, jacobian = self._model, self._data, self._number, self._jacobian
        data.qpos[:7] = joints
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], number)
        return HandPose(data.xpos[number], data.xquat[number], data.xmat[number], jacobian[:, :7])

    def reach(self, joints: Array, target: Array) -> Array:
        """Return what Bullet's `calculateInverseKinematics` makes of a target (3,) [m], the hand down: (7,) [rad].

        It is damped so strongly that its 20 iterations end short of a target, and that is part of how the arm moves.
        A damped step that is repeated with the same Jacobian is a geometric series.

        Args:
            joints: where the arm is, (7,) [rad].
            target: where the hand shall be.
        """
        error, left = np.empty(6), np.empty(6)
        for _ in range(_ITERATIONS // _TOGETHER):
            hand = self.forward(joints)
            np.subtract(target, hand.place, out=error[:3])
            mujoco.mju_subQuat(error[3:], _DOWN, hand.turn)  # along the hand's axes
            mujoco.mju_mulMatVec(error[3:], hand.axes.reshape(3, 3), error[3:].copy())
            factor = hand.jacobian @ hand.jacobian.T + _DAMPED
            mujoco.mju_cholFactor(factor, 0.0)
            mujoco.mju_cholSolve(left, factor, error)
            total = left.copy()
            for _ in range(_TOGETHER - 1):
                mujoco.mju_cholSolve(left, factor, _DAMPING * left)
                total += left
            joints = joints + hand.jacobian.T @ total
        return joints
