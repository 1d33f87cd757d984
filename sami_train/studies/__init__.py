"""Studies of trained policies: comparisons, reports, sweeps, and fits from data. The trunk imports none of it."""

from collections.abc import Sequence


def conjunction(words: Sequence[str]) -> str:
    """Return all words with commas between them, and "and" before the last."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
