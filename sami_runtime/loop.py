"""The control loop: observe, infer, write, tell the session what was executed; stop on every way out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Observation, require_compatible
from sami_runtime.clock import Clock
from sami_runtime.errors import SamiError
from sami_runtime.session import Session

Array = NDArray[np.float32]


class SectionTimes(NamedTuple):
    """How long the sections of one step took."""

    observe: float
    """The adapter's read [s]."""
    infer: float
    """The session's step [s], checks and inference."""
    write: float
    """The adapter's write [s]."""


@dataclass(frozen=True)
class StepRecord:
    """One step of a loop, as it happened."""

    step: int
    """Index of the step in the episode, from 0."""
    observation: Observation
    action: Array
    """(A,): what the policy proposed."""
    executed: Array
    """(A,): what was really sent."""
    context: Array
    """(C,): the context that the policy inferred."""
    info: Mapping[str, Any]
    """What the adapter told."""
    times: SectionTimes


@dataclass(frozen=True)
class EpisodeReport:
    """What came of an episode of T steps."""

    steps: int
    """T."""
    done: bool
    """Whether the world ended the episode, rather than the number of steps."""
    info: Mapping[str, Any]
    """What the adapter told at the last step."""
    contexts: Array
    """(T, C): the context at each step."""
    times: NDArray[np.float64]
    """(T, 3): observe, infer and write of each step [s]."""
    overruns: int
    """Steps that ended after their deadline."""
    skipped: int
    """Ticks that passed without a step because of overruns."""


@dataclass
class _Pace:
    """Absolute deadlines at a fixed rate: a late step skips ticks and never makes up for them in a burst."""

    clock: Clock
    period: float
    start: float = field(init=False)
    tick: int = 0
    overruns: int = 0
    skipped: int = 0

    def __post_init__(self) -> None:
        self.start = self.clock.now()

    def wait(self) -> None:
        """Returns at the next tick that lies ahead."""
        self.tick += 1
        passed = (self.clock.now() - self.start) / self.period
        # A millionth of a period is rounding, not lateness.
        if passed > self.tick + 1e-6:
            late = math.ceil(passed - 1e-6) - self.tick
            self.overruns += 1
            self.skipped += late
            self.tick += late
        self.clock.sleep_until(self.start + self.tick * self.period)


def run_episode(
    session: Session,
    adapter: Adapter,
    seed: int | None = None,
    max_steps: int | None = None,
    clock: Clock | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
) -> EpisodeReport:
    """Runs one episode, and stops the adapter however it ends.

    Args:
        session: The policy, with a batch of 1.
        adapter: What it drives.
        seed: For the adapter's reset.
        max_steps: Most steps; the contract's `episode_steps` if None.
        clock: Keeps the contract's rate. As fast as the adapter allows if None.
        on_step: Called after each step.

    Raises:
        AdapterError: The policy and the adapter do not fit, or the adapter failed.
        SignalError: An observation or an answer of the policy was refused.
    """
    contract = session.contract
    names = [signal.name for signal in contract.observation]
    limit = contract.episode_steps if max_steps is None else max_steps
    if session.batch != 1 or limit < 1:
        raise SamiError(
            f"run_episode() got a session of batch {session.batch} and max_steps {limit}; "
            "expected a batch of 1 and at least 1 step."
        )
    contexts: list[Array] = []
    times: list[SectionTimes] = []
    done, info = False, {}  # type: bool, Mapping[str, Any]
    try:
        require_compatible(contract, adapter)
        adapter.reset(seed)
        session.reset()
        pace = _Pace(clock, 1.0 / contract.rate_hz) if clock else None
        while not done and len(times) < limit:
            if pace and times:
                pace.wait()
            begin = time.perf_counter()
            observation = adapter.read()
            seen = {name: observation.values[name] for name in names if name in observation.values}
            observed = time.perf_counter()
            answer = session.step(seen)
            inferred = time.perf_counter()
            sent = adapter.write(answer.action)
            written = time.perf_counter()
            session.executed(sent.action)
            done, info = sent.done, sent.info
            contexts.append(answer.context)
            times.append(SectionTimes(observed - begin, inferred - observed, written - inferred))
            if on_step:
                on_step(
                    StepRecord(
                        step=len(times) - 1,
                        observation=observation,
                        action=answer.action,
                        executed=sent.action,
                        context=answer.context,
                        info=info,
                        times=times[-1],
                    )
                )
    finally:
        adapter.stop()
    return EpisodeReport(
        steps=len(times),
        done=done,
        info=info,
        contexts=np.array(contexts, np.float32).reshape(len(times), contract.context_size),
        times=np.array(times, np.float64).reshape(len(times), 3),
        overruns=pace.overruns if pace else 0,
        skipped=pace.skipped if pace else 0,
    )
