"""Transport lines: what is sent arrives later, in another order, or not at all."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class _Line(Generic[T]):
    """A line of which the newest message that has arrived is read; messages that it overtook are lost."""

    def __init__(self, first: T) -> None:
        self._newest = first
        self._under_way: list[tuple[int, T]] = []

    def send(self, message: T, arrives: int) -> None:
        self._under_way.append((arrives, message))

    def read(self, now: int) -> T:
        for at in reversed(range(len(self._under_way))):
            if self._under_way[at][0] <= now:
                self._newest = self._under_way[at][1]
                del self._under_way[: at + 1]
                break
        return self._newest
