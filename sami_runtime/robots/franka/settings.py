"""The settings of a Franka and of its task: `settings` of a robot.toml."""

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
    """Scale of an action's displacement relative to the simulation. The real arm cannot follow at 1."""
    hand_speed: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Highest speed of the hand [m/s]."""
    joint_speed: Annotated[float, Field(gt=0.0, le=1.0)] = 0.6
    """Limit of the joints' speeds, as a share of their highest speeds."""
    home_speed: Annotated[float, Field(gt=0.0, le=1.0)] = 0.3
    """Share of these limits on the way home."""
    acceleration: Annotated[float, Field(gt=0.0, le=HIGHEST_ACCELERATION)] = 5.0
    """Highest acceleration of each joint [rad/s2]."""
    jerk: Annotated[float, Field(gt=0.0, le=HIGHEST_JERK)] = 1500.0
    """Highest jerk of each joint [rad/s3]."""

    @property
    def limits(self) -> JointLimits:
        """Limits of the joints' motion."""
        return JointLimits(self.joint_speed, self.acceleration, self.jerk)


class Compliance(RobotTable):
    """Impedance of the robot's own controller, and its thresholds for contact and reflexes; set at each connection."""

    joint_impedance: Seven = (3000.0, 3000.0, 3000.0, 2500.0, 2500.0, 2000.0, 2000.0)
    """Stiffness of each joint [Nm/rad]."""
    lower_torque: Seven = (20.0, 20.0, 18.0, 18.0, 16.0, 14.0, 12.0)
    """Torque of each joint from which it counts as in contact [Nm]."""
    upper_torque: Seven = (40.0, 40.0, 36.0, 36.0, 32.0, 28.0, 24.0)
    """Torque of each joint from which the robot stops by a reflex [Nm]."""
    lower_force: Six = (20.0, 20.0, 20.0, 25.0, 25.0, 25.0)
    """Force and torque at the hand that count as contact [N, Nm]."""
    upper_force: Six = (60.0, 60.0, 60.0, 30.0, 30.0, 30.0)
    """Force and torque at the hand that cause a reflex [N, Nm]."""


class FrankaHand(RobotTable):
    """How the hand moves and grasps."""

    speed: Annotated[float, Field(gt=0.0, le=0.2)] = 0.1
    """Speed of the fingers [m/s]."""
    force: Annotated[float, Field(gt=0.0, le=70.0)] = 30.0
    """Force of a grasp [N]."""
    arm_waits: Annotated[float, Field(gt=0.0, le=1.0)] = 0.4
    """Factor on the arm's speed while the fingers move, which in simulation takes only a tick or two."""
    least_change: Positive = 0.01
    """Least change of width [m] for which a command is sent; each command takes the hand some tenths of a second."""


class FrankaCamera(RobotTable):
    """The camera, which sends JSON over UDP: `{"time": s, "position": [x, y, z], "xyzw": [x, y, z, w]}`."""

    here: Address
    """Host and port at which its messages arrive."""
    there: Address
    """Its host and port, which get `{"place": SEED}` when an episode begins; other senders' messages are dropped."""
    delay_s: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Delay of all its messages that their stamps do not include [s]."""
    smooth_s: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.05
    """Time over which positions are differentiated to velocities [s]."""
    theirs: tuple[Three, ...] = ()
    """Points in its own frame [m]; none if it reports in the table's frame."""
    ours: tuple[Three, ...] = ()
    """The same points in the table's frame [m]."""
    task: dict[str, Any] = {}
    """What a simulated camera should place, sent along with the seed."""


class FrankaWorkspace(RobotTable):
    """Where the hand may move, in the table's frame [m]; it slows down near an edge."""

    low: Three = (-0.25, -0.3, 0.01)
    high: Three = (0.25, 0.3, 0.45)
    reach: Positive = 0.78
    """Largest horizontal distance from the arm's base [m]: near a stretched arm, joints have to move very fast."""


class FrankaGoal(RobotTable):
    """Goal of the cube, drawn between two corners in the table's frame [m]."""

    low: Three = (-0.15, -0.15, 0.02)
    high: Three = (0.15, 0.15, 0.02)
    within_m: Positive = 0.05
    """Distance from the goal that counts as success [m]."""


class FrankaSettings(AdapterSettings):
    """The whole table `settings`."""

    owner: ClassVar[str] = "the Franka"
    page: ClassVar[str] = "docs/reference/franka-settings.md"

    robot: str
    """Network address of the robot."""
    realtime: Literal["enforce", "ignore"] = "enforce"
    """Whether to refuse a kernel without real-time support."""
    stale_s: Annotated[float, Field(gt=0.0, le=0.5)] = 0.12
    """Time [s] without a command after which the arm is stopped, because the policy or its host stalled."""
    least_success: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.8
    """Share of commands that reach the robot in time below which the arm is stopped."""
    move_home: bool = True
    """Whether `reset` moves the arm home; if not, it has to be there already."""
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
