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
    """The source of a signal: exactly one of `keys`, `velocity_of` and `constant`."""

    keys: Texts | None = None
    """LeRobot's keys, one for each element of the signal, in its order."""
    unit: Text | tuple[Text, ...] | None = None
    """The unit of the robot's numbers, or one for each key."""
    factor: Number | tuple[Number, ...] | None = None
    """Signal = factor * number + offset; one factor or one for each key. Required if the units differ."""
    offset: Number | tuple[Number, ...] = 0.0
    """Added after the multiplication, in the signal's unit."""
    velocity_of: str | None = None
    """Another signal; this signal is its rate of change."""
    window_s: NotNegative = 0.0
    """Time [s] over which readings give the rate of change; at least the two newest count."""
    constant: tuple[Number, ...] | None = None
    """Constant numbers, such as a goal, in the signal's unit."""

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
    """The conversion of an action to the robot's goals."""

    keys: Texts
    """LeRobot's keys, one for each element of the action, in its order."""
    unit: Text | tuple[Text, ...]
    """The unit of the robot's numbers, or one for each key."""
    factor: Number | tuple[Number, ...] | None = None
    """Goal = factor * action + offset; one factor or one for each key. Required if the units differ."""
    offset: Number | tuple[Number, ...] = 0.0
    """Added after the multiplication, in the robot's unit: the goal of an action of 0."""
    mode: Literal["absolute", "relative"] = "absolute"
    """`"relative"`: the last readings of the same keys are added as well."""
    standing: Number | tuple[Number, ...] | Literal["hold"]
    """Last goals, which stop the robot: `"hold"` for positions, to stay where they are; 0 for velocities."""
    others: dict[str, Number | Literal["hold"]] = {}
    """The robot's other keys: a number, or `"hold"` for the first reading of the episode."""


class LeRobotSettings(AdapterSettings):
    """The whole table `settings`."""

    owner: ClassVar[str] = "the robot of LeRobot"
    page: ClassVar[str] = "docs/how-to/lerobot.md"

    type: str
    """LeRobot's name of the robot, as in `--robot.type` of its commands."""
    module: str | None = None
    """Python module that registers this type, if LeRobot does not find it by itself."""
    config: dict[str, Any] = {}
    """Fields of the type's configuration, as in `--robot.NAME` of LeRobot's commands: port, id, cameras."""
    observation: Annotated[dict[str, LeRobotSource], Field(min_length=1)]
    """Sources by signal of the model."""
    action: LeRobotAction
