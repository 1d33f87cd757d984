"""A double of draccus, which LeRobot reads configurations with."""

import dataclasses


class ParsingError(Exception):
    """A configuration does not fit its class."""


def decode(kind, values):
    """Make a configuration of a table."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if strange := [name for name in values if name not in fields]:
        raise ParsingError(f"The fields `{', '.join(strange)}` are not valid for {kind.__name__}")
    unset = dataclasses.MISSING
    needed = [name for name, f in fields.items() if f.default is unset and f.default_factory is unset]
    if missing := [name for name in needed if name not in values]:
        raise ParsingError(f"Missing required field(s) `{', '.join(missing)}` for {kind.__name__}")
    return kind(**values)
