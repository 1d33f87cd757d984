"""A step that keeps a rate and an acceleration, and can still come to rest at its target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


def ease(
    step: Float64, speed: Float64, elapsed: float, rate: Float64, acceleration: Float64
) -> tuple[Float64, Float64]:
    """Limits a step by rate, and by acceleration so that it can still come to rest at its target.

    The speed from which the rest of the way allows braking, v^2 / (2 a) + v dt / 2 = |step|, keeps the action from
    overshooting a target that stands still, where dt stays the same; where it varies, it overshoots by little.

    Args:
        step: (A,) from the last action to the target, in the action's unit.
        speed: (A,) of the last step [unit/s].
        elapsed: dt, the time that the step takes [s].
        rate: (A,) largest speed [unit/s]; infinite where there is no limit.
        acceleration: (A,) largest change of speed [unit/s^2]; infinite where there is no limit.

    Returns:
        (A,) the step within the rate, and (A,) the step within both.
    """
    by_rate = np.clip(step, -rate * elapsed, rate * elapsed)
    limit = np.where(np.isfinite(acceleration), acceleration, 0.0)
    brake = np.sqrt((limit * elapsed / 2) ** 2 + 2 * limit * np.abs(step)) - limit * elapsed / 2
    wanted = np.clip(by_rate, -brake * elapsed, brake * elapsed)
    reachable = np.clip(wanted, (speed - limit * elapsed) * elapsed, (speed + limit * elapsed) * elapsed)
    return by_rate, np.where(np.isfinite(acceleration), reachable, by_rate)
