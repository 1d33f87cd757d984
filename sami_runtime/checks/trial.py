"""An adapter on trial: what was asked of it, what it answered, and what it owes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Executed, Observation
from sami_runtime.clock import Clock
from sami_runtime.model.contract import Contract
from sami_runtime.safety.limits import Limits, by_element

Array = NDArray[np.float32]


@dataclass
class Trial:
    """An adapter on trial, and what the laws found out so far."""

    adapter: Adapter
    contract: Contract
    clock: Clock
    limits: Limits
    ticks: int
    write: bool
    begun: float = 0.0
    """When the episode was asked for [s], by the loop's clock."""
    ready: float = 0.0
    """When `reset` was done with it [s]."""
    seen: list[Observation] = field(default_factory=list)
    """Every observation, as it was given."""
    copies: list[dict[str, bytes]] = field(default_factory=list)
    """Its values at that moment."""
    read_at: list[float] = field(default_factory=list)
    """When it was read [s], by the loop's clock."""
    took: list[float] = field(default_factory=list)
    """How long reading and writing took at each tick [s]."""
    sent: list[Executed] = field(default_factory=list)
    """What became of each action."""
    pairs: int = 0
    """How often the robot was moved to either side."""
    unproven: str = ""
    """What the law that was checked last could not judge, and what to do about it; empty where it judged all."""

    def still(self, begun: Mapping[str, NDArray[Any]] | None = None) -> Array:
        """Return what moves nothing (A,), as it was when the episode began; a robot that gives way is not followed.

        Args:
            begun: The first values of the episode; those of the first episode if None.
        """
        rest = self.limits.rest
        if isinstance(rest, str):
            return np.array((begun or self.seen[0].values)[rest], np.float32).reshape(-1)
        return by_element(rest, self.contract.action, 0.0).astype(np.float32)


class Law(NamedTuple):
    """What an adapter owes."""

    sentence: str
    check: Callable[[Trial], str | None]
    """Raises where a trial breaks it; may return what else is worth knowing."""
