"""The rules that adapters must obey: signals, stamps, buffers, stopping, time, and numbers like those of training."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Executed, Observation, require_compatible, require_observation
from sami_runtime.clock import Clock, Pace
from sami_runtime.errors import AdapterError, excerpt
from sami_runtime.model.contract import Contract
from sami_runtime.model.training_ranges import ALLOWED, LEAST, Responses, TrainingRanges, mistaken_units
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits, by_element
from sami_runtime.signals import Signal, numbers_of

Array = NDArray[np.float32]


@dataclass
class Trial:
    """An adapter under test, and what the checks of the rules have recorded so far."""

    adapter: Adapter
    contract: Contract
    clock: Clock
    limits: Limits
    ticks: int
    write: bool
    start_s: float = 0.0
    """When `reset` was called [s], by the loop's clock."""
    ready: float = 0.0
    """When `reset` returned [s], by the loop's clock."""
    reads: list[Observation] = field(default_factory=list)
    """Every observation, as `read` returned it."""
    copies: list[dict[str, bytes]] = field(default_factory=list)
    """A copy of each observation's values, by signal."""
    read_at: list[float] = field(default_factory=list)
    """When each observation was read [s], by the loop's clock."""
    tick_times: list[float] = field(default_factory=list)
    """How long reading and writing took at each tick [s]."""
    writes: list[Executed] = field(default_factory=list)
    pairs: int = 0
    """Number of pairs of moves that were begun, which is also the seed of their episodes."""
    unproven: str = ""
    """What the current rule could not judge, and what to do about it; empty if it judged everything."""

    @property
    def ranges(self) -> TrainingRanges:
        """The ranges in training, which the contract must contain."""
        assert self.contract.training_ranges is not None
        return self.contract.training_ranges

    @property
    def responses(self) -> Responses:
        """The moves in simulation and the responses to them, which the contract must contain."""
        assert self.ranges.responses is not None
        return self.ranges.responses

    def still(self, first_values: Mapping[str, NDArray[Any]] | None = None) -> Array:
        """Return the neutral action (A,); if it is a signal, its first value, so that it does not follow a sagging arm.

        Args:
            first_values: The first observation of the episode; that of the first episode if None.
        """
        rest = self.limits.rest
        if isinstance(rest, str):
            return np.array((first_values or self.reads[0].values)[rest], np.float32).reshape(-1)
        return by_element(rest, self.contract.action, 0.0).astype(np.float32)


class Rule(NamedTuple):
    """A rule that an adapter must obey."""

    sentence: str
    check: Callable[[Trial], str | None]
    """Raises an error if the adapter breaks the rule; may return a note."""


FUTURE_S = 1e-3
"""How far a stamp may be ahead of the loop's clock [s], because drivers round."""
RESET_S = 5e-3
"""How long before the end of `reset` the first stamp may be [s]: simulators stamp within `reset`."""


def fits(trial: Trial) -> None:
    """Raise an error if the adapter's signals do not fit the model."""
    adapter = trial.adapter
    require_compatible(trial.contract, adapter.observation, adapter.action, type(adapter).__name__)


def stops(trial: Trial) -> None:
    """Stop the adapter twice."""
    trial.adapter.stop()
    trial.adapter.stop()


def runs(trial: Trial) -> None:
    """Run an episode: read at each tick, and write the neutral action if `trial.write`."""
    period = 1.0 / trial.contract.rate_hz
    gate = SafetyGate(trial.adapter, trial.contract, trial.limits)  # here, too, only the gate writes
    gate.begin(period)
    trial.start_s = trial.clock.now()
    trial.adapter.reset(0)
    trial.ready = trial.clock.now()
    pace = Pace(trial.clock, period)
    for tick in range(trial.ticks):
        if tick:
            pace.wait()
        start_time = time.perf_counter()
        observation = require_observation(trial.adapter.read(), trial.adapter)
        now = trial.clock.now()
        trial.read_at.append(now)
        trial.reads.append(observation)
        trial.copies.append({name: numbers_of(value).tobytes() for name, value in observation.values.items()})
        if trial.write:
            gate.fault(observation, now)  # shows the gate where the robot rests; other rules report faults
            result = gate.write(gate.propose(trial.still(), now))
            if result is not None:
                trial.writes.append(result)
        trial.tick_times.append(time.perf_counter() - start_time)
        if trial.writes and trial.writes[-1].done:
            break


def complete(trial: Trial) -> None:
    """Raise an error if a signal is missing, of another shape, or not finite."""
    for tick, observation in enumerate(trial.reads):
        for signal in trial.adapter.observation:
            if signal.name not in observation.values:
                names = ", ".join(observation.values) or "nothing"
                raise AdapterError(f"read {tick} lacks {signal.name}; it gave {names}")
            reading, where = observation.values[signal.name], f"read {tick} gave {signal.name}"
            if (value := numbers_of(reading)).shape != (signal.size,):
                raise AdapterError(f"{where} = {excerpt(reading)}, expected {signal.size} numbers [{signal.unit}]")
            if not np.isfinite(value).all():
                raise AdapterError(f"{where} = {value.tolist()}, which is not finite")


