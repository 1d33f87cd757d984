"""The table `[body]` of a robot.toml; docs/reference/body.md explains each key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from sami_runtime.errors import SamiError, require_known
from sami_runtime.files import checked_table, read_document
from sami_runtime.robots.body.joints import Array, Then
from sami_runtime.robots.kit.settings import RobotTable, Three
from sami_runtime.signals import Number
from sami_runtime.signals import Positive as Gain

Positive = Annotated[float, Field(gt=0)]
PAGE = "docs/reference/body.md lists the keys"


class PositionKeys(RobotTable):
    """`[body.position]`."""

    low: Number | dict[str, Number] | None = None
    """Lowest positions [rad, m], for all joints or by joint; the model's if left out."""
    high: Number | dict[str, Number] | None = None
    then: Then = "scale"


class MostKeys(RobotTable):
    """`[body.velocity]` and `[body.torque]`."""

    most: Positive | dict[str, Positive] | None = None
    """Highest value for all joints or by joint [rad/s, m/s; N m]; the model's if left out."""
    then: Then = "scale"


class PointKeys(RobotTable):
    """A point of `[body.points]`: a body or site of the model."""

    most: Positive
    """Highest speed [m/s]."""
    then: Then = "scale"


class CollisionKeys(RobotTable):
    """`[body.collision]`."""

    self: bool = True
    """Whether parts of the robot keep their distance to each other."""
    margin: Annotated[float, Field(gt=0, le=0.5)] = 0.01
    """Least distance [m]."""
    then: Then = "scale"
    ignore: tuple[tuple[str, str], ...] = ()
    """Pairs of bodies, or of a body and a box, that may touch."""


class StartKeys(RobotTable):
    """`[body.start]`: the joint positions and speeds at which the policy may take over."""

    within: Positive | dict[str, Positive] | None = None
    """Largest distance of each joint from home [rad, m]; if left out, joints must be in their training range."""
    velocity: Positive | dict[str, Positive] | None = None
    """Highest speed of each joint [rad/s, m/s]; unlimited if left out."""


class BoxKeys(RobotTable):
    """An entry of `[body.boxes]`: a box that the robot must not touch, in the frame of the model's base."""

    low: Three
    """Lowest corner [m]."""
    high: Three

    @model_validator(mode="after")
    def _ordered(self) -> BoxKeys:
        if not (np.array(self.low) < self.high).all():
            raise ValueError(f"low {list(self.low)} must be below high {list(self.high)}")
        return self


