"""The signals that locomotion policies read, by this package's names for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sami_runtime.adoption.readers.documents import Draft
from sami_runtime.adoption.sources import FieldSource


@dataclass(frozen=True)
class TermKind:
    """Properties of a signal that are the same in every framework."""

    unit: str
    elements: tuple[str, ...] = ()
    """Names of the elements; empty if they are the joints."""
    frame: str = ""
    command: bool = False


XYZ = ("x", "y", "z")
KINDS = {
    "linear_velocity": TermKind("m/s", XYZ, "body"),
    "angular_velocity": TermKind("rad/s", XYZ, "body"),
    "gravity": TermKind("1", XYZ, "body"),
    "command": TermKind("m/s, m/s, rad/s", ("forward", "left", "turn"), "body", command=True),
    "joint_angles": TermKind("rad"),
    "joint_velocities": TermKind("rad/s"),
}
JOINT_TARGETS = {"name": "joint_targets", "unit": "rad", "meaning": "position targets of the joints"}
"""Fields of the action of most policies."""


def put_term(
    draft: Draft, name: str, joints: Sequence[str], source: FieldSource, named_by: FieldSource, kind: str = ""
) -> int:
    """Put a signal's unit, elements and frame into a draft.

    Args:
        draft: The draft.
        name: The signal's name.
        joints: Names of the joints, in the policy's order; an empty text for each if they are unknown.
        source: Source of unit, axes and frame: usually the code of the framework.
        named_by: Source of the joints' names.
        kind: Key of `KINDS`, if it differs from the signal's name.

    Returns:
        The number of the signal's elements.
    """
    term = KINDS[kind or name]
    draft.put(f"signals.{name}.unit", term.unit, source)
    if term.elements:
        draft.put(f"signals.{name}.elements", list(term.elements), source)
    else:
        draft.put(f"signals.{name}.elements", list(joints) if all(joints) else None, named_by)
        draft.put(f"signals.{name}.offset", 0.0, source)  # the reader replaces it if a pose is subtracted
    if term.frame:
        draft.put(f"signals.{name}.frame", term.frame, source)
    if term.command:
        draft.put(f"signals.{name}.command", True, source)
    return len(term.elements or joints)
