"""The settings of a robot on ROS 2, as a robot.toml gives them; docs/reference/ros2-settings.md explains each."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sami_runtime.errors import AdapterError
from sami_runtime.robots.kit.settings import AdapterSettings, RobotTable, Texts, Three
from sami_runtime.signals import NotNegative, Number, Positive

Topic = Annotated[str, Field(pattern=r"^/[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*$")]
PACKAGE = "package://"


class Qos(RobotTable):
    """Quality of service; both sides of a topic have to agree."""

    reliability: Literal["reliable", "best_effort"] = "reliable"
    durability: Literal["volatile", "transient_local"] = "volatile"
    """`"transient_local"` also brings the last message to those who come later."""
    depth: Annotated[int, Field(ge=1, le=1000)] = 1
    """Messages that are kept for whoever is slow; of a robot only the newest one is worth something."""
    deadline_s: Positive | None = None
    """Longest time [s] between two messages: of those that are sent, promised; of those that are heard, demanded."""


class HeardTopic(Qos):
    """A topic that is heard."""

    topic: Topic
    type: Literal["sensor_msgs/msg/JointState", "geometry_msgs/msg/PoseStamped"]
    reliability: Literal["reliable", "best_effort"] = "best_effort"
    """A message that has to be sent again comes too late for a policy, and holds up those behind it."""
    frame_id: str | None = None
    """In which poses have to be told; others are refused."""
    translation: Three = (0.0, 0.0, 0.0)
    """Where that frame's origin lies in the policy's [m]."""
    rpy: Three = (0.0, 0.0, 0.0)
    """How it is turned, about the fixed x, then y, then z axis [rad]."""
    clock: Literal["ours", "theirs"] = "ours"
    """Whose time the stamps are: this machine's and of all that keep it (chrony, PTP), or another one's."""
    delay_s: NotNegative = 0.0
    """What no stamp tells [s]: how much older than its stamp a measurement is; by another clock, how late all come."""
    future_s: NotNegative = 0.005
    """How far [s] clocks that keep the same time may be apart: from there on a stamp lies in the future."""
    smooth_s: NotNegative = 0.0
    """Over how long velocities of poses are taken [s]."""
    standing: bool = False
    """Whether what was said last holds until something else is: a goal does not age."""


class RosSource(RobotTable):
    """Where a signal is."""

    of: str
    """One of the topics of these settings."""
    field: Literal["position", "velocity", "effort", "rpy", "angular_velocity", "hand_position", "hand_velocity"] = (
        "position"
    )
    """A pose has position, rpy and the velocities; joints have position, velocity, effort, and the hand's."""
    joints: tuple[str, ...] = ()
    """Whose, in the signal's order."""
    factor: Number | tuple[Number, ...] = 1.0
    """Ours for one of theirs, or one for each element."""


class ArmKinematics(RobotTable):
    """The arm between joints and hand."""

    of: str
    """The topic that tells the joints."""
    model: str
    """URDF or MJCF; `package://NAME/...` lies in a Python package."""
    hand: str
    """Link or site that the policy moves."""
    joints: Texts
    speed: Positive | None = None
    """Highest speed of each joint [rad/s]; that of the URDF if left out."""
    home_speed: Positive = 0.5
    """Of each joint on the way home [rad/s]."""
    move_home: bool = True
    """Whether `reset` moves the arm home; else it has to be there already."""

    @property
    def file(self) -> Path:
        """Where the model is.

        Raises:
            AdapterError: There is no such package.
        """
        if not self.model.startswith(PACKAGE):
            return Path(self.model)
        package, _, rest = self.model.removeprefix(PACKAGE).partition("/")
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise AdapterError(f"kinematics.model is {self.model}, and there is no Python package {package} here.")
        return Path(spec.submodule_search_locations[0]) / rest


class RosCommand(Qos):
    """What is sent to the controller."""

    topic: Topic
    type: Literal["std_msgs/msg/Float64MultiArray", "trajectory_msgs/msg/JointTrajectory"]
    action: Literal["hand", "elements"]
    """`"hand"`: joint velocities (or positions, in a trajectory) that move the hand. `"elements"`: the action's own."""
    joints: tuple[str, ...] = ()
    """In the controller's order; those of the kinematics if left out."""
    factor: Number | tuple[Number, ...] = 1.0
    """Theirs for one of ours, or one for each."""
    standing: Number | tuple[Number, ...] | Literal["last"]
    """What is sent last, so that all rests: 0 to velocity controllers. `"last"`: nothing, where positions hold."""
    gain: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the way that an action makes in simulation, of the hand."""
    delay_s: NotNegative = 0.0
    """How long a command takes to have its effect [s], for files that look ahead."""


class RosGripper(Qos):
    """What is sent to the gripper's controller: Float64MultiArray with one number."""

    topic: Topic
    factor: Number = 1.0
    """Theirs for one metre between the fingers; 0.5 where each finger goes half of it."""
    widest_m: Positive = 0.08


class SentTopic(Qos):
    """A topic that others may hear."""

    topic: Topic


class Success(RobotTable):
    """When an episode has succeeded."""

    achieved: str = "achieved_goal"
    desired: str = "desired_goal"
    """The signals."""
    within_m: Positive = 0.05


class RosSettings(AdapterSettings):
    """All of it."""

    owner: ClassVar[str] = "the robot on ROS 2"
    page: ClassVar[str] = "docs/reference/ros2-settings.md"

    backend: Literal["auto", "cyclonedds", "rclpy"] = "auto"
    domain: Annotated[int, Field(ge=0, le=232)] | None = None
    """Of ROS; ROS_DOMAIN_ID if left out."""
    heard_s: Positive = 5.0
    """How long [s] others may take to be found, and to say something, at the beginning."""
    topics: Annotated[dict[str, HeardTopic], Field(min_length=1)]
    signals: dict[str, RosSource]
    kinematics: ArmKinematics | None = None
    command: RosCommand
    gripper: RosGripper | None = None
    episode: SentTopic | None = None
    """Where it is told that an episode begins: Float64MultiArray with the seed, and what a simulation is to place."""
    settle_s: NotNegative = 0.2
    """How long [s] the world may take for that."""
    task: tuple[Number, ...] = ()
    """What is told beside the seed."""
    success: Success | None = None
    diagnostics: SentTopic | None = SentTopic(topic="/diagnostics", depth=10)
