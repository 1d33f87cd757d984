"""What every adapter owes to the loop: signals, stamps, buffers, stopping, time, and numbers that training saw."""

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
from sami_runtime.model.seen import ALLOWED, FACTORS, LEAST, Responses
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits, by_element
from sami_runtime.signals import Signal, numbers_of

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
    start_s: float = 0.0
    """When the episode was asked for [s], by the loop's clock."""
    ready: float = 0.0
    """When `reset` was done with it [s]."""
    seen: list[Observation] = field(default_factory=list)
    """Every observation, as it was given."""
    copies: list[dict[str, bytes]] = field(default_factory=list)
    """Its values at that moment."""
    read_at: list[float] = field(default_factory=list)
    """When it was read [s], by the loop's clock."""
    tick_times: list[float] = field(default_factory=list)
    """How long reading and writing took at each tick [s]."""
    sent: list[Executed] = field(default_factory=list)
    """What became of each action."""
    pairs: int = 0
    """How often the robot was moved to either side."""
    unproven: str = ""
    """What the law that was checked last could not judge, and what to do about it; empty where it judged all."""

    @property
    def responses(self) -> Responses:
        """What answered to moves in simulation, and what these were; there is no trial of moves without it."""
        assert self.contract.seen is not None
        assert self.contract.seen.responses is not None
        return self.contract.seen.responses

    def still(self, first_values: Mapping[str, NDArray[Any]] | None = None) -> Array:
        """Return what moves nothing (A,), as it was when the episode began; a robot that gives way is not followed.

        Args:
            first_values: The first values of the episode; those of the first episode if None.
        """
        rest = self.limits.rest
        if isinstance(rest, str):
            return np.array((first_values or self.seen[0].values)[rest], np.float32).reshape(-1)
        return by_element(rest, self.contract.action, 0.0).astype(np.float32)


class Law(NamedTuple):
    """What an adapter owes."""

    sentence: str
    check: Callable[[Trial], str | None]
    """Raises where a trial breaks it; may return what else is worth knowing."""


FUTURE_S = 1e-3
"""How far ahead of the loop's clock a stamp may lie [s], for the rounding of drivers."""
RESET_S = 5e-3
"""How long before the end of `reset` the first observation may be stamped [s]: a simulator stamps within it."""


def fits(trial: Trial) -> None:
    """Refuse signals that the model cannot drive."""
    adapter = trial.adapter
    require_compatible(trial.contract, adapter.observation, adapter.action, type(adapter).__name__)


def stops(trial: Trial) -> None:
    """Stop it twice."""
    trial.adapter.stop()
    trial.adapter.stop()


def runs(trial: Trial) -> None:
    """Begin an episode, and read it tick by tick; write rest, where that was asked for."""
    period = 1.0 / trial.contract.rate_hz
    gate = SafetyGate(trial.adapter, trial.contract, trial.limits)  # what is written, it writes, here as elsewhere
    gate.begin(period)
    trial.start_s = trial.clock.now()
    trial.adapter.reset(0)
    trial.ready = trial.clock.now()
    pace = Pace(trial.clock, period)
    for tick in range(trial.ticks):
        if tick:
            pace.wait()
        start_time = time.perf_counter()
        seen = require_observation(trial.adapter.read(), trial.adapter)
        now = trial.clock.now()
        trial.read_at.append(now)
        trial.seen.append(seen)
        trial.copies.append({name: numbers_of(value).tobytes() for name, value in seen.values.items()})
        if trial.write:
            gate.fault(seen, now)  # it learns where the robot rests; what it objects to, other laws tell better
            sent = gate.write(gate.propose(trial.still(), now))
            if sent is not None:
                trial.sent.append(sent)
        trial.tick_times.append(time.perf_counter() - start_time)
        if trial.sent and trial.sent[-1].done:
            break


def complete(trial: Trial) -> None:
    """Refuse a signal that is missing, of another shape, or not finite."""
    for tick, observation in enumerate(trial.seen):
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
    """Refuse a number beyond the contract's bounds."""
    for tick, observation in enumerate(trial.seen):
        for signal in trial.contract.observation:
            if beyond := _beyond(observation.values[signal.name], signal):
                raise AdapterError(f"read {tick} gave {signal.name}.{beyond} [{signal.unit}]; is the unit another one?")


