"""What is known of a robot and asked of it: `settings` of a robot.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from sami_runtime.errors import AdapterError
from sami_runtime.robots.franka.generator import HIGHEST_ACCELERATION, HIGHEST_JERK, JointLimits
from sami_runtime.robots.kit.settings import AdapterSettings, RobotTable, Three
from sami_runtime.signals import Positive

if TYPE_CHECKING:
    from typing_extensions import Self

Six = Annotated[tuple[Positive, ...], Field(min_length=6, max_length=6)]
Seven = Annotated[tuple[Positive, ...], Field(min_length=7, max_length=7)]
Address = tuple[str, int]


class FrankaMotion(RobotTable):
    """How fast the arm moves."""

    gain: Annotated[float, Field(gt=0.0, le=1.0)] = 0.3
    """Share of the way that an action makes in simulation. The real arm cannot follow at 1."""
    hand_speed: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Highest speed of the hand [m/s]."""
    joint_speed: Annotated[float, Field(gt=0.0, le=1.0)] = 0.6
    """Share of the joints' highest speeds that nothing exceeds."""
    home_speed: Annotated[float, Field(gt=0.0, le=1.0)] = 0.3
    """Share of those speeds on the way home."""
    acceleration: Annotated[float, Field(gt=0.0, le=HIGHEST_ACCELERATION)] = 5.0
    """Of each joint [rad/s2]."""
    jerk: Annotated[float, Field(gt=0.0, le=HIGHEST_JERK)] = 1500.0
    """Of each joint [rad/s3]."""

    @property
    def limits(self) -> JointLimits:
        """What the joints keep to."""
        return JointLimits(self.joint_speed, self.acceleration, self.jerk)


class Compliance(RobotTable):
    """What the robot's own controller does, and when it stops by itself; set at each connection."""

    joint_impedance: Seven = (3000.0, 3000.0, 3000.0, 2500.0, 2500.0, 2000.0, 2000.0)
    """[Nm/rad]."""
    lower_torque: Seven = (20.0, 20.0, 18.0, 18.0, 16.0, 14.0, 12.0)
    """From which each joint counts as in contact [Nm]."""
    upper_torque: Seven = (40.0, 40.0, 36.0, 36.0, 32.0, 28.0, 24.0)
    """From which the robot stops by a reflex [Nm]."""
    lower_force: Six = (20.0, 20.0, 20.0, 25.0, 25.0, 25.0)
    """The same of the hand [N, Nm]."""
    upper_force: Six = (60.0, 60.0, 60.0, 30.0, 30.0, 30.0)
    """The same of the hand [N, Nm]."""


class FrankaHand(RobotTable):
    """How the hand moves."""

    speed: Annotated[float, Field(gt=0.0, le=0.2)] = 0.1
    """[m/s]."""
    force: Annotated[float, Field(gt=0.0, le=70.0)] = 30.0
    """With which it holds [N]."""
    arm_waits: Annotated[float, Field(gt=0.0, le=1.0)] = 0.4
    """Share of its speed that the arm keeps while the fingers move: in simulation they do so within a tick or two."""
    least_change: Positive = 0.01
    """Change of the wanted width [m] that is worth a command; each takes the hand some tenths of a second."""


class FrankaCamera(RobotTable):
    """Who tells where the cube is: JSON over UDP, `{"time": s, "position": [x, y, z], "xyzw": [x, y, z, w]}`."""

    here: Address
    """Where it is heard."""
    there: Address
    """Where it is, to be told `{"place": SEED}` when an episode begins; messages of any other sender are dropped."""
    delay_s: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """How late all of its messages are [s], which no stamp tells."""
    smooth_s: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.05
    """Over how long velocities are taken [s]."""
    theirs: tuple[Three, ...] = ()
    """Points as it tells them [m]; none where it tells of the table's frame."""
    ours: tuple[Three, ...] = ()
    """The same points in the table's frame [m]."""
    task: dict[str, Any] = {}
    """What a simulated one should place, told along with the seed."""


class FrankaWorkspace(RobotTable):
    """Where the hand may go, in the table's frame [m]; it slows down before an edge."""

    low: Three = (-0.25, -0.3, 0.01)
    high: Three = (0.25, 0.3, 0.45)
    reach: Positive = 0.78
    """Farthest from the arm's base, along the table [m]: a stretched arm that holds its hand upright moves wildly."""


class FrankaGoal(RobotTable):
    """Where the cube is to go, in the table's frame [m]; drawn between the two."""

    low: Three = (-0.15, -0.15, 0.02)
    high: Three = (0.15, 0.15, 0.02)
    within_m: Positive = 0.05
    """How close it has to be."""


class FrankaSettings(AdapterSettings):
    """All of it."""

    owner: ClassVar[str] = "the Franka"
    page: ClassVar[str] = "docs/reference/franka-settings.md"

    robot: str
    """The robot's address."""
    realtime: Literal["enforce", "ignore"] = "enforce"
    """Whether a kernel without real time is refused."""
    stale_s: Annotated[float, Field(gt=0.0, le=0.5)] = 0.12
    """Longest time [s] without a command before the arm is stopped: the policy, or its host, stalled."""
    least_success: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.8
    """Least share of commands that reach the robot in time before the arm is stopped."""
    move_home: bool = True
    """Whether `reset` moves the arm home; else it has to be there already."""
    motion: FrankaMotion = FrankaMotion()
    compliance: Compliance = Compliance()
    hand: FrankaHand = FrankaHand()
    camera: FrankaCamera
    workspace: FrankaWorkspace = FrankaWorkspace()
    goal: FrankaGoal = FrankaGoal()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the settings of a document; see `AdapterSettings.of`."""
        settings = super().of(document)
        for name, box in (("workspace", settings.workspace), ("goal", settings.goal)):
            if not (np.array(box.low) <= np.array(box.high)).all():
                raise AdapterError(f"{name}.low is {box.low}, above {name}.high {box.high}; exchange them.")
        return settings
