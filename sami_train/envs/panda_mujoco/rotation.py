"""The turn of a body in the numbers that PyBullet tells."""

from __future__ import annotations

from collections.abc import Sequence
from math import asin, atan2, copysign, pi

_UPRIGHT = 0.99999
"""Sine of a pitch from which on roll and yaw turn about one axis; Bullet then puts all of it into yaw."""


def euler_of(quaternion: Sequence[float]) -> tuple[float, float, float]:
    """Return roll, pitch and yaw [rad] of a quaternion (w, x, y, z), as Bullet's `getEulerFromQuaternion`."""
    w, x, y, z = quaternion
    sine = -2.0 * (x * z - w * y)
    if abs(sine) >= _UPRIGHT:
        side = copysign(1.0, sine)
        return 0.0, side * pi / 2.0, 2.0 * atan2(-side * x, side * y)
    roll = atan2(2.0 * (y * z + w * x), w * w - x * x - y * y + z * z)
    yaw = atan2(2.0 * (x * y + w * z), w * w + x * x - y * y - z * z)
    return roll, asin(sine), yaw
