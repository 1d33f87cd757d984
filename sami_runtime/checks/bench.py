"""Times a policy's step: the session against bare onnxruntime, in one run, back to back and paced."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sami_runtime.clock import MonotonicClock
from sami_runtime.model.artifact import Artifact
from sami_runtime.model.contract import ACTION, Contract
from sami_runtime.session.inference import CPU, bind, build
from sami_runtime.session.memory import EpisodeMemory, StepInputs
from sami_runtime.session.session import Session

Array = NDArray[np.float32]

OBSERVATIONS = 1000
"""Number of different observations, which are repeated in a cycle."""
BACK_TO_BACK_TURN = 250
"""Steps of one turn, back to back."""
PREWARM_BEFORE = 7e-4
"""How long before its deadline a paced step is prewarmed [s], but at most half a period."""

BOUND, PLAIN, SESSION = "onnxruntime run_with_iobinding", "onnxruntime run", "Session.step"

METHOD = f"""\
Each line steps the same policy for one robot on one thread: observations are {OBSERVATIONS} prepared vectors of \
uniform random numbers in [-1, 1], the recurrent state is fed back.
  {BOUND}  the call alone, on arrays bound once; the observation is copied in before the clock starts
  {PLAIN}                 the call with a dictionary of arrays in and new arrays out, outputs fed back
  {SESSION}                    the whole step: observation in, names, shapes and numbers checked, answer copied out
  {SESSION} after prewarm()    the same, with one call of prewarm() 0.7 ms before a paced step, and awake from then on
All take turns within one run, in another order each round ({BACK_TO_BACK_TURN} steps back to back, one second paced), \
so that whatever else the machine does falls on all alike; the first steps of a turn are not counted. Paced means \
asleep until each deadline, so caches and the core are as cold as on a robot. Read the ratios to the first line: they \
move far less than the times. Worst is the worst of all steps, the machine's pauses included."""


@dataclass(frozen=True)
class Candidate:
    """One way to step the policy."""

    name: str
    reset: Callable[[], None]
    """Begins an episode."""
    step: Callable[[int], Array]
    """Returns the action (A,) for the observation of this index; only this call is timed."""
    feed: Callable[[int], None] | None = None
    """Copies in the observation of this index, before the wait for the deadline."""
    prewarm: Callable[[], None] | None = None
    """Runs just before the deadline."""


@dataclass(frozen=True)
class CandidateTiming:
    """Times of one candidate's steps [us]."""

    steps: int
    p50: float
    p99: float
    p99_9: float | None
    """None if there are fewer than 1000 steps, of which at most one would be slower."""
    worst: float
    ratio: float
    """p50 divided by that of the first candidate."""


def observations(contract: Contract, count: int = OBSERVATIONS) -> dict[str, Array]:
    """Return by signal (count, size) uniform random numbers in [-1, 1], the same at every call."""
    rng = np.random.default_rng(0)
    return {s.name: rng.uniform(-1, 1, (count, s.size)).astype(np.float32) for s in contract.signal_inputs.values()}


def candidates(artifact: Artifact, provider: str = "cpu") -> list[Candidate]:
    """Return the ways to step a model file that do not need torch, the reference first.

    Args:
        artifact: The model.
        provider: Execution provider. `run_with_iobinding` is compared only on the CPU, where it copies nothing.

    Raises:
        SamiError: As `Session`.
    """
    values = observations(artifact.contract)
    first, second = Session(artifact, provider=provider), Session(artifact, provider=provider)
    bound = [_bound(artifact, values)] if first.active_providers == (CPU,) else []
    return [*bound, _plain(artifact, provider, values), _stepped(first, values), _stepped(second, values, prewarm=True)]


def largest_difference(candidates: Sequence[Candidate], steps: int = 100) -> float:
    """Return the largest difference between two candidates' actions over the first `steps` steps of an episode."""
    actions = []
    for candidate in candidates:
        candidate.reset()
        sequence = []
        for i in range(steps):
            if candidate.feed:
                candidate.feed(i)
            sequence.append(candidate.step(i).copy())
        actions.append(sequence)
    return float(np.ptp(np.array(actions, np.float64), axis=0).max())