def bounded(trial: Trial) -> None:
    """Raise an error if a number is beyond the contract's bounds."""
    for tick, observation in enumerate(trial.reads):
        for signal in trial.contract.observation:
            if beyond := _beyond(observation.values[signal.name], signal):
                raise AdapterError(f"read {tick} gave {signal.name}.{beyond} [{signal.unit}]; is the unit another one?")


def begins_anew(trial: Trial) -> None:
    """Raise an error if the first observation was measured before the episode began."""
    stamp = trial.reads[0].time  # the rule `clocked` finds single signals that are old
    if stamp < trial.start_s - FUTURE_S or stamp < trial.ready - RESET_S:
        raise AdapterError(
            f"the first observation of the episode was measured {trial.ready - stamp:.3g} s before reset() was done, "
            f"which took {trial.ready - trial.start_s:.3g} s: it is older than the reset. Throw away in reset() what "
            "was measured until its end, and wait in the first read() for what comes after it"
        )


def clocked(trial: Trial) -> None:
    """Raise an error if stamps are not times of the loop's clock, or too old."""
    for tick, (frame, now) in enumerate(zip(trial.reads, trial.read_at, strict=True)):
        for name, allowed in trial.limits.max_age(trial.contract).items():
            stamp = frame.measured(name)
            if not -FUTURE_S <= now - stamp <= allowed:
                raise AdapterError(
                    f"read {tick} {_stamped(frame, name)} {stamp:.6g} s, and it was {now:.6g} s by the loop's clock: "
                    f"{now - stamp:.3g} s old, allowed are 0 to {allowed:.3g} (max_age_s). Stamp it with the clock "
                    "that the adapter was given"
                )


def forward(trial: Trial) -> None:
    """Raise an error if stamps go back, or do not advance."""
    for name in (signal.name for signal in trial.contract.observation):
        stamps = [observation.measured(name) for observation in trial.reads]
        for tick, (stamp, following) in enumerate(pairwise(stamps)):
            if following < stamp:
                stamped = _stamped(trial.reads[tick + 1], name)
                raise AdapterError(f"read {tick + 1} {stamped} {following:.6g} s, before read {tick} at {stamp:.6g} s")
        if len(stamps) > 1 and stamps[0] == stamps[-1]:
            hint = "; a simulator stands still unless something is written, so check it with writes"
            kind = "observations" if trial.reads[-1].times is None else f"readings of {name}"
            raise AdapterError(f"all {len(stamps)} {kind} are stamped {stamps[0]:.6g} s{'' if trial.write else hint}")


def keeps_buffers(trial: Trial) -> None:
    """Raise an error if the arrays of an observation change after `read` returned them."""
    for tick, (frame, copies) in enumerate(zip(trial.reads, trial.copies, strict=True)):
        for name, copy in copies.items():
            values, later = numbers_of(frame.values[name]), trial.reads[min(tick + 1, len(trial.reads) - 1)]
            shared = later is not frame and np.shares_memory(values, numbers_of(later.values.get(name)))
            if shared or values.tobytes() != copy:
                raise AdapterError(f"read {tick} gave {name} as a buffer that a later one reuses; return a copy of it")


def reports_executed(trial: Trial) -> None:
    """Raise an error if an executed action is beyond the action's bounds."""
    for tick, result in enumerate(trial.writes):
        if beyond := _beyond(result.action, trial.contract.action):
            raise AdapterError(f"write {tick} says it executed {beyond} [{trial.contract.action.unit}]")


def quick(trial: Trial) -> None:
    """Raise an error if the median time of reading and writing exceeds half a period."""
    half, median = 0.5 / trial.contract.rate_hz, float(np.median(trial.tick_times))
    if median > half:
        raise AdapterError(
            f"they took {1e3 * median:.3g} ms of {2e3 * half:.3g} ms; read in a thread of the adapter's own"
        )


def closes(trial: Trial) -> None:
    """Close the adapter twice."""
    trial.adapter.close()
    trial.adapter.close()


def _stamped(observation: Observation, name: str) -> str:
    return "is stamped" if observation.times is None else f"has {name} stamped"


def _beyond(values: NDArray[np.floating], signal: Signal) -> str:
    """Return the first element beyond a signal's bounds, with its value and the bounds; an empty text if none is."""
    for element, number, low, high in zip(
        signal.elements, np.asarray(values, np.float64), signal.low, signal.high, strict=True
    ):
        # Compare in float32, the type of the numbers, in which 0.1 is not beyond 0.1.
        if (low is not None and number < np.float32(low)) or (high is not None and number > np.float32(high)):
            return f"{element} = {number:g}, beyond {low} to {high}"
    return ""


When = Literal["signals", "begin"]
"""Over all steps of training, or over the first steps of its episodes."""
HOME = 1.0
"""How many standard deviations a first observation may be outside those of training before a note says so."""
MOST_LISTED = 3
"""Most elements that a fault names."""


