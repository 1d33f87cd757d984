"""The settings of an adapter, a table of a robot.toml, as a checked object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sami_runtime.errors import AdapterError
from sami_runtime.files import faults_of

S = TypeVar("S", bound=BaseModel)


def checked_settings(kind: type[S], document: Mapping[str, Any], robot: str, page: str) -> S:
    """Return the settings of a document.

    Args:
        kind: What they are.
        document: Values by key.
        robot: Whose they are, for messages.
        page: What explains each.

    Raises:
        AdapterError: With everything in it that is not valid.
    """
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise AdapterError(f"the settings of {robot} are not valid: {faults_of(error)}. See {page}.") from None
