"""Schema of the TOML file in which a user describes an environment around an MJCF model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from sami_runtime.files import checked_table, read_document
from sami_runtime.signals import Name
from sami_train.settings import Count, Natural, Positive, Settings

Number = Annotated[float, Field(allow_inf_nan=False, description="be a finite number")]
ModelField = Literal[
    "body_mass",
    "dof_damping",
    "geom_friction",
    "actuator_gear",
    "body_pos",
    "dof_armature",
    "dof_frictionloss",
    "actuator_delay",
    "actuator_forcerange",
    "actuator_stiffness",
    "actuator_strength",
]


def _names(value: Any) -> Any:
    if value == "all":
        return value
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise ValueError('it must be a list of names, or "all"')
    return tuple(value)


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _spread(value: Any) -> Any:
    numbers = list(value.values()) if isinstance(value, dict) else [value]
    if not all(_number(number) and number >= 0 for number in numbers):
        raise ValueError("it must be a number of at least 0, or a table of them by joint")
    return value


def _reach(value: Any) -> Any:
    numbers = list(value.values()) if isinstance(value, dict) else [value]
    if not all(_number(number) and number > 0 for number in numbers):
        raise ValueError("it must be a number greater than 0, or a table of them by actuator")
    return value


def _target(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 3 and all(map(_number, value)):
        return tuple(map(float, value))
    if not isinstance(value, str):
        raise ValueError("it must be the name of a site or body, or a point [x, y, z]")
    return value


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_FUNCTION, _TERMS = "function", "terms"
Names = Annotated[tuple[str, ...] | Literal["all"], BeforeValidator(_names)]
ByActuator = Annotated[float | dict[str, float], BeforeValidator(_reach)]
ByJoint = Annotated[float | dict[str, float], BeforeValidator(_spread)]


class StateParts(Settings):
    """Parts of the state to read. Training's critic and teacher read `[privileged]`; an exported model does not."""

    qpos: Names = ()
    """Joints whose positions are read."""
    qvel: Names = ()
    """Joints whose velocities are read."""
    sensors: Names = ()
    """Sensors of the model."""


class ObservedParts(StateParts):
    """What the policy observes."""

    qpos: Names = "all"
    qvel: Names = "all"
    sensors: Names = "all"
    last_action: bool = False
    """Whether the policy observes the last applied action, 0 at the start."""


class DrawnCommand(Settings):
    """A number that a person commands, such as a target speed; training draws it uniformly for each episode."""

    unit: str = "1"
    low: Number
    high: Number

    @model_validator(mode="after")
    def _range(self) -> DrawnCommand:
        if not self.low < self.high:
            raise ValueError(f"low is {self.low:g} and high is {self.high:g}; low must be less")
        return self


class ActionRange(Settings):
    """The controls that actions from -1 to 1 map to; if left out, each actuator's whole control range."""

    about: str
    """The model's keyframe whose controls an action of 0 sets."""
    reach: ByActuator
    """Change of the control for an action of 1, in the control's unit; one number for all, or by actuator."""


class Reset(Settings):
    """Where an episode begins."""

    keyframe: str | None = None
    """The model's keyframe; its initial pose (`qpos0`) if left out."""
    qpos_noise: ByJoint = 0.0
    """Largest magnitude of uniform noise on positions, in the joints' units; one number for all, or by joint."""
    qvel_noise: ByJoint = 0.0
    """Largest magnitude of uniform noise on velocities; one number for all, or by joint."""


class Change(Settings):
    """A hidden feature: a field of the model that tasks change."""

    sets: ModelField | None = None
    """The field that takes the task's value."""
    scales: ModelField | None = None
    """The field that the task's value multiplies."""
    adds: ModelField | None = None
    """The field that the task's value is added to."""
    axis: Literal["x", "y", "z"] | None = None
    """For `body_pos`: the coordinate that changes."""
    of: Names = "all"
    """The elements that change: bodies, joints, geoms or actuators, according to the field."""

    @model_validator(mode="after")
    def _either(self) -> Change:
        if sum(field is not None for field in (self.sets, self.scales, self.adds)) != 1:
            raise ValueError('a feature sets or scales a field of the model, or adds to it, e.g. sets = "body_mass"')
        if (self.axis is not None) != (self.field == "body_pos"):
            raise ValueError("`axis` belongs to body_pos, and body_pos needs it")
        if self.scales is None and self.field in ("actuator_strength", "actuator_forcerange"):
            raise ValueError(f'{self.field} has more than one number, so it is scaled: scales = "{self.field}"')
        return self

    @property
    def field(self) -> ModelField:
        """The field of the model that this feature changes."""
        return self.sets or self.scales or self.adds  # type: ignore[return-value]  # one of them is given


