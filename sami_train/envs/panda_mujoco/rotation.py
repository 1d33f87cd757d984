"""Euler angles of a body's rotation by PyBullet's convention."""

from __future__ import annotations

from collections.abc import Sequence
from math import asin, atan2, copysign, pi

_UPRIGHT = 0.99999
"""Sine of the pitch at gimbal lock, from which Bullet sets the roll to 0 and puts the rotation into the yaw."""


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
