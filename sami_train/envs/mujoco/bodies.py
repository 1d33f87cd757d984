"""The robots of the MuJoCo benchmark: their observations and rewards, without a simulator.

Observations and rewards are functions of arrays with a leading axis of n robots, so that a single environment (n = 1)
and a batch share them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.signals import Signal
from sami_train.envs.layout import signal

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Body:
    """One robot: its model, its joints, and its observation."""

    xml: str
    """File among Gymnasium's MuJoCo models."""
    frame_skip: int
    """Simulation steps per action."""
    rate_hz: float
    """Actions per second."""
    joints: tuple[str, ...]
    """Joint of each actuator, in the order of the action."""
    signals: tuple[Signal, ...]
    """The signals of the observation, in order."""
    position_noise: tuple[str, float]
    """Distribution ("uniform", "normal") and scale of the noise on the positions at a reset."""
    velocity_noise: tuple[str, float]
    """Distribution and scale of the noise on the velocities at a reset."""
    unseen: int = 1
    """Number of leading positions that the observation omits: the robot's place on the ground."""
    shows_speed: bool = False
    """Whether the observation begins with the mean forward speed."""
    most_velocity: float | None = None
    """Bound to which observed velocities are clipped [m/s, rad/s]; None does not clip."""
    limit: float = 1.0
    """Control signal for an action of 1, the end of the actuators' range."""

    def observe(self, qpos: Array, qvel: Array, speed: Array) -> NDArray[np.float32]:
        """Return observations (n, D) from positions (n, nq), velocities (n, nv) and mean forward speed (n,) [m/s]."""
        if self.most_velocity is not None:
            qvel = np.clip(qvel, -self.most_velocity, self.most_velocity)
        parts = [speed[:, None]] if self.shows_speed else []
        return np.concatenate([*parts, qpos[:, self.unseen :], qvel], axis=1).astype(np.float32)

    @property
    def action(self) -> Signal:
        """The signal of the action."""
        meaning = f"control signal of each motor, times {self.limit:g}"
        return signal("motor_commands", "1", self.joints, (-1.0, 1.0), meaning=meaning)


@dataclass(frozen=True)
class Links:
    """How the links of a crippled part shrink (`shrink_geoms`); geoms count from 0 after the torso's geom."""

    halved: tuple[int, ...]
    """Geoms whose size is halved."""
    collapsed: tuple[int, ...]
    """Geoms that move to the place of the geom `target`."""
    target: int
    """Geom at whose place the collapsed geoms are put."""


_SPEED = signal("forward_speed", "m/s", ["x"], meaning="mean over the last step, 0 at a reset")


def _planar(joints: tuple[str, ...], bounds: tuple[float, float] | None = None) -> tuple[Signal, ...]:
    """Return the signals of a robot that moves in the x-z plane, in the order of its positions and velocities."""
    return (
        signal("torso_height", "m", ("z",)),
        signal("torso_pitch", "rad", ("pitch",)),
        signal("joint_angles", "rad", joints),
        signal("torso_velocity", "m/s", ("x", "z"), bounds),
        signal("torso_pitch_rate", "rad/s", ("pitch",), bounds),
        signal("joint_velocities", "rad/s", joints, bounds),
    )


def _free(joints: tuple[str, ...]) -> tuple[Signal, ...]:
    """Return the signals of a robot that moves freely in space, in the order of its positions and velocities."""
    return (
        signal("torso_height", "m", ("z",)),
        signal("torso_orientation", "1", ("w", "x", "y", "z"), meaning="unit quaternion"),
        signal("joint_angles", "rad", joints),
        signal("torso_velocity", "m/s", ("x", "y", "z")),
        signal("torso_angular_velocity", "rad/s", ("x", "y", "z"), meaning="in the torso's frame"),
        signal("joint_velocities", "rad/s", joints),
    )


