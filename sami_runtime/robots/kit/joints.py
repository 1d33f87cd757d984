"""Signals of an arm's joints, which its adapter observes in addition to the policy's signals."""

from __future__ import annotations

from collections.abc import Sequence

from sami_runtime.signals import Signal

JOINT_POSITIONS, JOINT_VELOCITIES = "joint_positions", "joint_velocities"


def joint_signals(joints: Sequence[str]) -> tuple[Signal, Signal]:
    """Return the signals `joint_positions` [rad] and `joint_velocities` [rad/s], (J,) each, for limits in `[body]`."""
    names, free = tuple(joints), (None,) * len(joints)
    position, velocity = (
        Signal(name=name, size=len(names), unit=unit, elements=names, low=free, high=free)
        for name, unit in ((JOINT_POSITIONS, "rad"), (JOINT_VELOCITIES, "rad/s"))
    )
    return position, velocity
