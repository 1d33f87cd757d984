"""Where the Panda's hand is, and PyBullet's inverse kinematics of it, for many arms at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sami_train.envs.panda_mujoco.rotation import NEXT as _NEXT
from sami_train.envs.panda_mujoco.rotation import cross

Array = NDArray[np.float64]

_HALF = np.pi / 2.0
_CHAIN = (
    (0.0, (0.0, 0.0, 0.333)),
    (-_HALF, (0.0, 0.0, 0.0)),
    (_HALF, (0.0, -0.316, 0.0)),
    (_HALF, (0.0825, 0.0, 0.0)),
    (-_HALF, (-0.0825, 0.384, 0.0)),
    (_HALF, (0.0, 0.0, 0.0)),
    (_HALF, (0.088, 0.0, 0.0)),
)
"""Of each joint: its frame's turn about x, and where it stands in the frame before, as in the arm's file; all turn
about their own z."""
_TO_HAND = 0.107 + 0.105
"""From the last joint's frame to the point between the fingertips, along z [m]."""
_DOWN = np.diag([1.0, -1.0, -1.0])
"""How panda-gym holds the hand."""
_DAMPING = 0.5
"""Square of Bullet's damping."""
_ITERATIONS = 20
"""Of Bullet's, of which `_TOGETHER` share a Jacobian here: that is 5 times as fast, and 0.05 mm away on average."""
_TOGETHER = 5
_EYE = np.eye(6)


def _fixed() -> Array:
    """Return each joint's frame in the one before, where it is not turned: (7, 4, 4)."""
    frames = np.zeros((7, 4, 4))
    for frame, (angle, place) in zip(frames, _CHAIN, strict=True):
        c, s = np.cos(angle), np.sin(angle)
        frame[:3, :3], frame[:3, 3], frame[3, 3] = [[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]], place, 1.0
    return frames


_FRAMES = _fixed()
_TIP_TURN = np.array([[1.0, 1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, np.sqrt(2.0)]]) / np.sqrt(2.0)
"""The hand is mounted at -45 degrees."""


class Kinematics:
    """The arm's chain.

    Args:
        base: where it stands [m].
    """

    def __init__(self, base: tuple[float, float, float]) -> None:
        self._base = np.asarray(base)

    def forward(self, joints: Array) -> tuple[Array, Array, Array]:
        """Return the hand's place (n, 3) [m], its axes (n, 3, 3), and its Jacobian (n, 6, 7): velocity over turning.

        Args:
            joints: (n, 7) [rad].
        """
        cos, sin = np.cos(joints)[..., None], np.sin(joints)[..., None]
        local = np.empty((len(joints), 7, 4, 4))
        local[...] = _FRAMES
        local[..., 0] = _FRAMES[..., 0] * cos + _FRAMES[..., 1] * sin
        local[..., 1] = _FRAMES[..., 1] * cos - _FRAMES[..., 0] * sin
        local[:, 0, :3, 3] += self._base
        for i in range(1, 7):
            local[:, i] = local[:, i - 1] @ local[:, i]
        axes, last = local[:, :, :3, 2], local[:, 6, :3]
        place = last[..., 3] + last[..., 2] * _TO_HAND
        jacobian = np.empty((len(joints), 6, 7))
        jacobian[:, :3] = cross(axes, place[:, None] - local[:, :, :3, 3]).swapaxes(1, 2)
        jacobian[:, 3:] = axes.swapaxes(1, 2)
        return place, last[..., :3] @ _TIP_TURN, jacobian

    def reach(self, joints: Array, targets: Array) -> Array:
        """Return what Bullet's `calculateInverseKinematics` makes of targets (n, 3) [m], the hand down: (n, 7) [rad].

        It is damped so strongly that its 20 iterations end short of a target, and that is part of how the arm moves.
        A damped step that is repeated with the same Jacobian is a geometric series.

        Args:
            joints: where the arms are, (n, 7) [rad].
            targets: where the hands shall be.
        """
        solution = joints
        for _ in range(_ITERATIONS // _TOGETHER):
            place, turn, jacobian = self.forward(solution)
            error = np.concatenate((targets - place, _turning(_DOWN @ turn.swapaxes(1, 2))), 1)[..., None]
            transposed = jacobian.swapaxes(1, 2)
            inverse = np.linalg.inv(jacobian @ transposed + _DAMPING * _EYE)
            step = inverse @ error
            left, total = step, step
            for _ in range(_TOGETHER - 1):
                left = _DAMPING * (inverse @ left)
                total = total + left
            solution = solution + (transposed @ total)[..., 0]
        return solution


def _turning(rotation: Array) -> Array:
    """Return axis times angle (n, 3) of rotations (n, 3, 3)."""
    axis = rotation[:, _NEXT[1], _NEXT[0]] - rotation[:, _NEXT[0], _NEXT[1]]
    size = np.sqrt((axis * axis).sum(1, keepdims=True))
    angle = np.arctan2(size, np.einsum("nii->n", rotation)[:, None] - 1.0)
    return axis * np.where(size < 1e-9, 0.5, angle / np.maximum(size, 1e-9))
