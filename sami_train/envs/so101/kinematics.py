"""Forward and inverse kinematics of the SO-101's fingertips, and a scripted push for exploration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sami_train.envs.tasks import Task

Array = NDArray[np.float64]

STEP = 0.08
"""Change of a joint's target from its present angle for an action of 1 [rad]."""
HOME = (0.0, -0.75, 0.84, 1.11)
"""Joint angles [rad] near which episodes begin: the fingertips 0.16 m from the pan axis, 0.06 m above the table."""
_PAN_X, _LIFT_R, _LIFT_Z = 0.0388353, 0.0303992, 0.1166
"""Distances [m]: of the pan axis from the base along x; of the lift axis from the pan axis, and above the table."""
_UPPER, _FORE, _HAND = 0.028 + 0.11257j, 0.1349 + 0.0052j, 0.1592274 - 0.0079j
"""Vectors from lift to elbow, to wrist, to between the fingertips, in the zero pose: outwards + up i [m]."""
_PITCH = 1.15
"""Downward pitch of the fingers in the scripted push [rad]."""


def tip_of(angles: Array) -> Array:
    """Return the point between the fingertips (3,) [m] in the base's frame for joint angles (4,) [rad]."""
    lift, elbow, wrist = np.exp(-1j * np.cumsum(angles[1:]))
    at = _LIFT_R + 1j * _LIFT_Z + _UPPER * lift + _FORE * elbow + _HAND * wrist
    return np.array([_PAN_X + at.real * np.cos(angles[0]), -at.real * np.sin(angles[0]), at.imag])


def joints_at(tip: Array) -> Array:
    """Return joint angles (4,) [rad] for fingertips at a point (3,) [m], or as near to it as the arm reaches."""
    x, y, z = tip[0] - _PAN_X, tip[1], tip[2]
    to_wrist = np.hypot(x, y) + 1j * z - _HAND * np.exp(-1j * _PITCH) - _LIFT_R - 1j * _LIFT_Z
    upper, fore = abs(_UPPER), abs(_FORE)
    reach = np.clip(abs(to_wrist), abs(upper - fore) + 1e-6, upper + fore - 1e-6)
    at_lift = np.arccos((upper**2 + reach**2 - fore**2) / (2.0 * upper * reach))
    at_elbow = np.arccos((upper**2 + fore**2 - reach**2) / (2.0 * upper * fore))
    raised = np.angle(to_wrist) + at_lift
    lift = np.angle(_UPPER) - raised
    elbow = np.angle(_FORE) - (raised - np.pi + at_elbow) - lift
    return np.array([-np.arctan2(y, x), lift, elbow, _PITCH - lift - elbow])


def push(observation: NDArray[np.float32], rng: np.random.Generator, task: Task) -> NDArray[np.float32]:
    """Return a noisy action (4,) for an observation (10,): go above the point behind the cube, go down, then push."""
    angles, cube, goal = np.split(observation.astype(float), [4, 8])[0], observation[4:6], observation[8:10]
    tip, way = tip_of(angles), (goal - cube).astype(float)
    distance = max(float(np.linalg.norm(way)), 1e-6)
    way /= distance
    ahead = tip[:2] - cube
    along, across = float(ahead @ way), abs(float(ahead[0] * way[1] - ahead[1] * way[0]))
    if tip[2] < 0.035 and along < 0.0 and across < 0.02:
        target = np.append(cube + way * (min(distance, 0.04) - 0.03), 0.018)
    else:
        start = cube - 0.05 * way
        near = float(np.linalg.norm(tip[:2] - start)) < 0.02
        target = np.append(start, 0.018 if near else 0.065)
    move = (joints_at(target) - angles) / STEP
    move = move / max(1.0, np.abs(move).max()) + rng.normal(0.0, 0.15, 4)
    return np.clip(move, -1.0, 1.0).astype(np.float32)
