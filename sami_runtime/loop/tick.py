"""One turn of a control loop, as it happened: what was seen, proposed, limited and executed, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation
from sami_runtime.model.contract import ACTION, CONTEXT, Contract
from sami_runtime.session.telemetry import Reading

Array = NDArray[np.float32]


class Outcome(str, Enum):
    """What became of a tick."""

    ACTED = "acted"
    """The policy was asked, and its answer went to the gate."""
    STANDING = "standing"
    """Between two ticks of the policy: its last answer stands."""
    HELD = "held"
    """The observation was too old or frozen; the policy was not asked."""
    LATE = "late"
    """The answer came after its deadline and was dropped."""
    REFUSED = "refused"
    """The observation or the answer was not finite, or the inference failed."""
    FALLBACK = "fallback"
    """There was no answer for too long, and the gate's fallback acted; the reason says why there was none."""
    PILOTED = "piloted"
    """A person drove: the policy was asked, and the person's command went to the gate in place of its answer."""
    PAUSED = "paused"
    """A person wants the robot to rest: nothing was read, and the policy was not asked."""


STEPPED = (Outcome.ACTED, Outcome.PILOTED)
"""Outcomes of a tick at which the policy was asked and its state advanced, whoever drove."""


class SectionTimes(NamedTuple):
    """How long the sections of one tick took."""

    observe: float
    """The adapter's read [s]."""
    infer: float
    """Judging the observation, and the session's step: checks and inference [s]."""
    gate: float
    """The safety gate's ruling on the action [s]."""
    write: float
    """The adapter's write [s]."""


class Swapped(NamedTuple):
    """A model that took over from another one."""

    path: str
    """Its file."""
    weights_sha256: str
    contract: Contract
    fed_from: int = 0
    """0; in recordings of earlier versions, from which of the episode's steps on its state had been rebuilt."""
    fed: int = 0
    """How many steps of the episode had been made when it took over; 0 at an episode's beginning."""


@dataclass(frozen=True)
class StepRecord:
    """One tick of a loop, whole: whoever keeps it needs nothing else. Unless the policy `stepped`, its state stands."""

    step: int
    """Index of the tick in the episode, from 0."""
    outcome: Outcome
    observation: Observation | None
    """None between two ticks of the policy, unless it was read there and is why the robot was held."""
    action: Array | None
    """(A,): what the policy proposed last; None if it never did, or was not asked or could not answer at this tick."""
    executed: Array | None
    """(A,): what was really sent. None if nothing was: there is no action yet that could stand, or the gate tripped."""
    context: Array
    """(C,): the context that the policy inferred last."""
    info: Mapping[str, Any]
    """What the adapter told."""
    times: SectionTimes
    reason: str = ""
    """Why the policy did not act, or the gate stopped the robot, its kind first: `"age: ..."`, `"pause: ..."`."""
    limited_by: tuple[str, ...] = ()
    """Every limit that changed the action, each as `"rate dx"`; `"stop"` where the gate tripped."""
    time: float = 0.0
    """When the tick began [s], by the loop's clock."""
    age: float | Mapping[str, float] = 0.0
    """How old the observation was when the policy was asked [periods of the policy], with the command's own delay: of
    all signals, or by signal."""
    passed: int = 1
    """Steps of the policy since the last tick at which it was due: 0 between two of them, and where a step that takes
    several periods may still be answered in the next one; more where some were missed."""
    lag: float = 0.0
    """How long [s] after it was due."""
    missed: int = 0
    """Ticks that had passed without a turn since the tick before."""
    extra: Mapping[str, Array] = field(default_factory=dict)
    """By the graph's output, each (size,): what else the policy answered last; see the contract's `extra_outputs`."""
    telemetry: Reading | None = None
    """What the contexts have told so far; None where nothing read them."""
    state: str = ""
    """Digest of the session's state after the tick, as `Session.digest` tells it; empty where nobody listened."""
    swapped: Swapped | None = None
    """The model that took over before this tick; None at all others."""

    @property
    def stepped(self) -> bool:
        """Whether the policy was asked and its state advanced, whoever drove."""
        return self.outcome in STEPPED

    @property
    def answers(self) -> dict[str, Array | None]:
        """What the policy answered last, by the graph's output."""
        return {ACTION: self.action, CONTEXT: self.context, **self.extra}