_CHEETAH = ("bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot")
_LEG = ("thigh_joint", "leg_joint", "foot_joint")
_LEGS = (*_LEG, "thigh_left_joint", "leg_left_joint", "foot_left_joint")
_ANT = tuple(f"{part}_{leg}" for leg in (1, 2, 3, 4) for part in ("hip", "ankle"))
_ARMS = tuple(f"{side}_{part}" for side in ("right", "left") for part in ("shoulder1", "shoulder2", "elbow"))
_HIPS = tuple(f"{side}_{part}" for side in ("right", "left") for part in ("hip_x", "hip_z", "hip_y", "knee"))
HALF_CHEETAH = Body(
    xml="half_cheetah.xml",
    frame_skip=5,
    rate_hz=20.0,
    joints=_CHEETAH,
    signals=(_SPEED, *_planar(_CHEETAH)),
    shows_speed=True,
    position_noise=("normal", 0.001),
    velocity_noise=("normal", 0.001),
)
HOPPER = Body(
    xml="hopper.xml",
    frame_skip=4,
    rate_hz=125.0,
    joints=_LEG,
    signals=_planar(_LEG, (-10.0, 10.0)),
    most_velocity=10.0,
    position_noise=("uniform", 0.005),
    velocity_noise=("uniform", 0.005),
)
WALKER = replace(HOPPER, xml="walker2d.xml", joints=_LEGS, signals=_planar(_LEGS, (-10.0, 10.0)))
ANT = Body(
    xml="ant.xml",
    frame_skip=5,
    rate_hz=20.0,
    # Gymnasium's model lists the motors of the last leg first.
    joints=(*_ANT[6:], *_ANT[:6]),
    signals=(_SPEED, *_free(_ANT)),
    unseen=2,
    shows_speed=True,
    position_noise=("uniform", 0.1),
    velocity_noise=("normal", 0.1),
)
_HUMANOID_JOINTS = ("abdomen_z", "abdomen_y", "abdomen_x", *_HIPS, *_ARMS)
HUMANOID = Body(
    xml="humanoid.xml",
    frame_skip=5,
    rate_hz=200.0 / 3.0,
    # The model lists the motors of the abdomen in another order than its joints.
    joints=("abdomen_y", "abdomen_z", *_HUMANOID_JOINTS[2:]),
    limit=0.4,
    signals=_free(_HUMANOID_JOINTS),
    unseen=2,
    position_noise=("uniform", 0.01),
    velocity_noise=("uniform", 0.01),
)

# Each leg of an ant is three capsules; the inner one belongs to the torso and stays.
ANT_LINKS = {leg: Links((3 * leg + 1, 3 * leg + 2), collapsed=(3 * leg + 2,), target=3 * leg + 1) for leg in range(4)}
# Each leg of a walker is thigh, shin and foot.
WALKER_LINKS = {
    joint: Links((joint,), collapsed=(joint + 1, joint + 2), target=joint)
    if joint % 3 == 0
    else Links((joint,), collapsed=(joint // 3 * 3 + 2,), target=joint // 3 * 3 + 1)
    for joint in range(6)
}


class RobotStep(NamedTuple):
    """One step of n robots, as the rewards need it."""

    qpos: Array
    """Positions after the step, (n, nq)."""
    qvel: Array
    """Velocities after the step, (n, nv)."""
    speed: Array
    """Mean forward speed during the step [m/s], (n,)."""
    speed_before: Array
    """Forward velocity of the torso before the step [m/s], (n,)."""
    control: Array
    """Control signals in the actuators' unit, 0 for crippled motors, (n, A)."""
    contact: Array | None
    """External forces and torques on each link (MuJoCo's cfrc_ext), (n, links, 6); None omits the contact cost."""


@dataclass(frozen=True)
class RunForward:
    """Mean forward speed plus a bonus for each step, less the control and contact costs."""

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
    """SlimHumanoid: 16.7 times the velocity before the step, plus 5 at a height of 1 m to 2 m, less control cost."""

    control_cost: float = 0.1

    def __call__(self, motion: RobotStep) -> Array:
        """Rewards (n,)."""
        height = motion.qpos[:, 2]
        upright = (height >= 1.0) & (height <= 2.0)
        return 0.25 / 0.015 * motion.speed_before - self.control_cost * _squares(motion.control) + 5.0 * upright


@dataclass(frozen=True)
class StandUp:
    """HumanoidStandup: torso height over the time step of 0.003 s, plus 1, less the control and contact costs."""

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