class MeasuredQuantity(Settings):
    """A number that is measured after each step; exactly one of the first seven keys selects the quantity."""

    distance: str | None = None
    """Name of a site or body; measures its distance [m] from `to`."""
    position: str | None = None
    """Name of a site or body; measures its coordinate along the world's `axis` [m]."""
    velocity: str | None = None
    """Name of a site or body; measures its velocity along the world's `axis` [m/s]."""
    upright: str | None = None
    """Name of a site or body; measures the cosine of the angle between its z axis and the world's: 1 is upright."""
    sensor: str | None = None
    """Name of a sensor of the model; measures its number `element`."""
    effort: Literal[True] | None = None
    """Measures the sum of the squared actions."""
    alive: Literal[True] | None = None
    """Is 1 at each step."""
    to: Annotated[str | tuple[float, float, float], BeforeValidator(_target)] | None = None
    """For `distance`: another site or body, or a point [m]."""
    axis: Literal["x", "y", "z"] | None = None
    """For `position` and `velocity`: the axis of the world."""
    element: Natural = 0
    """For `sensor`: index of the number, counted from 0."""
    command: str | None = None
    """Name of a command of the file; the absolute difference from the command replaces the quantity."""

    @property
    def kind(self) -> str:
        """The key that selects the quantity."""
        return next(key for key in KINDS if getattr(self, key) is not None)

    @model_validator(mode="after")
    def _single_kind(self) -> MeasuredQuantity:
        kinds = [key for key in KINDS if getattr(self, key) is not None]
        if len(kinds) != 1:
            raise ValueError(f"exactly one of {', '.join(KINDS)} must be given, here are {', '.join(kinds) or 'none'}")
        kind = kinds[0]
        if (self.to is not None) != (kind == "distance"):
            raise ValueError("`to` belongs to distance, and distance needs it")
        if (self.axis is not None) != (kind in ("position", "velocity")):
            raise ValueError("`axis` belongs to position and velocity, and they need it")
        return self


KINDS = ("distance", "position", "velocity", "upright", "sensor", "effort", "alive")


class Term(MeasuredQuantity):
    """A part of the reward: the quantity after each step, times its weight."""

    weight: Number
    width: Positive | None = None
    """If given, exp(-(quantity / width)²) replaces the quantity: 1 at 0, 0.37 at the width."""


class MetricTerm(MeasuredQuantity):
    """A metric that evaluations report: the mean of the quantity over the steps of an episode."""

    name: Annotated[str, Field(min_length=1)]
    unit: str = "1"


class End(MeasuredQuantity):
    """A condition that ends an episode early: the quantity leaves its bounds."""

    below: Number | None = None
    above: Number | None = None

    @model_validator(mode="after")
    def _bounded(self) -> End:
        if self.below is None and self.above is None:
            raise ValueError("an end needs below = NUMBER, above = NUMBER, or both")
        return self


class Description(Settings):
    """The whole file."""

    model: str
    """The MJCF file; a relative path starts at the folder of the TOML file."""
    name: str | None = None
    """The name that runs and models are named after; if left out, the TOML file's name."""
    rate_hz: Positive | None = None
    """Actions per second, each a whole number of simulation steps; or give `frame_skip`."""
    frame_skip: Count | None = None
    """Simulation steps per action."""
    episode_steps: Count
    observation: ObservedParts = ObservedParts()
    privileged: StateParts = StateParts()
    commands: dict[Name, DrawnCommand] = Field({})
    """Commands by the names of their signals."""
    action: ActionRange | None = None
    reset: Reset = Reset()
    features: dict[str, Change]
    tasks: dict[str, Any]
    """Tasks by the name of their set: a table of lists and ranges by feature, or a list of tasks."""
    reward: Annotated[
        Annotated[str, Tag(_FUNCTION)] | Annotated[tuple[Term, ...], BeforeValidator(_listed), Tag(_TERMS)],
        Discriminator(lambda value: _FUNCTION if isinstance(value, str) else _TERMS),
    ]
    """Terms, or `"MODULE:FUNCTION"`: a function of MuJoCo's model and data, called after each step."""
    end: Annotated[tuple[End, ...], BeforeValidator(_listed)] = ()
    metric: Annotated[tuple[MetricTerm, ...], BeforeValidator(_listed)] = ()

    @model_validator(mode="after")
    def _complete(self) -> Description:
        if (self.rate_hz is None) == (self.frame_skip is None):
            raise ValueError("give either rate_hz or frame_skip")
        if not self.features:
            raise ValueError("[features] is empty; name at least one hidden feature that tasks differ in")
        if not self.reward:
            raise ValueError("reward is empty; give terms, or MODULE:FUNCTION")
        return self


def read_description(path: Path) -> Description:
    """Read a file and check everything that needs no model.

    Raises:
        SamiError: the file cannot be read, lacks a key, or has an unknown key or a wrong value.
    """
    page = "docs/reference/robot-model-file.md shows a whole file"
    return checked_table(Description, read_document(path, "robot models"), str(path), page)
