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
    """Quality of service; a publisher must offer at least what a subscriber requests."""

    reliability: Literal["reliable", "best_effort"] = "reliable"
    durability: Literal["volatile", "transient_local"] = "volatile"
    """`"transient_local"` also delivers the last messages to subscribers that join later."""
    depth: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of messages stored for a slow subscriber; of a robot only the newest is useful."""
    deadline_s: Positive | None = None
    """Longest time [s] between two messages: offered for sent topics, requested for heard topics."""


class ObservedTopic(Qos):
    """A topic that is heard."""

    topic: Topic
    type: Literal["sensor_msgs/msg/JointState", "geometry_msgs/msg/PoseStamped"]
    reliability: Literal["reliable", "best_effort"] = "best_effort"
    """A message that is sent again is too late for a policy, and delays the messages after it."""
    frame_id: str | None = None
    """Frame in which poses must be given; poses in other frames are refused."""
    translation: Three = (0.0, 0.0, 0.0)
    """Origin of that frame in the policy's frame [m]."""
    rpy: Three = (0.0, 0.0, 0.0)
    """Rotation of that frame, about the fixed x, then y, then z axis [rad]."""
    clock: Literal["ours", "theirs"] = "ours"
    """Clock of the stamps: this machine's, also on machines synchronised with it (chrony, PTP), or another clock."""
    delay_s: NotNegative = 0.0
    """Delay that no stamp includes [s]: from measurement to stamp; with another clock, that of every message."""
    future_s: NotNegative = 0.005
    """Largest difference [s] between synchronised clocks: stamps further in the future are refused."""
    smooth_s: NotNegative = 0.0
    """Time over which poses are differentiated to velocities [s]."""
    standing: bool = False
    """Whether the last message stays valid until the next one, as a goal does, and never ages."""


class RosSource(RobotTable):
    """The source of a signal."""

    of: str
    """One of the topics of these settings."""
    field: Literal["position", "velocity", "effort", "rpy", "angular_velocity", "hand_position", "hand_velocity"] = (
        "position"
    )
    """A pose has position, rpy, velocity, angular_velocity; joints have position, velocity, effort, hand_*."""
    joints: tuple[str, ...] = ()
    """Names of the joints, in the signal's order."""
    factor: Number | tuple[Number, ...] = 1.0
    """Signal = factor * value in the message; one for all, or one for each element."""


class ArmKinematics(RobotTable):
    """Kinematics of the arm, from its joints to its hand."""

    of: str
    """The topic with the joints' state."""
    model: str
    """URDF or MJCF file; `package://NAME/...` is a file in a Python package."""
    hand: str
    """Link or site that the policy moves."""
    joints: Texts
    speed: Positive | None = None
    """Highest speed of each joint [rad/s]; that of the URDF if left out."""
    home_speed: Positive = 0.5
    """Highest speed of each joint on the way home [rad/s]."""
    move_home: bool = True
    """Whether `reset` moves the arm home; if not, it has to be there already."""

    @property
    def file(self) -> Path:
        """Path of the model.

        Raises:
            AdapterError: The package does not exist.
        """
        if not self.model.startswith(PACKAGE):
            return Path(self.model)
        package, _, rest = self.model.removeprefix(PACKAGE).partition("/")
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise AdapterError(f"kinematics.model is {self.model}, and there is no Python package {package} here.")
        return Path(spec.submodule_search_locations[0]) / rest


class RosCommand(Qos):
    """The commands to the controller."""

    topic: Topic
    type: Literal["std_msgs/msg/Float64MultiArray", "trajectory_msgs/msg/JointTrajectory"]
    action: Literal["hand", "elements"]
    """`"hand"`: send joint velocities (positions in a trajectory) that move the hand. `"elements"`: send the action."""
    joints: tuple[str, ...] = ()
    """Joints in the controller's order; those of the kinematics if left out."""
    factor: Number | tuple[Number, ...] = 1.0
    """Value in the message = factor * command; one for all, or one for each element."""
    standing: Number | tuple[Number, ...] | Literal["last"]
    """Last command, which stops the robot: 0 for velocity controllers. `"last"`: none, for position controllers."""
    gain: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Scale of an action's displacement of the hand, relative to the simulation."""
    delay_s: NotNegative = 0.0
    """Delay from a command to its effect [s], for policies with lookahead."""


class RosGripper(Qos):
    """The commands to the gripper's controller: Float64MultiArray with one number."""

    topic: Topic
    factor: Number = 1.0
    """Number in the message = factor * width [m]; 0.5 if each finger moves half of the width."""
    widest_m: Positive = 0.08


class SentTopic(Qos):
    """A topic that is sent."""

    topic: Topic


class Success(RobotTable):
    """The condition for success of an episode."""

    achieved: str = "achieved_goal"
    desired: str = "desired_goal"
    """Names of the two signals that are compared."""
    within_m: Positive = 0.05


class RosSettings(AdapterSettings):
    """The whole table `settings`."""

    owner: ClassVar[str] = "the robot on ROS 2"
    page: ClassVar[str] = "docs/reference/ros2-settings.md"

    backend: Literal["auto", "cyclonedds", "rclpy"] = "auto"
    domain: Annotated[int, Field(ge=0, le=232)] | None = None
    """Domain of ROS; ROS_DOMAIN_ID if left out."""
    heard_s: Positive = 5.0
    """Longest wait [s] for peers and their first messages."""
    topics: Annotated[dict[str, ObservedTopic], Field(min_length=1)]
    signals: dict[str, RosSource]
    kinematics: ArmKinematics | None = None
    command: RosCommand
    gripper: RosGripper | None = None
    episode: SentTopic | None = None
    """Topic that announces each episode: Float64MultiArray with the seed, followed by `task` for a simulation."""
    settle_s: NotNegative = 0.2
    """Time [s] for the world to settle after that."""
    task: tuple[Number, ...] = ()
    """Numbers that are sent with the seed."""
    success: Success | None = None
    diagnostics: SentTopic | None = SentTopic(topic="/diagnostics", depth=10)
