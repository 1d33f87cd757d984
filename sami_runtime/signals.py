"""Signals: named vectors that cross between a robot and a policy, with units and bounds."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _none_for(infinity: float) -> BeforeValidator:
    """Take `infinity` for "no bound": a space says inf, but JSON has no infinity and says null."""

    def convert(value: Any) -> Any:
        numbers = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(numbers, (list, tuple)):
            return tuple(None if x == infinity else x for x in numbers)
        return numbers

    return BeforeValidator(convert)


LARGEST = 3.4028234663852886e38
"""Largest float32."""
MOST_NUMBERS = 1_000_000
"""Most numbers of a tensor: what a file says of its size is memory that a session takes."""


def _not_too_many(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"has more than {MOST_NUMBERS} numbers")
    return shape


Float32 = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Size = Annotated[int, Field(ge=1, le=MOST_NUMBERS)]
Shape = Annotated[tuple[Size, ...], AfterValidator(_not_too_many)]
Bound = Annotated[float, Field(allow_inf_nan=False)] | None
Low = Annotated[tuple[Bound, ...], _none_for(-math.inf)]
High = Annotated[tuple[Bound, ...], _none_for(math.inf)]


class _Model(BaseModel):
    # A NaN stays one when it is dumped, so that `dumps` refuses it instead of writing null for it.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Moves(_Model):
    """What an element of an action moves, where it is a displacement or a velocity."""

    element: str
    """The element of an observation, as `SIGNAL.ELEMENT`."""
    scale: float = Field(allow_inf_nan=False)
    """How far a unit of the action moves it within one period of the policy, in its own unit; not 0."""

    @model_validator(mode="after")
    def _moves_something(self) -> Moves:
        if not self.scale:
            raise ValueError(f"must not be 0: it says how far a unit of the action moves {self.element}")
        return self


class Signal(_Model):
    """A named vector that crosses between the robot and the policy."""

    name: Name
    """What it is called, on both sides."""
    size: Size
    """How many numbers it has."""
    unit: str = Field(min_length=1)
    """Unit of each number; `"1"` when it has none."""
    elements: tuple[str, ...]
    """One name for each number, `("x", "y", "z")`."""
    low: Low
    """Lowest value of each number in `unit`; None (JSON null) where there is no bound."""
    high: High
    """Highest value of each number in `unit`; None (JSON null) where there is no bound."""
    meaning: str = ""
    """What the numbers do, where name and unit do not say it all."""
    moves: dict[str, Moves] | None = None
    """By element of an action, what it moves; None where that is not declared, and then it is not written either."""

    @model_validator(mode="after")
    def _lengths_and_bounds(self) -> Signal:
        for field in ("elements", "low", "high"):
            length = len(getattr(self, field))
            if length != self.size:
                raise ValueError(f"signal {self.name!r} has {length} {field} for its size {self.size}")
        if len(set(self.elements)) != self.size:
            raise ValueError(f"signal {self.name!r} names an element twice: {', '.join(self.elements)}")
        for element, low, high in zip(self.elements, self.low, self.high, strict=True):
            if low is not None and high is not None and low > high:
                raise ValueError(f"signal {self.name!r} has low {low} above high {high} at {element}")
        if strange := [name for name in self.moves or {} if name not in self.elements]:
            raise ValueError(f"signal {self.name!r} says what {', '.join(strange)} moves, which it does not have")
        return self

    @model_serializer(mode="wrap")
    def _without_moves(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if name != "moves" or value is not None}
