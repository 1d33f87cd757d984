"""Reports all reasons why an adapter cannot start, in one error."""

from __future__ import annotations

from collections.abc import Sequence

from sami_runtime.errors import AdapterError


def refuse(faults: Sequence[str], undone: str = "moved") -> None:
    """Raise an error if there are faults.

    Args:
        faults: A sentence for each point that does not match.
        undone: The participle for the message "nothing was ...": moved, sent.

    Raises:
        AdapterError: There are faults; the message lists them all.
    """
    if faults:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        raise AdapterError(f"nothing was {undone}, because {len(faults)} thing(s) do not match:{listed}")
