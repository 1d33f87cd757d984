"""The data sheet: what a robot must be like for a policy's numbers to mean what they meant in training."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Number = Annotated[float, Field(allow_inf_nan=False)]


class Quantity(BaseModel):
    """Numbers of one unit."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    unit: str = Field(min_length=1)
    values: tuple[Number, ...] = Field(min_length=1)

    def __str__(self) -> str:
        return f"{', '.join(f'{value:g}' for value in self.values)} {self.unit}"


class DataSheet(BaseModel):
    """Frame, home pose and gains, in words and numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    frame: str = Field(min_length=1)
    """Where positions are measured from, along which axes, and of which point."""
    home: str = Field(min_length=1)
    """Where an episode begins."""
    gains: str = ""
    """How closely the robot follows an action; empty where nobody told, and then it is not written either."""
    numbers: dict[str, Quantity] = {}
    """What the words mean, by name."""

    @model_serializer(mode="wrap")
    def _without_gains(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if name != "gains" or value}
