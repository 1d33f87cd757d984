"""Forward kinematics of the Panda's hand, and PyBullet's inverse kinematics and Euler angles."""

from __future__ import annotations

from collections.abc import Sequence
from math import asin, atan2, copysign, pi
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_HAND = "panda_grasptarget"
"""Body at the point between the fingertips."""
_DOWN = np.array([0.0, 1.0, 0.0, 0.0])
"""Quaternion (w, x, y, z) of a hand that points down, as panda-gym holds it."""
_DAMPING = 0.5
"""Square of the damping in Bullet's inverse kinematics."""
_ITERATIONS = 20
"""Iterations in Bullet; here `_SHARED` of them share a Jacobian: 5 times as fast, and 0.05 mm off on average."""
_SHARED = 5
_DAMPED = _DAMPING * np.eye(6)
_UPRIGHT = 0.99999
"""Sine of the pitch at gimbal lock, from which Bullet sets the roll to 0 and puts the rotation into the yaw."""


class HandPose(NamedTuple):
    """Pose and Jacobian of the hand; the fields are views, which the next call of `forward` overwrites."""

    place: Array
    """Position (3,) [m]."""
    turn: Array
    """Quaternion (w, x, y, z), (4,)."""
    axes: Array
    """Rotation matrix, row by row, (9,)."""
    jacobian: Array
    """Jacobian of linear and angular velocity with respect to the joints' velocities, (6, 7)."""


class Kinematics:
    """Kinematics of a single arm whose joints are the first seven of a model."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model, self._data = model, mujoco.MjData(model)
        self._number, self._jacobian = model.body(_HAND).id, np.zeros((6, model.nv))

    def forward(self, joints: Array) -> HandPose:
        """Return the pose of the hand for joint angles (7,) [rad]."""
        model, data, number, jacobian = self._model, self._data, self._number, self._jacobian
        data.qpos[:7] = joints
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], number)
        return HandPose(data.xpos[number], data.xquat[number], data.xmat[number], jacobian[:, :7])

    def reach(self, joints: Array, target: Array) -> Array:
        """Return joint angles (7,) [rad] for a hand that points down at a target, as `calculateInverseKinematics` does.

        Bullet's damping is so strong that 20 iterations stop short of the target, which affects how the arm moves.
        Damped steps with the same Jacobian form a geometric series.

        Args:
            joints: present joint angles, (7,) [rad].
            target: target position of the hand, (3,) [m].
        """
        error, step = np.empty(6), np.empty(6)
        for _ in range(_ITERATIONS // _SHARED):
            hand = self.forward(joints)
            np.subtract(target, hand.place, out=error[:3])
            mujoco.mju_subQuat(error[3:], _DOWN, hand.turn)  # along the hand's axes
            mujoco.mju_mulMatVec(error[3:], hand.axes.reshape(3, 3), error[3:].copy())
            factor = hand.jacobian @ hand.jacobian.T + _DAMPED
            mujoco.mju_cholFactor(factor, 0.0)
            mujoco.mju_cholSolve(step, factor, error)
            total = step.copy()
            for _ in range(_SHARED - 1):
                mujoco.mju_cholSolve(step, factor, _DAMPING * step)
                total += step
            joints = joints + hand.jacobian.T @ total
        return joints


def euler_of(quaternion: Sequence[float]) -> tuple[float, float, float]:
    """Return roll, pitch and yaw [rad] of a quaternion (w, x, y, z), as Bullet's `getEulerFromQuaternion` does."""
    w, x, y, z = quaternion
    sine = -2.0 * (x * z - w * y)
    if abs(sine) >= _UPRIGHT:
        side = copysign(1.0, sine)
        return 0.0, side * pi / 2.0, 2.0 * atan2(-side * x, side * y)
    roll = atan2(2.0 * (y * z + w * x), w * w - x * x - y * y + z * z)
    yaw = atan2(2.0 * (x * y + w * z), w * w + x * x - y * y - z * z)
    return roll, asin(sine), yaw
