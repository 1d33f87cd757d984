"""The joints of an arm as signals that its adapter observes beside what the policy reads."""

from __future__ import annotations

from collections.abc import Sequence

from sami_runtime.signals import Signal

JOINT_POSITIONS, JOINT_VELOCITIES = "joint_positions", "joint_velocities"


def joint_signals(joints: Sequence[str]) -> tuple[Signal, Signal]:
    """Return `joint_positions` [rad] and `joint_velocities` [rad/s] of joints, by which `[body]` limits them."""
    names, free = tuple(joints), (None,) * len(joints)
    position, velocity = (
        Signal(name=name, size=len(names), unit=unit, elements=names, low=free, high=free)
        for name, unit in ((JOINT_POSITIONS, "rad"), (JOINT_VELOCITIES, "rad/s"))
    )
    return position, velocity
