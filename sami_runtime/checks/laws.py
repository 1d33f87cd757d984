"""What every adapter owes to the loop, whatever the policy learned: signals, stamps, buffers, stopping, time."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Observation, require_compatible, require_observation
from sami_runtime.checks.trial import Trial
from sami_runtime.clock import Pace
from sami_runtime.errors import AdapterError
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.signals import Signal
from sami_runtime.values import is_numeric

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
    trial.begun = trial.clock.now()
    trial.adapter.reset(0)
    trial.ready = trial.clock.now()
    pace = Pace(trial.clock, period)
    for tick in range(trial.ticks):
        if tick:
            pace.wait()
        began = time.perf_counter()
        seen = require_observation(trial.adapter.read(), trial.adapter)
        now = trial.clock.now()
        trial.read_at.append(now)
        trial.seen.append(seen)
        trial.copies.append({name: np.asarray(value).tobytes() for name, value in seen.values.items()})
        if trial.write:
            gate.fault(seen, now)  # it learns where the robot rests; what it objects to, other laws tell better
            sent = gate.write(gate.propose(trial.still(), now))
            if sent is not None:
                trial.sent.append(sent)
        trial.took.append(time.perf_counter() - began)
        if trial.sent and trial.sent[-1].done:
            break


def complete(trial: Trial) -> None:
    """Refuse a signal that is missing, of another shape, or not finite."""
    for tick, observation in enumerate(trial.seen):
        for signal in trial.adapter.observation:
            if signal.name not in observation.values:
                names = ", ".join(observation.values) or "nothing"
                raise AdapterError(f"read {tick} lacks {signal.name}; it gave {names}")
            value = np.asarray(observation.values[signal.name])
            if value.shape != (signal.size,) or not is_numeric(value):
                raise AdapterError(
                    f"read {tick} gave {signal.name} as {value.dtype} of shape {value.shape}, not ({signal.size},)"
                )
            if not np.isfinite(value).all():
                raise AdapterError(f"read {tick} gave {signal.name} = {value.tolist()}, which is not finite")


def bounded(trial: Trial) -> None:
    """Refuse a number beyond the contract's bounds."""
    for tick, observation in enumerate(trial.seen):
        for signal in trial.contract.observation:
            if beyond := _beyond(np.asarray(observation.values[signal.name], np.float64), signal):
                raise AdapterError(f"read {tick} gave {signal.name}.{beyond} [{signal.unit}]; is the unit another one?")


def begins_anew(trial: Trial) -> None:
    """Refuse a first observation from before the episode."""
    stamp = trial.seen[0].time  # a single signal that is old is what the law of stamps finds
    if stamp < trial.begun - FUTURE_S or stamp < trial.ready - RESET_S:
        raise AdapterError(
            f"the first observation of the episode was measured {trial.ready - stamp:.3g} s before reset() was done, "
            f"which took {trial.ready - trial.begun:.3g} s: it tells of what was before. Throw away in reset() what "
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
        for tick, (one, other) in enumerate(pairwise(stamps)):
            if other < one:
                stamped = _stamped(trial.seen[tick + 1], name)
                raise AdapterError(f"read {tick + 1} {stamped} {other:.6g} s, before read {tick} at {one:.6g} s")
        if len(stamps) > 1 and stamps[0] == stamps[-1]:
            hint = "; a simulator stands still unless something is written, so check it with writes"
            what = "observations" if trial.seen[-1].times is None else f"readings of {name}"
            raise AdapterError(f"all {len(stamps)} {what} are stamped {stamps[0]:.6g} s{'' if trial.write else hint}")


def keeps_buffers(trial: Trial) -> None:
    """Refuse buffers that change after they were given away."""
    for tick, (seen, copies) in enumerate(zip(trial.seen, trial.copies, strict=True)):
        for name, copy in copies.items():
            values, later = np.asarray(seen.values[name]), trial.seen[min(tick + 1, len(trial.seen) - 1)]
            shared = later is not seen and np.shares_memory(values, np.asarray(later.values[name]))
            if shared or values.tobytes() != copy:
                raise AdapterError(f"read {tick} gave {name} as a buffer that a later one reuses; return a copy of it")


def reports_executed(trial: Trial) -> None:
    """Refuse an executed action beyond the action's bounds."""
    for tick, sent in enumerate(trial.sent):
        if beyond := _beyond(np.asarray(sent.action, np.float64), trial.contract.action):
            raise AdapterError(f"write {tick} says it executed {beyond} [{trial.contract.action.unit}]")


def quick(trial: Trial) -> None:
    """Refuse reads and writes that leave the policy no time."""
    half, median = 0.5 / trial.contract.rate_hz, float(np.median(trial.took))
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


def _beyond(value: NDArray[np.float64], signal: Signal) -> str:
    """Return the first number beyond a signal's bounds, by element and with them; empty if none is."""
    for element, number, low, high in zip(signal.elements, value, signal.low, signal.high, strict=True):
        # As float32, in which the numbers come: 0.1 is not beyond 0.1.
        if (low is not None and number < np.float32(low)) or (high is not None and number > np.float32(high)):
            return f"{element} = {number:g}, beyond {low} to {high}"
    return ""
