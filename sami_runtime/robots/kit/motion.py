"""Smooth motion from one pose to another."""

from __future__ import annotations


def eased(share: float) -> float:
    """Return the share of a path that is covered after a share of its time, starting and ending at rest.

    The highest speed is 1.5 times the mean. The result is 0 before the start, and 1 after the end.
    """
    share = min(1.0, max(0.0, share))
    return share * share * (3.0 - 2.0 * share)
