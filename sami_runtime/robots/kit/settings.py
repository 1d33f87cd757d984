"""Tables of a robot.toml as checked objects, and the kinds of values that several of them have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sami_runtime.errors import AdapterError, SamiError, UnknownName
from sami_runtime.files import faults_of
from sami_runtime.signals import Number, Text

if TYPE_CHECKING:
    from typing_extensions import Self

Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
Three = Annotated[tuple[Number, ...], Field(min_length=3, max_length=3)]
M = TypeVar("M", bound=BaseModel)


class RobotTable(BaseModel):
    """A table of a robot.toml; refuses keys that it does not know, and cannot change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AdapterSettings(RobotTable):
    """The table `settings`, for an adapter."""

    owner: ClassVar[str]
    """Whose they are, for messages."""
    page: ClassVar[str]
    """What explains each."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the settings of a document.

        Raises:
            AdapterError: With everything in it that is not valid.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            faults = faults_of(error, document)
            raise AdapterError(f"the settings of {cls.owner} are not valid: {faults}. See {cls.page}.") from None


def checked_table(kind: type[M], document: Mapping[str, Any], key: str, where: str, page: str) -> M:
    """Return a table of a robot.toml as a checked object.

    Args:
        kind: What it becomes.
        document: Values by key.
        key: What a key is called, for messages: `"key of [body]"`.
        where: Where the table is written, for messages.
        page: What explains each key, for messages.

    Raises:
        UnknownName: There is no such key.
        SamiError: A value is wrong.
    """
    for name in document:
        if name not in kind.model_fields:
            raise UnknownName(key, str(name), kind.model_fields, f"It is in {where}.")
    try:
        return kind.model_validate(dict(document))
    except ValidationError as error:
        raise SamiError(f"{where}: {faults_of(error, document)}. Correct what is named; {page}.") from None
