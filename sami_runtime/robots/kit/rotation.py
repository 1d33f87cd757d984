"""Conversions between quaternions, Euler angles and matrices (..., 3, 3), whose columns are the rotated axes.

Quaternions are x, y, z, w, as in ROS, PyBullet and most cameras; MuJoCo has w first. Euler angles are
roll, pitch, yaw [rad] about the fixed x, then y, then z axis: R = Rz(yaw) Ry(pitch) Rx(roll).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.errors import AdapterError

Array = NDArray[np.float64]

UNIT = 0.01
"""Largest deviation of a quaternion's length from 1, since messages are rounded."""


def matrix_from_xyzw(xyzw: ArrayLike) -> Array:
    """Return the matrices (..., 3, 3) of quaternions (..., 4), x, y, z, w.

    Raises:
        AdapterError: They are not 4 finite numbers each, or not of length 1.
    """
    quaternion = numbers(xyzw, (4,), "a quaternion (x, y, z, w)")
    length = np.linalg.norm(quaternion, axis=-1)
    if (abs(length - 1.0) > UNIT).any():
        raise AdapterError(
            f"the quaternion {as_text(quaternion)} has length {length.flat[np.argmax(abs(length - 1.0))]:.3g}, not 1. "
            "Give x, y, z, w of a unit quaternion."
        )
    x, y, z, w = np.moveaxis(quaternion / length[..., None], -1, 0)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def matrix_from_rpy(rpy: ArrayLike) -> Array:
    """Return the matrices (..., 3, 3) of Euler angles (..., 3) [rad].

    >>> matrix_from_rpy([0.0, 0.0, np.pi / 2]).round() @ [1.0, 0.0, 0.0]
    array([0., 1., 0.])

    Raises:
        AdapterError: They are not 3 finite numbers each.
    """
    angles = numbers(rpy, (3,), "Euler angles (roll, pitch, yaw)")
    (sr, sp, sy), (cr, cp, cy) = np.moveaxis(np.sin(angles), -1, 0), np.moveaxis(np.cos(angles), -1, 0)
    rows = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def rpy_from_matrix(matrix: ArrayLike) -> Array:
    """Return the Euler angles (..., 3) [rad] of matrices (..., 3, 3); pitch within ±pi/2.

    At a pitch of ±pi/2, only the sum or difference of roll and yaw is determined; roll is then 0.
    """
    turned = np.asarray(matrix, np.float64)
    level = np.hypot(turned[..., 0, 0], turned[..., 1, 0])
    upright = level < 1e-7
    roll = np.where(upright, 0.0, np.arctan2(turned[..., 2, 1], turned[..., 2, 2]))
    yaw = np.where(
        upright, np.arctan2(-turned[..., 0, 1], turned[..., 1, 1]), np.arctan2(turned[..., 1, 0], turned[..., 0, 0])
    )
    return np.stack([roll, np.arctan2(-turned[..., 2, 0], level), yaw], axis=-1)


def xyzw_from_matrix(matrix: ArrayLike) -> Array:
    """Return the quaternions (..., 4), x, y, z, w, of matrices (..., 3, 3); w is at least 0."""
    turned = np.asarray(matrix, np.float64)
    flat = turned.reshape(-1, 3, 3)
    quaternions = np.array([_quaternion(rotation) for rotation in flat]).reshape(*turned.shape[:-2], 4)
    return np.where(quaternions[..., 3:] < 0, -quaternions, quaternions)


def rotation_vector(matrix: Array) -> Array:
    """Return the rotation vector (3,) of a rotation (3, 3): its axis times its angle [rad], 0 to pi."""
    x, y, z, w = xyzw_from_matrix(matrix)
    sine = float(np.linalg.norm((x, y, z)))
    return np.array((x, y, z)) * (2.0 * np.arctan2(sine, w) / sine if sine > 1e-12 else 2.0)


def nearest_rotation(matrix: Array) -> Array:
    """Return the rotation (3, 3) nearest to a matrix, which undoes the rounding of messages."""
    left, _, right = np.linalg.svd(matrix)
    return left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right


def numbers(value: ArrayLike, shape: tuple[int, ...], label: str) -> Array:
    """Return an array of finite numbers (..., *shape).

    Raises:
        AdapterError: The value has another shape, or is not finite.
    """
    array = np.asarray(value, np.float64)
    if array.shape[array.ndim - len(shape) :] != shape or array.ndim < len(shape):
        raise AdapterError(f"{label} has shape {shape}, and what was given has {array.shape}.")
    if not np.isfinite(array).all():
        raise AdapterError(f"{label} must be finite, and what was given is {as_text(array)}.")
    return array


def as_text(array: Array) -> str:
    """Return an array as text for messages."""
    return np.array2string(array, precision=4, suppress_small=True, separator=", ", threshold=12).replace("\n", "")


def _quaternion(m: Array) -> Array:
    """Return the quaternion of a rotation (3, 3), from the largest of four candidates, for numerical stability."""
    trace = np.trace(m)
    largest = int(np.argmax([m[0, 0], m[1, 1], m[2, 2], trace]))
    if largest == 3:
        quaternion = np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], 1.0 + trace])
    else:
        i, j, k = largest, (largest + 1) % 3, (largest + 2) % 3
        quaternion = np.empty(4)
        quaternion[i], quaternion[j], quaternion[k] = (
            1.0 + m[i, i] - m[j, j] - m[k, k],
            m[j, i] + m[i, j],
            m[k, i] + m[i, k],
        )
        quaternion[3] = m[k, j] - m[j, k]
    return quaternion / np.linalg.norm(quaternion)