def begins_anew(trial: Trial) -> None:
    """Refuse a first observation from before the episode."""
    stamp = trial.seen[0].time  # a single signal that is old is what the law of stamps finds
    if stamp < trial.start_s - FUTURE_S or stamp < trial.ready - RESET_S:
        raise AdapterError(
            f"the first observation of the episode was measured {trial.ready - stamp:.3g} s before reset() was done, "
            f"which took {trial.ready - trial.start_s:.3g} s: it tells of what was before. Throw away in reset() what "
            "was measured until its end, and wait in the first read() for what comes after it"
        )


def clocked(trial: Trial) -> None:
    """Refuse stamps that are no times of the loop's clock, or too old."""
    for tick, (seen, now) in enumerate(zip(trial.seen, trial.read_at, strict=True)):
        for name, allowed in trial.limits.max_age(trial.contract).items():
            stamp = seen.measured(name)
            if not -FUTURE_S <= now - stamp <= allowed:
                raise AdapterError(
                    f"read {tick} {_stamped(seen, name)} {stamp:.6g} s, and it was {now:.6g} s by the loop's clock: "
                    f"{now - stamp:.3g} s old, allowed are 0 to {allowed:.3g} (max_age_s). Stamp it with the clock "
                    "that the adapter was given"
                )


def forward(trial: Trial) -> None:
    """Refuse stamps that go back, or stand still."""
    for name in (signal.name for signal in trial.contract.observation):
        stamps = [observation.measured(name) for observation in trial.seen]
        for tick, (stamp, following) in enumerate(pairwise(stamps)):
            if following < stamp:
                stamped = _stamped(trial.seen[tick + 1], name)
                raise AdapterError(f"read {tick + 1} {stamped} {following:.6g} s, before read {tick} at {stamp:.6g} s")
        if len(stamps) > 1 and stamps[0] == stamps[-1]:
            hint = "; a simulator stands still unless something is written, so check it with writes"
            kind = "observations" if trial.seen[-1].times is None else f"readings of {name}"
            raise AdapterError(f"all {len(stamps)} {kind} are stamped {stamps[0]:.6g} s{'' if trial.write else hint}")


def keeps_buffers(trial: Trial) -> None:
    """Refuse buffers that change after they were given away."""
    for tick, (seen, copies) in enumerate(zip(trial.seen, trial.copies, strict=True)):
        for name, copy in copies.items():
            values, later = numbers_of(seen.values[name]), trial.seen[min(tick + 1, len(trial.seen) - 1)]
            shared = later is not seen and np.shares_memory(values, numbers_of(later.values.get(name)))
            if shared or values.tobytes() != copy:
                raise AdapterError(f"read {tick} gave {name} as a buffer that a later one reuses; return a copy of it")


def reports_executed(trial: Trial) -> None:
    """Refuse an executed action beyond the action's bounds."""
    for tick, sent in enumerate(trial.sent):
        if beyond := _beyond(sent.action, trial.contract.action):
            raise AdapterError(f"write {tick} says it executed {beyond} [{trial.contract.action.unit}]")


def quick(trial: Trial) -> None:
    """Refuse reads and writes that leave the policy no time."""
    half, median = 0.5 / trial.contract.rate_hz, float(np.median(trial.tick_times))
    if median > half:
        raise AdapterError(
            f"they took {1e3 * median:.3g} ms of {2e3 * half:.3g} ms; read in a thread of the adapter's own"
        )


def closes(trial: Trial) -> None:
    """Close it twice."""
    trial.adapter.close()
    trial.adapter.close()


def _stamped(observation: Observation, name: str) -> str:
    return "is stamped" if observation.times is None else f"has {name} stamped"


def _beyond(values: NDArray[np.floating], signal: Signal) -> str:
    """Return the first number beyond a signal's bounds, by element and with them; empty if none is."""
    for element, number, low, high in zip(
        signal.elements, np.asarray(values, np.float64), signal.low, signal.high, strict=True
    ):
        # As float32, in which the numbers come: 0.1 is not beyond 0.1.
        if (low is not None and number < np.float32(low)) or (high is not None and number > np.float32(high)):
            return f"{element} = {number:g}, beyond {low} to {high}"
    return ""


When = Literal["signals", "begin"]
"""Over all steps, or over the first steps of the episodes."""
HOME = 1.0
"""Deviations beyond where training's episodes began from which an episode's beginning is worth a note."""
SHOWN = 3
"""Most elements that a fault names."""


