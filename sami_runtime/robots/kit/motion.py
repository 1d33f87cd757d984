"""How a robot is led from one place to another."""

from __future__ import annotations


def eased(share: float) -> float:
    """Return which share of a way is made after a share of its time: it begins and ends at rest.

    At most 1.5 times the mean speed; before the beginning 0, after the end 1.
    """
    share = min(1.0, max(0.0, share))
    return share * share * (3.0 - 2.0 * share)