class BodySettings(RobotTable):
    """A robot's body: its joints and model, the meaning of its commands, and its limits."""

    command: Literal["joint_positions", "joint_velocities", "hand"]
    """What the action commands."""
    joints: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of the joints, in the order of the signal `positions`."""
    positions: str
    """Observation signal of the joints' positions [rad, m]."""
    velocities: str | None = None
    """Observation signal of the joints' velocities [rad/s, m/s]."""
    model: str | None = None
    """MJCF or URDF file; without one there are no points, shapes or boxes."""
    hand: str | None = None
    """Body or site that the command `hand` moves."""
    elements: tuple[str, ...] | None = None
    """Elements of the action for the joints in their order, or for x, y and z of the hand. If left out, the elements
    with the joints' names, or the first three."""
    scale: Number | dict[str, Number] = 1.0
    """By element: command = scale * action + offset [rad, rad/s; m/s for a hand]."""
    offset: Number | dict[str, Number] = 0.0
    """By element: the command of an action of 0, in the unit of `scale`."""
    kp: Gain | dict[str, Gain] | None = None
    """Position gains of the motors [N m/rad], if commands are position targets of motors with gains."""
    kd: Gain | dict[str, Gain] | None = None
    """Damping gains of the motors [N m s/rad]."""
    inertia: Gain | dict[str, Gain] | None = None
    """Inertia that each of these motors moves [kg m^2]; if left out, that of the model at home."""
    acceleration: Positive | dict[str, Positive] | None = None
    """Least deceleration of a braking joint [rad/s^2]; if left out, at once, or torque / inertia / 4 if soft."""
    home: tuple[Number, ...] | None = None
    """Positions (J,) at which an episode begins; the model's first key or zero position if left out."""
    position: PositionKeys = PositionKeys()
    velocity: MostKeys = MostKeys()
    torque: MostKeys = MostKeys()
    points: dict[str, PointKeys] = {}
    collision: CollisionKeys | None = None
    boxes: dict[str, BoxKeys] = {}
    start: StartKeys | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any], where: str = "[body]", folder: Path | None = None) -> BodySettings:
        """Return checked settings.

        Args:
            document: Values by key.
            where: Where the values are written, for messages.
            folder: The folder that `model` is relative to; the current folder if None.

        Raises:
            UnknownName: A joint does not exist.
            SamiError: A key does not exist, a value is invalid, or contradicts another.
        """
        settings = checked_table(cls, document, where, PAGE)
        settings._require(where)
        if folder is not None and settings.model is not None:
            settings = settings.model_copy(update={"model": str(folder / settings.model)})
        return settings

    @classmethod
    def load(cls, path: str | Path) -> BodySettings:
        """Read a file, NAME.toml or NAME.json, with the keys of `[body]`; `model` is relative to its folder.

        Raises:
            UnknownName, SamiError: As in `of`, or the file cannot be read.
        """
        path = Path(path)
        return cls.of(read_document(path, "limits of a body"), str(path), path.parent)

    def by_joint(self, value: float | Mapping[str, float] | None, default: float | Array) -> Array:
        """Return the value of each joint, (J,): `default` if it has none."""
        return by_name(value, self.joints, default)

    def _require(self, where: str) -> None:
        fault = self._fault()
        if fault:
            raise SamiError(f"{where}: {fault} The page {PAGE}.")
        tables = {key: getattr(self, key) for key in ("kp", "kd", "inertia", "acceleration")}
        tables |= {"velocity.most": self.velocity.most, "torque.most": self.torque.most}
        tables |= {"position.low": self.position.low, "position.high": self.position.high}
        if self.start:
            tables |= {"start.within": self.start.within, "start.velocity": self.start.velocity}
        for key, table in tables.items():
            if isinstance(table, Mapping):
                require_known("joint", table, self.joints, f"{key} in {where} names it.")

    def _fault(self) -> str:
        """Return a sentence about settings that do not fit together; empty if all do."""
        if len(set(self.joints)) != len(self.joints):
            return f"joints names one twice: {', '.join(self.joints)}. Name each once."
        if self.home is not None and len(self.home) != len(self.joints):
            return f"home has {len(self.home)} positions for {len(self.joints)} joints. Give one for each."
        if (self.kp is None) != (self.kd is None):
            return "kp and kd belong together, and only one is set. Set both: torque = kp (target - q) - kd v."
        if self.kp is not None and self.command != "joint_positions":
            return f'kp is set, and command is "{self.command}". Gains are for command = "joint_positions".'
        if self.velocities is None and (self.kp is not None or self.command != "joint_positions"):
            reason = "kp and kd are set" if self.kp is not None else f'command is "{self.command}"'
            return f"{reason}, and velocities is not. Name the signal of the joints' velocities."
        if self.torque != MostKeys() and self.kp is None:
            return "torque is limited without kp and kd, and it follows from them. Set the motors' gains."
        if self.velocity.then != "scale" and self.velocity.most is None and self.model is None:
            return "velocity.then is set, and velocity.most is not. Set the limit, or model, which may have one."
        if self.command == "hand" and not (self.model and self.hand):
            return 'command = "hand" needs model and hand: the file, and the body or site that moves.'
        if self.command == "hand" and not np.isfinite(self.by_joint(self.acceleration, np.inf)).all():
            return f'command = "hand" needs a finite acceleration of each joint, such as 10.0, not {self.acceleration}.'
        if self.start and self.start.within is not None and self.home is None and self.model is None:
            return "start.within is set, and home is not. Give the positions at which an episode begins, or model."
        if self.start and self.start.velocity is not None and self.velocities is None:
            return "start.velocity is set, and velocities is not. Name the signal of the joints' velocities."
        needs_shapes = [key for key in ("points", "boxes", "collision") if getattr(self, key)]
        if needs_shapes and self.model is None:
            return f"{needs_shapes[0]} is set, and model is not. Name the robot's MJCF or URDF file."
        return ""


def by_name(value: float | Mapping[str, float] | None, names: tuple[str, ...], default: float | Array) -> Array:
    """Return an array with the value of each name: one for all, or a table's; `default` if a name has none."""
    defaults = np.broadcast_to(np.asarray(default, np.float64), len(names))
    if isinstance(value, Mapping):
        return np.array([value.get(name, other) for name, other in zip(names, defaults, strict=True)], np.float64)
    return np.array(defaults) if value is None else np.full(len(names), value, np.float64)