def measure(
    candidates: Sequence[Candidate], seconds: float, rate_hz: float | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return by candidate the times of its steps [us], (N,); the candidates take turns.

    Args:
        candidates: What to measure; without a rate, candidates with `prewarm` are left out.
        seconds: About how long each candidate is stepped [s].
        rate_hz: Rate of a paced measurement [1/s]; None for back to back.
    """
    paced = [candidate for candidate in candidates if rate_hz is not None or candidate.prewarm is None]
    turn = BACK_TO_BACK_TURN if rate_hz is None else max(5, round(rate_hz * min(1.0, seconds)))
    unsettled = turn // 25 if rate_hz is None else min(3, turn - 1)
    times: dict[str, list[NDArray[np.float64]]] = {candidate.name: [] for candidate in paced}
    rng = np.random.default_rng(0)
    end = time.perf_counter() + seconds * len(paced)
    turns = 0
    while turns == 0 or (time.perf_counter() < end if rate_hz is None else turns < math.ceil(seconds)):
        for index in rng.permutation(len(paced)):
            times[paced[index].name].append(_turn(paced[index], turn, rate_hz)[unsettled:])
        turns += 1
    return {name: np.concatenate(parts) / 1000 for name, parts in times.items()}


def summarise(times: Mapping[str, NDArray[np.float64]]) -> dict[str, CandidateTiming]:
    """Return the percentiles of the times that `measure` returned."""
    summaries: dict[str, CandidateTiming] = {}
    reference = float(np.median(next(iter(times.values()))))
    for name, durations in times.items():
        p50, p99, p99_9 = np.percentile(durations, (50, 99, 99.9)).tolist()
        p99_9 = p99_9 if len(durations) >= 1000 else None
        summaries[name] = CandidateTiming(len(durations), p50, p99, p99_9, float(durations.max()), p50 / reference)
    return summaries


def soak(session: Session, steps: int) -> int | None:
    """Step and prewarm a session `steps` times.

    Returns:
        Growth of the process's resident memory [bytes] between a tenth of the steps and the last one; None if the
        system does not report it.
    """
    values = observations(session.contract)
    feeds = [{name: value[i] for name, value in values.items()} for i in range(OBSERVATIONS)]
    # NumPy stores a record with each array that is read as a buffer, and frees it with the array. Step all prepared
    # observations once, so that their records do not count as growth; a robot's arrays are freed with theirs.
    for feed in feeds:
        session.step(feed)
    settled = None
    for i in range(steps):
        if i == steps // 10:
            settled = _resident_bytes()
        session.executed(session.step(feeds[i % OBSERVATIONS]).action)
        session.prewarm()
    end = _resident_bytes()
    return None if settled is None or end is None else end - settled


def _resident_bytes() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _turn(candidate: Candidate, steps: int, rate_hz: float | None) -> NDArray[np.float64]:
    """Return the times [ns] of the steps of one turn, (steps,)."""
    step, feed, prewarm = candidate.step, candidate.feed, candidate.prewarm
    period = 0.0 if rate_hz is None else 1 / rate_hz
    early = min(PREWARM_BEFORE, period / 2) if prewarm else 0.0
    asleep, awake = MonotonicClock(), MonotonicClock(awake_s=early)
    durations = np.empty(steps)
    candidate.reset()
    deadline = time.perf_counter()
    for i in range(steps):
        number = i % OBSERVATIONS
        if feed:
            feed(number)
        if period:
            deadline += period
            asleep.sleep_until(deadline - early)
            if prewarm:
                prewarm()
                awake.sleep_until(deadline)
        start = time.perf_counter_ns()
        step(number)
        durations[i] = time.perf_counter_ns() - start
    return durations


def _bound(artifact: Artifact, values: Mapping[str, Array]) -> Candidate:
    """Return the bare call on bound arrays: of two bindings, each writes the state that the other one reads."""
    contract = artifact.contract
    onnx = build(artifact)
    signals, inputs = contract.signal_inputs, StepInputs(contract, 1).inputs
    memories = (EpisodeMemory(contract, 1), EpisodeMemory(contract, 1))
    bindings = [bind(onnx, inputs | m.inputs, other.outputs) for m, other in (memories, memories[::-1])]
    call, now = onnx.run_with_iobinding, 0

    def feed(i: int) -> None:
        for name, signal in signals.items():
            inputs[name][0] = values[signal.name][i]

    def reset() -> None:
        memories[now].begin()

    def step(i: int) -> Array:
        nonlocal now
        call(bindings[now])
        now = 1 - now
        return memories[now].action[0]

    return Candidate(BOUND, reset, step, feed)


def _plain(artifact: Artifact, provider: str, values: Mapping[str, Array]) -> Candidate:
    """Return the bare call on new arrays."""
    contract = artifact.contract
    onnx = build(artifact, provider)
    names = list(contract.outputs)
    feedback = [(name, names.index(output)) for name, output in contract.feedback.items()]
    inputs = {name: values[signal.name] for name, signal in contract.signal_inputs.items()}
    feeds = [{name: value[i : i + 1] for name, value in inputs.items()} for i in range(OBSERVATIONS)]
    acted = names.index(ACTION)
    memory: dict[str, Array] = {}

    def reset() -> None:
        initial = StepInputs(contract, 1).inputs | EpisodeMemory(contract, 1).inputs
        memory.update({name: value.copy() for name, value in initial.items()})

    def step(i: int) -> Array:
        outputs = onnx.run(names, {**memory, **feeds[i]})
        for name, index in feedback:
            memory[name] = outputs[index]
        return outputs[acted][0]

    return Candidate(PLAIN, reset, step)


def _stepped(session: Session, values: Mapping[str, Array], prewarm: bool = False) -> Candidate:
    feeds = [{name: value[i] for name, value in values.items()} for i in range(OBSERVATIONS)]
    name, before = (f"{SESSION} after prewarm()", session.prewarm) if prewarm else (SESSION, None)
    return Candidate(name, session.reset, lambda i: session.step(feeds[i]).action, prewarm=before)
