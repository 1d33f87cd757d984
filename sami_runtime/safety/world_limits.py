"""Limits on the world as people write them: by the elements of observations, each with what happens beyond it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sami_runtime.signals import Signal

V = TypeVar("V")


def _number(value: float) -> float:
    if math.isnan(value):
        raise ValueError("must be a number")
    return value


Number = Annotated[float, AfterValidator(_number)]
Positive = Annotated[float, Field(gt=0)]
Then = Literal["hold", "rest", "stop"]
"""What happens: `hold` lets the action that was written last stand, as for any observation that is not acted on; `rest`
falls back to rest at once; `stop` stops the robot."""
Beyond = Literal["hold", "rest", "stop", "act"]
"""The same, or `act`: nothing."""
THENS: tuple[Then, ...] = ("stop", "rest", "hold")
"""The same, the strictest first."""


def _ordered(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError("must be [lowest, highest]")
    return value


def _pair(value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("must be [lowest, highest]")
    return tuple(value)


Range = Annotated[tuple[Number, Number], BeforeValidator(_pair), AfterValidator(_ordered)]
"""Lowest and highest, in the element's unit."""


class _Entry(BaseModel):
    """A value, written alone or as a table that says as well what happens then."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _alone(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping | BaseModel) else {next(iter(cls.model_fields)): value}


class Inside(_Entry):
    """Where an element of an observation stays."""

    range: Range
    then: Then = "hold"


class Jump(_Entry):
    """How far an element of an observation moves from one tick of the policy to the next."""

    most: Positive
    then: Then = "hold"


class Alarm(_Entry):
    """For how many steps in a row the dynamics may be unknown."""

    steps: Annotated[int, Field(ge=1)]
    """So many in a row with an out-of-distribution score above `score` are too many."""
    then: Then = "stop"
    score: Annotated[Positive, Field(allow_inf_nan=False)] = 1.0
    """Above this a step counts; 1 is the model's own alarm."""


GUARDS: dict[str, str] = {
    "ranges": "observations far outside what training saw are held, then the robot is stopped",
    "ood": "a context that stays far from all training tasks stops the robot",
    "frozen": "a sensor that repeats itself, whose noise in training says that it cannot, is held",
}
"""What judges observations of a robot by default, with the model's own numbers; see docs/reference/guards.md."""
DEFAULT_ALARM = Alarm(steps=30, score=2.0)
"""Of the guard `ood`, where the limits set no `stop_on_alarm`. benchmarks/guard_rates.py prints how often it stops a
policy in its own simulator."""
FROZEN_LEAST = 5
"""Of the guard `frozen`: least number of equal values in a row that mean a stuck sensor. Where values repeated in
training, through lost messages, it is at least twice the longest run there and one."""


class Known(_Entry):
    """What an element of an observation is after a reset, while the robot rests at home."""

    value: Annotated[Number, Field(allow_inf_nan=False)]
    """In its unit."""
    most: Positive = 0.05
    """Largest misreading that is taken for a constant bias of the sensor, in its unit."""
    still: Positive = 0.005
    """How far it may drift while it is measured, and how sure its mean must be, in its unit."""


def _flat(value: Any) -> Any:
    """Return a table by `SIGNAL.ELEMENT`, which TOML nests where the key is not quoted."""
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        nested = inner if "." not in str(key) and isinstance(inner, Mapping) else {}
        for name, entry in {f"{key}.{element}": entry for element, entry in nested.items()}.items() or [(key, inner)]:
            if name in flat:
                raise ValueError(f"must name {name} once")
            flat[name] = entry
    return flat


ByElement = Annotated[dict[str, V], BeforeValidator(_flat)]
"""By `SIGNAL.ELEMENT` of the observation, such as `ee_position.z`."""


def elements_of(signals: tuple[Signal, ...]) -> list[str]:
    """Return every element of some signals, as `SIGNAL.ELEMENT`."""
    return [f"{signal.name}.{element}" for signal in signals for element in signal.elements]
