"""Rotations of many bodies, as quaternions (w, x, y, z), in the numbers that PyBullet tells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NEXT = np.array([1, 2, 0]), np.array([2, 0, 1])
"""Of each axis: the one after it, and the one after that."""
_UPRIGHT = 0.99999
"""Sine of a pitch from which on roll and yaw turn about one axis; Bullet then puts all of it into yaw."""


def euler_of(quaternions: Array) -> Array:
    """Return roll, pitch and yaw (n, 3) [rad] of (n, 4), as Bullet's `getEulerFromQuaternion`."""
    w, x, y, z = quaternions.T
    sine = -2.0 * (x * z - w * y)
    roll = np.arctan2(2.0 * (y * z + w * x), w * w - x * x - y * y + z * z)
    yaw = np.arctan2(2.0 * (x * y + w * z), w * w + x * x - y * y - z * z)
    upright = np.abs(sine) >= _UPRIGHT
    side = np.where(sine > 0.0, 1.0, -1.0)
    roll = np.where(upright, 0.0, roll)
    yaw = np.where(upright, 2.0 * np.arctan2(-side * x, side * y), yaw)
    pitch = np.where(upright, side * np.pi / 2.0, np.arcsin(np.clip(sine, -1.0, 1.0)))
    return np.stack((roll, pitch, yaw), 1)


def rotated(quaternions: Array, vectors: Array) -> Array:
    """Return vectors (n, 3) of bodies turned by (n, 4), along the world's axes."""
    w, axis = quaternions[:, :1], quaternions[:, 1:]
    across = 2.0 * cross(axis, vectors)
    return vectors + w * across + cross(axis, across)


def cross(a: Array, b: Array) -> Array:
    """Return the cross product (..., 3): numpy's takes four times as long for few rows."""
    second, third = NEXT
    return a[..., second] * b[..., third] - a[..., third] * b[..., second]