class _Stray(NamedTuple):
    """A number that training never saw, nor anything near it."""

    signal: Signal
    element: int
    step: int
    value: float
    deviations: float
    """How far beyond what training saw, in deviations."""


def accustomed(trial: Trial) -> str | None:
    """Refuse observations that are not such as training saw; return where the episode began elsewhere than there."""
    values = {
        signal.name: np.stack([np.asarray(observation.values[signal.name], np.float64) for observation in trial.seen])
        for signal in trial.contract.observation
    }
    outliers = []
    for signal in trial.contract.observation:
        far = _deviations(trial.contract, signal, "signals", values[signal.name])
        for element, step in enumerate(far.argmax(axis=0)):  # the farthest of each element
            if far[step, element] > ALLOWED:
                value = float(values[signal.name][step, element])
                outliers.append(_Stray(signal, element, int(step), value, float(far[step, element])))
    if not outliers:
        return _away_from_home(trial.contract, {name: value[0] for name, value in values.items()})
    outliers.sort(key=lambda stray: -stray.deviations)
    shown = [_sentence(stray, trial.contract) for stray in outliers[:SHOWN]]
    if len(outliers) > SHOWN:
        shown.append(f"and {len(outliers) - SHOWN} other elements")
    begin = trial.contract.seen.begin if trial.contract.seen else {}
    # What hardly differs from episode to episode tells best what became of it.
    surest = min(outliers, key=lambda stray: begin[stray.signal.name].deviation[stray.element])
    why = _probably(trial.contract, surest, values[surest.signal.name][surest.step])
    raise AdapterError(f"{'; '.join(shown)}. {why}")


def _deviations(contract: Contract, signal: Signal, when: When, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many deviations values (T, size) lie beyond all that training saw, ever or at first; 0 within."""
    assert contract.seen is not None
    limits = getattr(contract.seen, when)[signal.name]
    beyond = np.maximum(np.array(limits.lowest) - values, values - np.array(limits.highest)).clip(0.0)
    deviation = np.array(contract.seen.signals[signal.name].deviation)
    deviation = np.maximum(deviation, LEAST * deviation.max())
    # What was the same in all of training says nothing about what it could have been.
    return np.divide(beyond, deviation, out=np.zeros_like(beyond), where=deviation > 0)


def _away_from_home(contract: Contract, first: Mapping[str, NDArray[np.float64]]) -> str | None:
    """Return where the first observation, (size,) by signal, lies elsewhere than the first ones of training did."""
    assert contract.seen is not None
    away = []
    for signal in contract.observation:
        begin, numbers = contract.seen.begin[signal.name], first[signal.name]
        far = _deviations(contract, signal, "begin", numbers[None])[0]
        for at in np.flatnonzero(far > HOME):
            low, high = begin.lowest[at], begin.highest[at]
            name = f"{signal.name}.{signal.elements[at]}"
            away.append(f"{name} = {numbers[at]:.3g} {signal.unit} (there {low:.3g} to {high:.3g})")
    if not away:
        return None
    home = f" Home is: {contract.sheet.home}." if contract.sheet is not None else ""
    return f"the episode began elsewhere than those of training: {', '.join(away)}.{home}"


def _sentence(stray: _Stray, contract: Contract) -> str:
    assert contract.seen is not None
    signal, spread, at = stray.signal, contract.seen.signals[stray.signal.name], stray.element
    return (
        f"read {stray.step} gave {signal.name}.{signal.elements[at]} = {stray.value:.4g} {signal.unit}, and training "
        f"saw {spread.lowest[at]:.3g} to {spread.highest[at]:.3g} (mean {spread.mean[at]:.3g}, deviation "
        f"{spread.deviation[at]:.2g}): {stray.deviations:.1f} deviations beyond"
    )


def _probably(contract: Contract, stray: _Stray, value: NDArray[np.float64]) -> str:
    """Return what is probably wrong with a signal that strays with its value (size,)."""
    assert contract.seen is not None
    signal, at = stray.signal, stray.element
    spread, begin = contract.seen.signals[signal.name], contract.seen.begin[signal.name]

    def fits(candidate: NDArray[np.float64], when: When, allowed: float) -> bool:
        return bool((_deviations(contract, signal, when, candidate[None]) <= allowed).all())

    for unit, factor in FACTORS.get(signal.unit, {}).items():
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
    if contract.sheet is not None:
        text += f". The model's frame: {contract.sheet.frame}"
    return f"{text}."
