"""The settings of a robot of LeRobot, the table `settings` of a robot.toml; docs/how-to/lerobot.md explains them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from sami_runtime.robots.kit.settings import AdapterSettings, RobotTable, Texts
from sami_runtime.signals import NotNegative, Number, Text

if TYPE_CHECKING:
    from typing_extensions import Self

HOLD = "hold"


class LeRobotSource(RobotTable):
    """Where a signal comes from: `keys`, `velocity_of` or `constant`."""

    keys: Texts | None = None
    """LeRobot's keys, one for each element of the signal, in its order."""
    unit: Text | tuple[Text, ...] | None = None
    """The unit of the robot's numbers, or one for each key."""
    factor: Number | tuple[Number, ...] | None = None
    """The signal's unit for one of the robot's, or one for each key; needed where the two units differ."""
    offset: Number | tuple[Number, ...] = 0.0
    """What is added after that, in the signal's unit."""
    velocity_of: str | None = None
    """Another signal, whose rate of change this one is."""
    window_s: NotNegative = 0.0
    """Readings of so long a time [s] make the rate of change; the two newest at least."""
    constant: tuple[Number, ...] | None = None
    """Numbers that no sensor measures, such as a goal, in the signal's unit."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        kinds = [name for name in ("keys", "velocity_of", "constant") if getattr(self, name) is not None]
        if len(kinds) != 1:
            fields = " and ".join(kinds) or "none of them"
            raise ValueError(f"needs exactly one of keys, velocity_of and constant, and has {fields}")
        if self.keys is not None and self.unit is None:
            raise ValueError("needs the unit of the robot's numbers beside keys, such as unit = 'deg'")
        if self.keys is None and (useless := self.model_fields_set & {"unit", "factor", "offset"}):
            raise ValueError(f"has {', '.join(sorted(useless))} beside {kinds[0]}, which is in the model's unit")
        return self


class LeRobotAction(RobotTable):
    """What becomes of an action."""

    keys: Texts
    """LeRobot's keys, one for each element of the action, in its order."""
    unit: Text | tuple[Text, ...]
    """The unit of the robot's numbers, or one for each key."""
    factor: Number | tuple[Number, ...] | None = None
    """The robot's unit for one of the action's, or one for each key; needed where the two units differ."""
    offset: Number | tuple[Number, ...] = 0.0
    """What is added after that, in the robot's unit: the pose about which the action moves."""
    mode: Literal["absolute", "relative"] = "absolute"
    """`"relative"`: what was read last under the same keys is added, too."""
    standing: Number | tuple[Number, ...] | Literal["hold"]
    """What is sent last, so that all rests: `"hold"` for positions, which stay where they are; 0 for velocities."""
    others: dict[str, Number | Literal["hold"]] = {}
    """The robot's other keys: a number, or `"hold"` for what was read when the episode began."""


class LeRobotSettings(AdapterSettings):
    """All of it."""

    owner: ClassVar[str] = "the robot of LeRobot"
    page: ClassVar[str] = "docs/how-to/lerobot.md"

    type: str
    """LeRobot's name of the robot, as `--robot.type` of its commands takes it."""
    module: str | None = None
    """Python module that registers this type, where LeRobot does not find it by itself."""
    config: dict[str, Any] = {}
    """Fields of the type's configuration, as `--robot.NAME` of LeRobot's commands takes them: port, id, cameras."""
    observation: Annotated[dict[str, LeRobotSource], Field(min_length=1)]
    """By signal of the model."""
    action: LeRobotAction
