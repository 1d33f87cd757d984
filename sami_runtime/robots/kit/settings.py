"""Tables of a robot.toml as checked objects, and types of values that several tables share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sami_runtime.errors import AdapterError
from sami_runtime.files import faults_of
from sami_runtime.signals import Number, Text

if TYPE_CHECKING:
    from typing_extensions import Self

Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
Three = Annotated[tuple[Number, ...], Field(min_length=3, max_length=3)]


class RobotTable(BaseModel):
    """A table of a robot.toml. It is immutable, and raises for unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AdapterSettings(RobotTable):
    """The table `settings` of an adapter."""

    owner: ClassVar[str]
    """Owner of the settings, for messages."""
    page: ClassVar[str]
    """Page that explains each key, for messages."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the settings of a document.

        Raises:
            AdapterError: A value is invalid or a key is unknown; the message lists all faults.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            faults = faults_of(error, document, cls)
            raise AdapterError(f"the settings of {cls.owner} are not valid: {faults}. See {cls.page}.") from None
