"""What a gate rules at one tick, and what it remembers of an episode."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.safety.limiter import Limiter
from sami_runtime.safety.watch import Rest, Watch
from sami_runtime.safety.workspace import Workspace
from sami_runtime.safety.world_limits import Then

Array = NDArray[np.float32]


class Ruling(NamedTuple):
    """What the gate lets through at one tick."""

    action: Array | None
    """(A,), or None: nothing is written, because no action has been executed yet that could stand, or to stop."""
    limited_by: tuple[str, ...]
    """Every limit that changed the proposal, as `"rate dx"`; `"blend-in"`, `"rest"`, `"stop"` concern all elements."""
    time: float
    """When it was ruled [s]."""
    reason: str = ""
    """Why nothing is to be written any more, its kind first, where the ruling itself found out; empty otherwise."""
    fallback: bool = False
    """Whether the action is that of the fallback."""


@dataclass
class GateEpisode:
    """What a gate remembers of an episode."""

    watch: Watch
    """Judges its observations."""
    rest: Rest
    """The action that moves nothing, where one is known."""
    workspace: Workspace
    """What its actions do not lead out of."""
    limiter: Limiter
    """Shapes its actions."""
    trips: int
    """How often the gate had tripped when the episode began."""
    target: Array | None = None
    """(A,): what the action is on its way to; None while the last one is held."""
    written: Array | None = None
    """(A,): written last, which stands while it is held."""
    then: Then = "hold"
    """What is to happen after the last observation, where it must not be acted on."""
    held: int = 0
    """Ticks of the policy without a new action, in a row."""
    ruled_at: float = math.inf
    """When it was ruled last [s]; before the first ruling, no time can be too long ago."""
    observation: Observation | None = None
    """What was read last, good or not."""
    taken_over: bool = False
    """Whether another one than the policy drove last."""
