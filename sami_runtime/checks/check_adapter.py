"""What every adapter owes to the loop, checked on the adapter itself before a policy drives it.

Most of what goes wrong between simulation and a robot goes wrong here: a signal in another order or unit, a buffer that
is overwritten after it was given away, stamps of another clock, an action that is not what was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.base import Adapter, Executed, Observation, require_compatible, require_observation
from sami_runtime.clock import Clock, Pace
from sami_runtime.errors import AdapterError, SamiError
from sami_runtime.loop.stopping import stopped_after
from sami_runtime.model.contract import Contract
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits, by_element
from sami_runtime.signals import Signal
from sami_runtime.values import is_numeric

Array = NDArray[np.float32]

FUTURE_S = 1e-3
"""How far ahead of the loop's clock a stamp may lie [s], for the rounding of drivers."""


class Verdict(NamedTuple):
    """Whether an adapter keeps a law."""

    law: str
    """What it owes."""
    fault: str = ""
    """How it breaks it, with the offending value; empty where it keeps it."""


def check_adapter(
    adapter: Adapter,
    contract: Contract,
    clock: Clock,
    limits: Limits | None = None,
    ticks: int = 25,
    write: bool = False,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> list[Verdict]:
    """Check an adapter law by law, and stops and closes it however that ends.

    Args:
        adapter: What is checked. It is reset, read, stopped and closed.
        contract: Of the model that is to drive it.
        clock: The loop's, which the adapter's stamps must be times of.
        limits: What will be allowed; `rest` is what is written, and `max_age_s` how old an observation may be.
        ticks: How many ticks of the policy are read, and written.
        write: Whether rest, the action that moves nothing, is written at each tick. Else nothing is written at all.
        on_verdict: Called with each verdict as soon as it is known.

    Returns:
        A verdict for each law; none after a broken one that the others build on.

    Raises:
        SamiError: Something is to be written, and the limits do not say what moves nothing.
    """
    limits = limits or Limits()
    if write and limits.rest is None:
        raise SamiError(
            "to write something, the check has to know the action that moves nothing, and the limits have no rest. Set "
            "it, such as rest = 0.0 where the action is a displacement, or to the signal of the measured position."
        )
    trial, verdicts = _Trial(adapter, contract, clock, limits, ticks, write), []

    def tell(verdict: Verdict) -> None:
        verdicts.append(verdict)
        if on_verdict:
            on_verdict(verdict)

    def judge(law: Law) -> bool:
        fault = ""
        try:
            law.check(trial)
        except SamiError as error:
            fault = str(error)
        except (Exception, SystemExit) as error:  # a driver that leaves the process is broken, too
            fault = f"{type(error).__name__}: {error}"
        tell(Verdict(law.sentence, fault))
        return not fault

    def body() -> None:
        if all(judge(law) for law in FOUNDATIONS):
            for law in (*READING, *(WRITING if write else ()), STOPPING):
                judge(law)

    try:
        stopped_after(adapter, body)
    except AdapterError as error:  # that it could not be stopped: all else is a verdict already
        tell(Verdict("is stopped at the end", str(error)))
    finally:
        judge(CLOSING)
    return verdicts


@dataclass
class _Trial:
    """What the laws found out so far."""

    adapter: Adapter
    contract: Contract
    clock: Clock
    limits: Limits
    ticks: int
    write: bool
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

    def still(self) -> Array:
        """Return what moves nothing (A,), as it was when the episode began; a robot that gives way is not followed."""
        rest = self.limits.rest
        if isinstance(rest, str):
            return np.array(self.seen[0].values[rest], np.float32).reshape(-1)
        return by_element(rest, self.contract.action, 0.0).astype(np.float32)


def _fits(trial: _Trial) -> None:
    adapter = trial.adapter
    require_compatible(trial.contract, adapter.observation, adapter.action, type(adapter).__name__)


def _stops(trial: _Trial) -> None:
    trial.adapter.stop()
    trial.adapter.stop()


def _runs(trial: _Trial) -> None:
    period = 1.0 / trial.contract.rate_hz
    gate = SafetyGate(trial.adapter, trial.contract, trial.limits)  # what is written, it writes, here as elsewhere
    gate.begin(period)
    trial.adapter.reset(0)
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


def _complete(trial: _Trial) -> None:
    for tick, seen in enumerate(trial.seen):
        for signal in trial.adapter.observation:
            if signal.name not in seen.values:
                given = ", ".join(seen.values) or "nothing"
                raise AdapterError(f"read {tick} lacks {signal.name}; it gave {given}")
            value = np.asarray(seen.values[signal.name])
            if value.shape != (signal.size,) or not is_numeric(value):
                raise AdapterError(
                    f"read {tick} gave {signal.name} as {value.dtype} of shape {value.shape}, not ({signal.size},)"
                )
            if not np.isfinite(value).all():
                raise AdapterError(f"read {tick} gave {signal.name} = {value.tolist()}, which is not finite")


def _bounded(trial: _Trial) -> None:
    for tick, seen in enumerate(trial.seen):
        for signal in trial.contract.observation:
            if beyond := _beyond(np.asarray(seen.values[signal.name], np.float64), signal):
                raise AdapterError(f"read {tick} gave {signal.name}.{beyond} [{signal.unit}]; is the unit another one?")


def _clocked(trial: _Trial) -> None:
    for tick, (seen, now) in enumerate(zip(trial.seen, trial.read_at, strict=True)):
        for name, allowed in trial.limits.max_age(trial.contract).items():
            stamp = seen.measured(name)
            if not -FUTURE_S <= now - stamp <= allowed:
                raise AdapterError(
                    f"read {tick} {_stamped(seen, name)} {stamp:.6g} s, and it was {now:.6g} s by the loop's clock: "
                    f"{now - stamp:.3g} s old, allowed are 0 to {allowed:.3g} (max_age_s). Stamp it with the clock "
                    "that the adapter was given"
                )


def _forward(trial: _Trial) -> None:
    for name in (signal.name for signal in trial.contract.observation):
        stamps = [seen.measured(name) for seen in trial.seen]
        for tick, (one, other) in enumerate(pairwise(stamps)):
            if other < one:
                stamped = _stamped(trial.seen[tick + 1], name)
                raise AdapterError(f"read {tick + 1} {stamped} {other:.6g} s, before read {tick} at {one:.6g} s")
        if len(stamps) > 1 and stamps[0] == stamps[-1]:
            hint = "; a simulator stands still unless something is written, so check it with writes"
            what = "observations" if trial.seen[-1].times is None else f"readings of {name}"
            raise AdapterError(f"all {len(stamps)} {what} are stamped {stamps[0]:.6g} s{'' if trial.write else hint}")


def _stamped(seen: Observation, name: str) -> str:
    return "is stamped" if seen.times is None else f"has {name} stamped"


def _kept(trial: _Trial) -> None:
    for tick, (seen, copies) in enumerate(zip(trial.seen, trial.copies, strict=True)):
        for name, copy in copies.items():
            given, later = np.asarray(seen.values[name]), trial.seen[min(tick + 1, len(trial.seen) - 1)]
            shared = later is not seen and np.shares_memory(given, np.asarray(later.values[name]))
            if shared or given.tobytes() != copy:
                raise AdapterError(f"read {tick} gave {name} as a buffer that a later one reuses; return a copy of it")


def _told(trial: _Trial) -> None:
    for tick, sent in enumerate(trial.sent):
        if beyond := _beyond(np.asarray(sent.action, np.float64), trial.contract.action):
            raise AdapterError(f"write {tick} says it executed {beyond} [{trial.contract.action.unit}]")


def _quick(trial: _Trial) -> None:
    half, median = 0.5 / trial.contract.rate_hz, float(np.median(trial.took))
    if median > half:
        raise AdapterError(
            f"they took {1e3 * median:.3g} ms of {2e3 * half:.3g} ms; read in a thread of the adapter's own"
        )


def _closes(trial: _Trial) -> None:
    trial.adapter.close()
    trial.adapter.close()


class Law(NamedTuple):
    """What an adapter owes."""

    sentence: str
    check: Callable[[_Trial], None]
    """Raises where a trial breaks it."""


FOUNDATIONS = (
    Law("declares the signals that the model reads and writes, before it is reset", _fits),
    Law("stops from any state, also before its first episode, and twice", _stops),
    Law("begins an episode, and is read and written tick by tick", _runs),
    Law("gives every signal that it declares, of its size, finite", _complete),
)
"""Laws that the others build on, in their order."""
READING = (
    Law("stays within the bounds that the model was trained with", _bounded),
    Law("measures anew: stamps never go back, and do not stand still", _forward),
    Law("stamps observations with the loop's clock, when they were measured", _clocked),
    Law("gives observations away: a later read or write does not change them", _kept),
    Law("leaves time for the policy: reading and writing take less than half a period, at the median", _quick),
)
WRITING = (Law("says what it executed, within the action's bounds", _told),)
"""Laws that nobody can judge who writes nothing."""
STOPPING = Law("stops in the middle of an episode, and twice", _stops)
CLOSING = Law("closes, and twice", _closes)


def _beyond(value: NDArray[np.float64], signal: Signal) -> str:
    """Return the first number beyond a signal's bounds, by element and with them; empty if none is."""
    for element, number, low, high in zip(signal.elements, value, signal.low, signal.high, strict=True):
        # As float32, in which the numbers come: 0.1 is not beyond 0.1.
        if (low is not None and number < np.float32(low)) or (high is not None and number > np.float32(high)):
            return f"{element} = {number:g}, beyond {low} to {high}"
    return ""
