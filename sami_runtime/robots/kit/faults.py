"""What keeps an adapter from beginning, told all at once."""

from __future__ import annotations

from collections.abc import Sequence

from sami_runtime.errors import AdapterError


def refuse(faults: Sequence[str], undone: str = "moved") -> None:
    """Go on only where nothing is wrong.

    Args:
        faults: What does not match, a sentence each.
        undone: What has not been done to the robot.

    Raises:
        AdapterError: With all that does not match.
    """
    if faults:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        raise AdapterError(f"nothing was {undone}, because {len(faults)} thing(s) do not match:{listed}")
