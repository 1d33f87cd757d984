"""Where a session that follows another one would have answered otherwise, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import CheckFailed, SamiError

Array = NDArray[np.float32]


class Difference(NamedTuple):
    """Where the follower would have answered otherwise."""

    episode: int
    step: int
    """Index of the tick in the episode."""
    name: str
    """What differs: `"action dx"`, `"context 3"`, `"state"`."""
    actual: str
    """What the follower has there."""
    expected: str
    """What the one that it follows had there."""
    size: float | None
    """|actual - expected|; None where that has no meaning."""

    def within(self, size: float | None) -> bool:
        """Return whether it is no larger than a size; one without a size is larger than any."""
        return size is None or (self.size is not None and self.size <= size)

    def plain(self) -> dict[str, Any]:
        """Return the difference for JSON, where `found` is the follower's value."""
        return {"found" if key == "actual" else key: value for key, value in self._asdict().items()}

    def __str__(self) -> str:
        return f"episode {self.episode}, step {self.step}: {self.name} is {self.actual}, was {self.expected}"


@dataclass
class ReplayComparison:
    """What came of following."""

    steps: int = 0
    """Steps of the policy that were compared."""
    differing: int = 0
    """Ticks at which anything differs by more than was allowed."""
    failed: int = 0
    """Steps at which the follower could not answer."""
    first: Difference | None = None
    largest: dict[str, Difference] = field(default_factory=dict)
    """The largest difference of each element."""
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def same(self) -> bool:
        """Whether every step was answered and none differs."""
        return not self.differing and not self.failed

    def count(self, new_differences: list[Difference], stepped: bool = True) -> None:
        """Count a tick, with what differs at it, and whether the policy made a step."""
        self.steps += stepped
        self.differing += bool(new_differences)
        for difference in new_differences:
            self.first = self.first or difference
            worst = self.largest.get(difference.name)
            if worst is None or not difference.within(worst.size):
                self.largest[difference.name] = difference

    def fail(self, error: SamiError) -> None:
        """Count a step at which the follower could not answer."""
        self.failed += 1
        self.failures[str(error)] += 1

    def summary(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return {
            "steps": self.steps,
            "differing": self.differing,
            "failed": self.failed,
            "first": self.first and self.first.plain(),
            "largest": {name: difference.plain() for name, difference in self.largest.items()},
            "failures": dict(self.failures),
        }

    def __str__(self) -> str:
        if not (self.steps or self.differing or self.failed):
            return "there is no step to compare"
        if self.same:
            return f"{self.steps} steps compared, none differs"
        lines = [f"{self.steps} steps compared, {self.differing} ticks differ"]
        if self.first:
            lines.append(f"first at {self.first}")
        lines += [
            f"largest {difference.size:.3g} at {difference}"
            for difference in self.largest.values()
            if difference.size is not None
        ]
        lines += [f"{count} times no answer: {message}" for message, count in self.failures.most_common(3)]
        return "\n".join(lines)


def require_same(comparison: ReplayComparison) -> None:
    """Do nothing if the follower answered alike everywhere.

    Raises:
        CheckFailed: It did not; the message says where.
    """
    if not comparison.same:
        raise CheckFailed(str(comparison))


def differences(
    episode: int, step: int, name: str, elements: tuple[str, ...], actual: Array, expected: Array | None
) -> Iterator[Difference]:
    """Return each element that has other bits."""
    if expected is None or actual.shape != expected.shape:
        shape = None if expected is None else expected.shape
        yield Difference(episode, step, name, f"of shape {actual.shape}", f"of shape {shape}", None)
        return
    for at in np.flatnonzero(actual.view(np.uint32) != expected.view(np.uint32)):
        size = abs(float(actual[at]) - float(expected[at]))
        yield Difference(episode, step, f"{name} {elements[at]}", f"{actual[at]:.9g}", f"{expected[at]:.9g}", size)
