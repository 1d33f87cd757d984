"""Settings: immutable values, declared together with their valid ranges.

A field's `description` completes the sentence "it must ..." in the error message for a value out of range.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class Settings(BaseModel):
    """A table of settings; rejects unknown keys, values of another type, and values out of range."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _whole(value: Any) -> Any:
    """Return a float without a fraction, such as 2e5, as an int; other values unchanged."""
    return int(value) if type(value) is float and value.is_integer() else value


def _in_order(span: tuple[int, int]) -> tuple[int, int]:
    if span[0] > span[1]:
        raise ValueError("the first is above the second")
    return span


Whole = Annotated[int, BeforeValidator(_whole)]
Natural = Annotated[Whole, Field(ge=0, description="be at least 0")]
Count = Annotated[Whole, Field(ge=1, description="be at least 1")]

Positive = Annotated[float, Field(gt=0, description="be a number greater than 0")]
NotNegative = Annotated[float, Field(ge=0, description="be a number of at least 0")]
Share = Annotated[float, Field(ge=0, le=1, description="lie between 0 and 1")]

# TOML and JSON have lists, which a strict tuple would reject.
Numbers = Annotated[tuple[int, ...], Field(strict=False)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]
Layers = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...],
    Field(strict=False, min_length=1, description="list at least one layer's units"),
]
Span = Annotated[
    tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]],
    Field(strict=False, description="be [shortest, longest], each at least 1"),
    AfterValidator(_in_order),
]