class _Stray(NamedTuple):
    """An observed number far outside the range that training saw."""

    signal: Signal
    element: int
    step: int
    value: float
    deviations: float
    """Distance from the range in training, in standard deviations."""


def accustomed(trial: Trial) -> str | None:
    """Raise an error if observations are far from those of training; return a note if only the episode's start is."""
    values = {
        signal.name: np.stack([np.asarray(observation.values[signal.name], np.float64) for observation in trial.reads])
        for signal in trial.contract.observation
    }
    outliers = []
    for signal in trial.contract.observation:
        far = _deviations(trial.ranges, signal, "signals", values[signal.name])
        for element, step in enumerate(far.argmax(axis=0)):  # the farthest of each element
            if far[step, element] > ALLOWED:
                value = float(values[signal.name][step, element])
                outliers.append(_Stray(signal, element, int(step), value, float(far[step, element])))
    if not outliers:
        return _away_from_home(trial, {name: value[0] for name, value in values.items()})
    outliers.sort(key=lambda stray: -stray.deviations)
    sentences = [_sentence(stray, trial.ranges) for stray in outliers[:MOST_LISTED]]
    if len(outliers) > MOST_LISTED:
        sentences.append(f"and {len(outliers) - MOST_LISTED} other elements")
    # The element that varies least at the start of episodes shows best what is wrong.
    surest = min(outliers, key=lambda stray: trial.ranges.begin[stray.signal.name].deviation[stray.element])
    reason = _probably(trial, surest, values[surest.signal.name][surest.step])
    raise AdapterError(f"{'; '.join(sentences)}. {reason}")


def _deviations(ranges: TrainingRanges, signal: Signal, when: When, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many standard deviations values (T, size) are outside training's range (see `When`); 0 inside."""
    limits = getattr(ranges, when)[signal.name]
    beyond = np.maximum(np.array(limits.lowest) - values, values - np.array(limits.highest)).clip(0.0)
    deviation = np.array(ranges.signals[signal.name].deviation)
    deviation = np.maximum(deviation, LEAST * deviation.max())
    # A signal that was constant in training has no scale to measure a distance by.
    return np.divide(beyond, deviation, out=np.zeros_like(beyond), where=deviation > 0)


def _away_from_home(trial: Trial, first: Mapping[str, NDArray[np.float64]]) -> str | None:
    """Return a note if the first observation, (size,) by signal, is outside those of training, else None."""
    outside = []
    for signal in trial.contract.observation:
        begin, numbers = trial.ranges.begin[signal.name], first[signal.name]
        far = _deviations(trial.ranges, signal, "begin", numbers[None])[0]
        for at in np.flatnonzero(far > HOME):
            low, high = begin.lowest[at], begin.highest[at]
            name = f"{signal.name}.{signal.elements[at]}"
            outside.append(f"{name} = {numbers[at]:.3g} {signal.unit} (there {low:.3g} to {high:.3g})")
    if not outside:
        return None
    sheet = trial.contract.sheet
    home = f" Home is: {sheet.home}." if sheet is not None else ""
    return f"the episode began elsewhere than those of training: {', '.join(outside)}.{home}"


def _sentence(stray: _Stray, ranges: TrainingRanges) -> str:
    signal, spread, at = stray.signal, ranges.signals[stray.signal.name], stray.element
    return (
        f"read {stray.step} gave {signal.name}.{signal.elements[at]} = {stray.value:.4g} {signal.unit}, and training "
        f"saw {spread.lowest[at]:.3g} to {spread.highest[at]:.3g} (mean {spread.mean[at]:.3g}, deviation "
        f"{spread.deviation[at]:.2g}): {stray.deviations:.1f} deviations beyond"
    )


def _probably(trial: Trial, stray: _Stray, value: NDArray[np.float64]) -> str:
    """Return the probable cause of a number far outside its range; `value` (size,) is its signal's."""
    signal, at = stray.signal, stray.element
    spread, begin = trial.ranges.signals[signal.name], trial.ranges.begin[signal.name]

    def fits(candidate: NDArray[np.float64], when: When, allowed: float) -> bool:
        return bool((_deviations(trial.ranges, signal, when, candidate[None]) <= allowed).all())

    for unit, factor in mistaken_units(signal.unit).items():
        if abs(value[at]) > factor * max(spread.deviation) / 10 and fits(value / factor, "signals", ALLOWED):
            return f"Probably {unit} where the model reads {signal.unit}: divide {signal.name} by {factor:.4g}."
    turned = value.copy()
    turned[at] = -turned[at]
    if fits(turned, "begin", HOME):
        return f"Probably {signal.name}.{signal.elements[at]} points the other way: with its sign turned it fits."
    shift = value[at] - begin.mean[at]
    text = (
        f"Probably another frame: {signal.name}.{signal.elements[at]} lies {shift:+.2g} {signal.unit} from where "
        f"training's episodes began, at {begin.mean[at]:.3g}"
    )
    if signal.meaning:
        text += f". {signal.name}: {signal.meaning}"
    if trial.contract.sheet is not None:
        text += f". The model's frame: {trial.contract.sheet.frame}"
    return f"{text}."
