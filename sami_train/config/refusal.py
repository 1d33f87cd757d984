"""A configuration that is refused: which key is wrong, what stood there, and what would be valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from sami_runtime.errors import SamiError, UnknownName

FORMER_KEYS = {"behind_gap.spared": "behind_gap.clean_share"}
"""What keys are called today, by their names in older configurations, which stay readable."""


class ConfigError(SamiError):
    """A configuration that cannot be used."""


def keys_of(table: Any, prefix: str = "") -> list[str]:
    """Return every dotted key of a table of settings."""
    listed: list[str] = []
    for name, field in table.model_fields.items():
        is_table = hasattr(field.annotation, "model_fields")
        listed += keys_of(field.annotation, f"{prefix}{name}.") if is_table else [prefix + name]
    return listed


def explained(error: ValidationError, values: Mapping[str, Any], table: Any) -> SamiError:
    """Return what is wrong with a table of settings: its first wrong key, the value there, and what would be valid.

    Args:
        error: what pydantic has to say.
        values: what should have become a `table`.
        table: its class.
    """
    problem = error.errors(include_url=False)[0]
    # Numbers in it count within a list, which is shown as a whole.
    names = [name for name in problem["loc"] if isinstance(name, str)]
    key = ".".join(names)
    fields = FORMER_KEYS.get(key, key).split(".")
    if problem["type"] == "extra_forbidden":
        return UnknownName("config key", key, keys_of(table))
    if problem["type"] == "missing" and problem["loc"][-1] == names[-1]:
        return ConfigError(
            f"{key} is missing; a configuration that is written by hand holds every key that presets set. Begin with "
            "a preset: sami_train.config.resolve(PRESET, {KEY: VALUE})."
        )
    kind: Any = table
    value: Any = values
    valid = ""
    for name, current in zip(names, fields, strict=False):
        field = kind.model_fields[current]
        kind, value, valid = field.annotation, value[name], field.description
    if problem["type"] == "literal_error":
        return UnknownName(key, str(value), get_args(kind))
    if hasattr(kind, "model_fields"):
        valid = "be a table of values"
    elif problem["type"].endswith("_type"):
        of = "texts" if get_args(kind)[:1] == (str,) else "whole numbers"
        valid = f"be a list of {of}" if get_origin(kind) is tuple else f"be of type {kind.__name__}"
    elif kind is float:
        value = float(value)  # out of range, as it would have been held
    return ConfigError(f"{key or 'the configuration'} is {value!r}; it must {valid}.")
