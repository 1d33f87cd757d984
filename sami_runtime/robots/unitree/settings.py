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
    """All of it. Several numbers are in the order of the policy's joints; what is left out, the model file says."""

    owner: ClassVar[str] = "the Go2"
    page: ClassVar[str] = "docs/how-to/unitree.md"

    network: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]+$")] | None = None
    """Interface to the robot, such as `"eth0"`; that of CYCLONEDDS_URI, or of Cyclone DDS's choice, if left out."""
    domain: Annotated[int, Field(ge=0, le=232)] = 0
    """Of DDS; a robot has 0."""
    heard_s: Positive = 5.0
    """How long [s] the robot may take to be found and to answer, at the beginning."""
    hz: Annotated[float, Field(ge=100.0, le=500.0)] = 200.0
    """How often the newest set-point is sent [1/s]; the robot's own programs send 500."""
    hold_s: Positive = 0.1
    """How long [s] a set-point holds if no action follows; the motors are damped then."""
    joints: dict[str, str] = {}
    """Element of the policy = motor of the robot (`FR_hip`), where the names differ."""
    signals: dict[str, str] = {}
    """Signal of the policy = what the robot measures, where its name does not say it."""
    command: str = ""
    """The velocity: `forward=0.5,turn=0.2`, a timeline (NAME.csv, NAME.toml), `keys`, or the robot's `remote` control;
    none moves."""
    fastest: Three = (0.6, 0.3, 0.8)
    """What full sticks of the remote control ask for: forward, to the left [m/s], turn [rad/s]."""
    scale: Numbers | None = None
    """Target angle [rad] = offset + scale * action, for a policy whose action is no angle."""
    offset: Numbers | None = None
    kp: Gains | None = None
    """Stiffness of the motors [N m/rad]."""
    kd: Gains | None = None
    """Damping of the motors [N m s/rad]."""
    stand: tuple[Number, ...] | None = None
    """Angles [rad] in which the robot stands before the policy drives it."""
    stand_s: Positive = 2.0
    """How long [s] it takes to stand up; one whose legs came to rest elsewhere folds them first, in twice that."""
    stand_kp: NotNegative = 60.0
    stand_kd: NotNegative = 3.0
    damp_kd: Positive = 3.0
    """Brakes the motors of a robot that is stopped [N m s/rad]."""
    fallen_deg: Annotated[float, Field(gt=0.0, lt=180.0)] = 60.0
    """Tilt of the trunk at which the robot has fallen, and is stopped."""
    release_sport_mode: bool = False
    """Whether an episode's beginning may have Unitree's own motion service lay the robot down and let go of it."""
