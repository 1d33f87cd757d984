"""What the MuJoCo robots are rewarded for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sami_train.envs.mujoco.bodies import Array


class RobotStep(NamedTuple):
    """What one step did to n robots."""

    qpos: Array
    """Positions after it, (n, nq)."""
    qvel: Array
    """Velocities after it, (n, nv)."""
    speed: Array
    """Mean forward speed during it [m/s], (n,)."""
    speed_before: Array
    """Forward velocity of the torso at its start [m/s], (n,)."""
    control: Array
    """Control signals after masking crippled joints, in the actuators' unit, (n, A)."""
    contact: Array | None
    """External forces on each link (MuJoCo's cfrc_ext), (n, links, 6); None leaves their cost out."""


@dataclass(frozen=True)
class RunForward:
    """Forward speed, plus a bonus for each step, less the control and contact costs."""

    control_cost: float
    alive: float = 0.0
    contact_cost: float = 0.0

    def __call__(self, motion: RobotStep) -> Array:
        """Rewards (n,)."""
        reward = motion.speed + self.alive - self.control_cost * _squares(motion.control)
        if motion.contact is not None:
            reward -= self.contact_cost * _squares(np.clip(motion.contact, -1.0, 1.0))
        return reward


@dataclass(frozen=True)
class StayUp:
    """SlimHumanoid: forward velocity before the step, plus 5 while the torso is between 1 m and 2 m high."""

    control_cost: float = 0.1

    def __call__(self, motion: RobotStep) -> Array:
        """Rewards (n,)."""
        height = motion.qpos[:, 2]
        upright = (height >= 1.0) & (height <= 2.0)
        return 0.25 / 0.015 * motion.speed_before - self.control_cost * _squares(motion.control) + 5.0 * upright


@dataclass(frozen=True)
class StandUp:
    """HumanoidStandup: height of the torso over the simulator's time step, less the control and contact costs."""

    control_cost: float = 0.1
    contact_cost: float = 0.5e-6

    def __call__(self, motion: RobotStep) -> Array:
        """Rewards (n,)."""
        reward = motion.qpos[:, 2] / 0.003 + 1.0 - self.control_cost * _squares(motion.control)
        if motion.contact is not None:
            reward -= np.minimum(self.contact_cost * _squares(motion.contact), 10.0)
        return reward


Reward = RunForward | StayUp | StandUp


def _squares(x: Array) -> Array:
    return np.square(x).sum(axis=tuple(range(1, x.ndim)))
