"""The settings of a Go2, the table `settings` of a robot.toml; docs/how-to/unitree.md explains each."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from sami_runtime.robots.kit.settings import AdapterSettings, Three
from sami_runtime.signals import NotNegative, Number, Positive

Numbers = Number | Annotated[tuple[Number, ...], Field(min_length=1)]
Gains = NotNegative | Annotated[tuple[NotNegative, ...], Field(min_length=1)]
REMOTE = "remote"


class UnitreeSettings(AdapterSettings):
    """The whole table `settings`. Tuples are in the policy's order; numbers left out come from the model file."""

    owner: ClassVar[str] = "the Go2"
    page: ClassVar[str] = "docs/how-to/unitree.md"

    network: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]+$")] | None = None
    """Interface to the robot, such as `"eth0"`; if left out, that of CYCLONEDDS_URI or Cyclone DDS's choice."""
    domain: Annotated[int, Field(ge=0, le=232)] = 0
    """Domain of DDS; 0 on a robot."""
    heard_s: Positive = 5.0
    """Longest wait [s] for the robot to be discovered and to answer."""
    hz: Annotated[float, Field(ge=100.0, le=500.0)] = 200.0
    """Rate at which the newest set-point is sent [1/s]; Unitree's programs use 500."""
    hold_s: Positive = 0.1
    """Time [s] after a set-point at which the motors are damped if no action follows."""
    joints: dict[str, str] = {}
    """Element of the policy = motor of the robot (`FR_hip`), for names that differ."""
    signals: dict[str, str] = {}
    """Signal of the policy = quantity (`gravity`), if its name does not identify it."""
    command: str = ""
    """Velocity command: `forward=0.5,turn=0.2`, a timeline (NAME.csv, NAME.toml), `keys`, `gamepad`, or the robot's
    `remote` control; if left out, 0."""
    fastest: Three = (0.6, 0.3, 0.8)
    """Command of full sticks of the remote control: forward, to the left [m/s], turn [rad/s]."""
    scale: Numbers | None = None
    """Target angle [rad] = offset + scale * action, for a policy whose action is no angle."""
    offset: Numbers | None = None
    kp: Gains | None = None
    """Stiffness of the motors [N m/rad]."""
    kd: Gains | None = None
    """Damping of the motors [N m s/rad]."""
    stand: tuple[Number, ...] | None = None
    """Angles of the stance before the policy takes over [rad]."""
    stand_s: Positive = 2.0
    """Time to stand up [s]; a robot whose legs are neither standing nor folded folds them first, in twice this time."""
    stand_kp: NotNegative = 60.0
    stand_kd: NotNegative = 3.0
    damp_kd: Positive = 3.0
    """Damping gain of a stopped robot's motors [N m s/rad]."""
    fallen_deg: Annotated[float, Field(gt=0.0, lt=180.0)] = 60.0
    """Tilt of the trunk [degrees] at which the robot counts as fallen, and is stopped."""
    release_sport_mode: bool = False
    """Whether `reset` may ask Unitree's motion service to lay the robot down and to release its motors."""
